"""Pages on which admins manage accounts."""

from __future__ import annotations

from functools import partial
from typing import Any

from fastapi import APIRouter, Response

from easeml_meter.checks import MAX_NAME
from easeml_meter.core.people import User
from easeml_meter.errors import invalid
from easeml_meter.server.parameters import Id
from easeml_meter.server.web.forms import fill, show_forms
from easeml_meter.server.web.pages import Visit, VisitHere
from easeml_meter.service import seats
from easeml_meter.service import users as service
from easeml_meter.service.invitations import DAYS, invite

router = APIRouter(include_in_schema=False)

_CHANGES: dict[str, tuple[str, Any, str]] = {
    "disable": ("disabled", True, "can no longer sign in"),
    "enable": ("disabled", False, "can sign in again"),
    "make admin": ("admin", True, "is an admin now"),
    "no admin": ("admin", False, "is no longer an admin"),
}


@router.get("/admin/users")
def users(visit: VisitHere) -> Response:
    """List all accounts."""
    return _users(visit)


def _users(
    visit: Visit,
    status: int = 200,
    problems: dict[str, str] | None = None,
    made: User | None = None,
    password: str = "",
) -> Response:
    return show_forms(
        visit,
        "admin_users.html",
        problems,
        status=status,
        users=service.list_users(visit.at_site(), visit.site),
        made=made,
        password=password,
    )


@router.post("/admin/users")
def add_user(visit: VisitHere) -> Response:
    """Open an account; its first password is shown once."""

    def add() -> Response:
        password = service.random_password()
        made = service.add_user(
            visit.at_site(),
            visit.site,
            visit.field("name", longest=MAX_NAME),
            email=visit.form.get("email", "").strip() or None,
            password=password,
            admin="admin" in visit.form,
        )
        return _users(visit, made=made, password=password)

    return fill(visit, "add", add, _users)


@router.get("/admin/users/{user}")
def user(visit: VisitHere, user: Id) -> Response:
    """Show an account."""
    return _user(visit, user)


def _user(
    visit: Visit,
    user: str,
    *,
    status: int = 200,
    problems: dict[str, str] | None = None,
    password: str = "",
    invitation: str = "",
) -> Response:
    actor = visit.at_site()
    return show_forms(
        visit,
        "admin_user.html",
        problems,
        status=status,
        seats=seats.seats_of_user(actor, visit.site, user),
        user=service.show_user(actor, visit.site, user),
        password=password,
        invitation=f"{visit.server}/join#{invitation}" if invitation else "",
        days=DAYS,
    )


@router.post("/admin/users/{user}")
def change_user(visit: VisitHere, user: Id) -> Response:
    """Change an account in one way; a new password, or an invitation, is shown once."""
    actor, chosen = visit.at_site(), visit.form.get("change", "")

    def change() -> Response:
        if chosen == "password":
            password = service.reset_password(actor, visit.site, user)
            return _user(visit, user, password=password)
        if chosen == "invite":
            return _user(visit, user, invitation=invite(actor, visit.site, user))
        if chosen not in _CHANGES:
            raise invalid("change", chosen[:40], f"one of password, invite, {', '.join(_CHANGES)}")
        field, value, told = _CHANGES[chosen]
        changed = service.change_user(actor, visit.site, user, **{field: value})
        return visit.redirect(f"/admin/users/{user}", f"{changed.name} {told}.")

    return fill(visit, "change", change, partial(_user, user=user))
