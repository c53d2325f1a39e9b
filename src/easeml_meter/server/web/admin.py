"""Pages on which admins manage meters, seats and accounts."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response

from easeml_meter.checks import MAX_NAME, one_of
from easeml_meter.core.history import MeterState
from easeml_meter.core.people import SEATED, Role, User
from easeml_meter.errors import invalid
from easeml_meter.report.audit import audit_words
from easeml_meter.server.api.common import Page
from easeml_meter.server.api.history import audit
from easeml_meter.server.parameters import Id
from easeml_meter.server.web.pages import Visit, VisitHere, fill, show_forms
from easeml_meter.service import meters, seats, users
from easeml_meter.service.actor import permit
from easeml_meter.service.handovers import list_handovers
from easeml_meter.service.tokens import DAYS, invite

router = APIRouter(include_in_schema=False)

Place = Annotated[str, Query(max_length=300)]
_FIRST_METERS = 3
"""A new site has few; the seats of more are not looked at."""


@router.get("/admin")
def admin(visit: VisitHere) -> Response:
    """Show what there is to manage, and the server's key."""
    actor = visit.at_site()
    permit(actor, meters.create_meter)
    found = meters.list_meters(actor, visit.site, visit.caller)
    states = [meters.meter_state(visit.at(each.id), visit.site.space(each.id)) for each, _ in found]
    recipient = visit.site.identity.recipient
    digest = hashlib.sha256(recipient.encode()).hexdigest()[:32]
    fingerprint = " ".join(digest[at : at + 4] for at in range(0, 32, 4))
    return visit.render(
        "admin.html",
        meters=states,
        archived=meters.list_archived(actor, visit.site),
        steps=_first_steps(
            states,
            people=len(users.list_users(actor, visit.site)),
            seated=any(
                seats.is_staffed(visit.at(state.meter.id), visit.site.space(state.meter.id))
                for state in states[:_FIRST_METERS]
            ),
        ),
        recipient=recipient,
        fingerprint=fingerprint,
    )


@dataclass(frozen=True)
class FirstStep:
    """One step of setting up a site."""

    title: str
    words: str
    over: bool
    address: str = ""
    whose: str = ""
    """Who takes it, if not the admin."""


def _first_steps(states: Sequence[MeterState], *, people: int, seated: bool) -> list[FirstStep]:
    """Return how far a new site has got; empty once it is set up."""
    sets = [each for state in states for each in state.generations]
    given = any(state.validation is not None for state in states)
    first = f"/admin/meters/{states[0].meter.id}" if states else ""
    found = [
        FirstStep(
            "Add people",
            "A developer and a labeler at least; a runner if inputs stay hidden. One role each.",
            people > 1,
            "/admin/users",
        ),
        FirstStep(
            "Make a meter",
            "Plan answers, bands and tolerance, and see how many labels that takes.",
            bool(states),
            "/admin/meters/new",
        ),
        FirstStep(
            "Give seats",
            "A seat makes somebody developer, labeler or runner of a meter.",
            seated or given or any(each.rows is not None for each in sets),
            f"{first}#seats" if first else "",
        ),
        FirstStep(
            "Deliver the labels",
            "The labeler drops a file. It is encrypted in the browser.",
            any(each.rows is not None for each in sets),
            whose="labeler",
        ),
        FirstStep(
            "Hand in a validation set, then a first model",
            "The first answer appears, with its promise.",
            given,
            whose="developer",
        ),
    ]
    return [] if all(step.over for step in found) else found


@router.get("/admin/meters/{meter}")
def meter(visit: VisitHere, meter: Id, after: Place = "") -> Response:
    """Show a meter's seats and audit trail."""
    return _meter_page(visit, meter, after=after)


def _meter_page(
    visit: Visit,
    meter: str,
    *,
    status: int = 200,
    problems: dict[str, str] | None = None,
    after: str = "",
) -> Response:
    site, actor = visit.site, visit.at(meter)
    space = site.space(meter)
    situation = meters.show_meter(actor, space)
    everyone = users.list_users(visit.at_site(), site)
    names = {each.id: each.name for each in everyone}
    return show_forms(
        visit,
        "admin_meter.html",
        problems,
        status=status,
        meter=situation.meter,
        situation=situation,
        archivable=meters.may_archive(actor, space),
        handovers=list_handovers(actor, space),
        seats=seats.list_seats(actor, space),
        users=[each for each in everyone if not each.disabled],
        names=names,
        roles=SEATED,
        trail=audit(actor, space, Page(after=after)),
        told=lambda link: audit_words(link, names),
        after=after,
    )


def _at_meter(visit: Visit, meter: str, form: str, act: Callable[[], Response]) -> Response:
    """Do what a form on the page of a meter asks for, or show that page again with the problem."""
    return fill(visit, form, act, partial(_meter_page, meter=meter))


@router.post("/admin/meters/{meter}/archive")
def archive_meter(visit: VisitHere, meter: Id) -> Response:
    """Give a meter up before its first answer."""

    def archive() -> Response:
        permit(visit.at(meter), meters.archive_meter)
        visit.field("sure")
        archived = meters.archive_meter(visit.at(meter), visit.site.space(meter))
        return visit.redirect("/admin", f"{archived.meter.name} is archived.")

    return _at_meter(visit, meter, "archive", archive)


_CHANGES: dict[str, tuple[str, Any, str]] = {
    "disable": ("disabled", True, "can no longer sign in"),
    "enable": ("disabled", False, "can sign in again"),
    "make admin": ("admin", True, "is an admin now"),
    "no admin": ("admin", False, "is no longer an admin"),
}


@router.get("/admin/users")
def list_users(visit: VisitHere) -> Response:
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
        users=users.list_users(visit.at_site(), visit.site),
        made=made,
        password=password,
    )


@router.post("/admin/users")
def add_user(visit: VisitHere) -> Response:
    """Open an account; its first password is shown once."""

    def add() -> Response:
        password = users.random_password()
        made = users.add_user(
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
        user=users.show_user(actor, visit.site, user),
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
            password = users.reset_password(actor, visit.site, user)
            return _user(visit, user, password=password)
        if chosen == "invite":
            return _user(visit, user, invitation=invite(actor, visit.site, user))
        if chosen not in _CHANGES:
            raise invalid("change", chosen[:40], f"one of password, invite, {', '.join(_CHANGES)}")
        field, value, told = _CHANGES[chosen]
        changed = users.change_user(actor, visit.site, user, **{field: value})
        return visit.redirect(f"/admin/users/{user}", f"{changed.name} {told}.")

    return fill(visit, "change", change, partial(_user, user=user))


@router.post("/admin/meters/{meter}/seats")
def add_seat(visit: VisitHere, meter: Id) -> Response:
    """Give a user a seat."""
    return _change_seat(visit, meter, seats.add_seat, "is {role} of this meter now")


@router.post("/admin/meters/{meter}/seats/remove")
def remove_seat(visit: VisitHere, meter: Id) -> Response:
    """Take a seat away."""
    return _change_seat(visit, meter, seats.remove_seat, "is no longer {role}")


def _change_seat(visit: Visit, meter: str, act: Callable[..., object], words: str) -> Response:
    def change() -> Response:
        tenant = visit.form.get("tenant", "").strip() or "0"
        if not (tenant.isascii() and tenant.isdigit() and len(tenant) <= 6):
            raise invalid("tenant", tenant[:40], "its number, from 1; nothing for labelers")
        user, role = visit.field("user", longest=32), one_of("role", visit.field("role"), Role)
        act(visit.at(meter), visit.site.space(meter), user, role, int(tenant))
        name = users.show_user(visit.at_site(), visit.site, user).name
        return visit.redirect(f"/admin/meters/{meter}", f"{name} {words.format(role=role)}.")

    return _at_meter(visit, meter, "seat", change)
