"""What admins do: users, seats, meters, keys, audit trails, webhooks; and everyone's account."""

from __future__ import annotations

import hashlib
import json
import secrets
import tomllib
from collections import defaultdict
from collections.abc import Callable
from typing import Annotated, Any
from urllib.parse import parse_qsl, urlsplit

from fastapi import APIRouter, Query, Response

from easeml_meter import checks
from easeml_meter.checks import one_of
from easeml_meter.core.people import Role, User
from easeml_meter.errors import (
    Denied,
    InvalidInput,
    MeterError,
    NotFound,
    StorageError,
    Unauthenticated,
    invalid,
)
from easeml_meter.report.words import shown
from easeml_meter.server.api.audit import audit
from easeml_meter.server.api.common import Page, seat_for
from easeml_meter.server.errors import problem
from easeml_meter.server.parameters import Id
from easeml_meter.server.web.pages import Visit, VisitHere
from easeml_meter.server.web.planner import asked_of, spec_of, toml_of
from easeml_meter.service import hooks, meters, seats, tokens
from easeml_meter.service import users as user_service
from easeml_meter.service.actor import SYSTEM, Permission
from easeml_meter.spec import MeterSpec

router = APIRouter(include_in_schema=False)

Place = Annotated[str, Query(max_length=300)]
_ROLES = (Role.DEVELOPER, Role.LABELER, Role.RUNNER)
_LONGEST_TOML = 100_000
_PAGES = (Unauthenticated, Denied, NotFound, StorageError)
"""Errors with a page of their own; all others are shown beside the form."""


def _fill(
    visit: Visit, form: str, deed: Callable[[], Response], page: Callable[..., Response]
) -> Response:
    """Do what a form asks for, or show its page again with what was wrong, beside that form."""
    try:
        return deed()
    except _PAGES:
        raise
    except MeterError as error:
        status, told = problem(error)
        return page(visit, status=status, problems={form: told.message})


def _show(visit: Visit, template: str, problems: dict[str, str] | None, **values: Any) -> Response:
    """Answer with a page of forms: those with a problem keep what was typed.

    What is shown once, such as a password, stays out of every cache.
    """
    typed = visit.form if problems else {}
    answer = visit.render(
        template,
        problems=defaultdict(str, problems or {}),
        form=defaultdict(str, typed),
        **values,
    )
    answer.headers["Cache-Control"] = "no-store"
    return answer


# Users


@router.get("/admin")
def admin(visit: VisitHere) -> Response:
    """Show what there is to manage, and the server's key."""
    visit.caller.require_admin()
    with visit.site.reading() as books:
        meters = books.meters.all()
    recipient = visit.site.identity.recipient
    digest = hashlib.sha256(recipient.encode()).hexdigest()[:32]
    fingerprint = " ".join(digest[at : at + 4] for at in range(0, 32, 4))
    return visit.render("admin.html", meters=meters, recipient=recipient, fingerprint=fingerprint)


@router.get("/admin/users")
def users(visit: VisitHere) -> Response:
    """List all accounts."""
    visit.caller.require_admin()
    return _users(visit)


def _users(
    visit: Visit,
    status: int = 200,
    problems: dict[str, str] | None = None,
    made: User | None = None,
    password: str = "",
) -> Response:
    users = user_service.users(visit.site)
    return _show(
        visit,
        "admin_users.html",
        problems,
        status=status,
        users=users,
        made=made,
        password=password,
    )


@router.post("/admin/users")
def add_user(visit: VisitHere) -> Response:
    """Open an account; its first password is shown once."""
    visit.caller.require_admin()

    def add() -> Response:
        password = _new_password()
        made = user_service.add_user(
            visit.site,
            visit.field("name", longest=checks.MAX_NAME),
            email=visit.form.get("email", "").strip() or None,
            password=password,
            admin="admin" in visit.form,
        )
        return _users(visit, made=made, password=password)

    return _fill(visit, "add", add, _users)


def _new_password() -> str:
    return secrets.token_urlsafe(15)


@router.get("/admin/users/{user}")
def user(visit: VisitHere, user: Id) -> Response:
    """Show an account."""
    visit.caller.require_admin()
    return _user_page(visit, user)


def _user_page(
    visit: Visit,
    user: str,
    status: int = 200,
    problems: dict[str, str] | None = None,
    password: str = "",
) -> Response:
    found = user_service.user(visit.site, user)
    with visit.site.reading() as books:
        meters = books.meters.all()
    given = [
        (meter, seat)
        for meter in meters
        for seat in seats.members(visit.site, meter.id)
        if seat.user == user
    ]
    return _show(
        visit,
        "admin_user.html",
        problems,
        status=status,
        user=found,
        seats=given,
        password=password,
    )


@router.post("/admin/users/{user}")
def change_user(visit: VisitHere, user: Id) -> Response:
    """Change an account in one way, or give it a new password, which is shown once."""
    visit.caller.require_admin()
    chosen = visit.form.get("change", "")

    def change() -> Response:
        if chosen == "password":
            password = _new_password()
            user_service.change_user(visit.site, user, password=password)
            return _user_page(visit, user, password=password)
        if chosen not in _CHANGES:
            raise invalid("change", chosen[:40], f"one of password, {', '.join(_CHANGES)}")
        field, value, told = _CHANGES[chosen]
        changed = user_service.change_user(visit.site, user, **{field: value})
        return visit.redirect(f"/admin/users/{user}", f"{changed.name} {told}.")

    def again(visit: Visit, **values: Any) -> Response:
        return _user_page(visit, user, **values)

    return _fill(visit, "change", change, again)


_CHANGES = {
    "disable": ("disabled", True, "can no longer sign in"),
    "enable": ("disabled", False, "can sign in again"),
    "make admin": ("admin", True, "is an admin now"),
    "no admin": ("admin", False, "is no longer an admin"),
}


# Meters


@router.get("/admin/meters/new")
def new_meter(visit: VisitHere, link: Annotated[str, Query(max_length=4000)] = "") -> Response:
    """Show the form for a new meter, filled from the planner's link or its query, if given."""
    visit.caller.require_admin()

    def fill() -> Response:
        query = _query(link) if link else visit.request.query_params
        if not link and not query:
            return _new_meter(visit)
        if "steps" not in query:
            raise invalid("link", link[:80], "copy it from the planner, with all after the ?")
        return _new_meter(visit, text=toml_of(spec_of(asked_of(query))), link=link)

    def again(visit: Visit, **values: Any) -> Response:
        return _new_meter(visit, link=link, **values)

    return _fill(visit, "link", fill, again)


def _query(link: str) -> dict[str, str]:
    try:
        return dict(parse_qsl(urlsplit(link).query, max_num_fields=99))
    except ValueError:
        return {}


def _new_meter(
    visit: Visit,
    status: int = 200,
    problems: dict[str, str] | None = None,
    link: str = "",
    text: str = "",
) -> Response:
    return _show(visit, "admin_new_meter.html", problems, status=status, link=link, text=text)


@router.post("/admin/meters/new")
def create_meter(visit: VisitHere) -> Response:
    """Make a meter, and ask for its first test set."""
    visit.caller.require_admin()

    def create() -> Response:
        name = visit.field("name", longest=checks.MAX_NAME)
        try:
            tables = tomllib.loads(visit.field("text", longest=_LONGEST_TOML))
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            raise InvalidInput(f"meter.toml: not valid TOML: {error}") from None
        row = meters.create_meter(SYSTEM, visit.site, MeterSpec.from_mapping(tables), name)
        return visit.redirect(
            f"/admin/meters/{row.id}",
            f"{name} is made. Give seats, so that labelers can deliver its first test set.",
        )

    return _fill(visit, "meter", create, _new_meter)


@router.get("/admin/meters/{meter}")
def meter(visit: VisitHere, meter: Id, after: Place = "") -> Response:
    """Show a meter's seats, webhooks and audit trail."""
    seat_for(visit.site, visit.caller, meter, Permission.MANAGE)
    return _meter_page(visit, meter, after=after)


def _meter_page(
    visit: Visit,
    meter: str,
    *,
    status: int = 200,
    problems: dict[str, str] | None = None,
    after: str = "",
    secret: str = "",
) -> Response:
    site = visit.site
    space = site.space(meter)
    with space.reading() as books:
        situation = space.state(books)
    everyone = user_service.users(site)
    names = {each.id: each.name for each in everyone}
    return _show(
        visit,
        "admin_meter.html",
        problems,
        status=status,
        meter=situation.meter,
        situation=situation,
        seats=seats.members(site, meter),
        users=[each for each in everyone if not each.disabled],
        names=names,
        roles=_ROLES,
        trail=audit(visit.at(meter), space, Page(after=after)),
        told=lambda details: _told(details, names),
        after=after,
        webhooks=hooks.webhooks(site, meter),
        events=[*hooks.EVENTS, *(f"{hooks.TOLD}:{n + 1}" for n in range(situation.tenants))],
        usual=tuple(hooks.EVENTS),
        secret=secret,
    )


def _told(details: dict[str, Any], names: dict[str, str]) -> str:
    """Give the details of an audit link in a line, with names instead of users' ids."""
    words = []
    for key, value in details.items():
        plain = names.get(value, value) if isinstance(value, str) else json.dumps(value)
        words.append(f"{key.replace('_', ' ')} {shown(plain, 80)}")
    return ", ".join(words)


def _at_meter(visit: Visit, meter: str, form: str, deed: Callable[[], Response]) -> Response:
    def again(visit: Visit, **values: Any) -> Response:
        return _meter_page(visit, meter, **values)

    seat_for(visit.site, visit.caller, meter, Permission.MANAGE)
    return _fill(visit, form, deed, again)


@router.post("/admin/meters/{meter}/seats")
def add_seat(visit: VisitHere, meter: Id) -> Response:
    """Give a user a seat."""

    def add() -> Response:
        user, role, tenant = _seat(visit)
        seats.add_member(visit.site, user, meter, role, tenant)
        name = user_service.user(visit.site, user).name
        return visit.redirect(f"/admin/meters/{meter}", f"{name} is {role} of this meter now.")

    return _at_meter(visit, meter, "seat", add)


@router.post("/admin/meters/{meter}/seats/remove")
def remove_seat(visit: VisitHere, meter: Id) -> Response:
    """Take a seat away."""

    def remove() -> Response:
        user, role, tenant = _seat(visit)
        seats.remove_member(visit.site, user, meter, role, tenant)
        name = user_service.user(visit.site, user).name
        return visit.redirect(f"/admin/meters/{meter}", f"{name} is no longer {role}.")

    return _at_meter(visit, meter, "seat", remove)


def _seat(visit: Visit) -> tuple[str, Role, int]:
    tenant = visit.form.get("tenant", "").strip() or "0"
    if not (tenant.isascii() and tenant.isdigit() and len(tenant) <= 6):
        raise invalid("tenant", tenant[:40], "its number, from 1; nothing for labelers")
    return visit.field("user", longest=32), one_of("role", visit.field("role"), Role), int(tenant)


@router.post("/admin/meters/{meter}/webhooks")
def add_webhook(visit: VisitHere, meter: Id) -> Response:
    """Tell an address what happens from now on; the signing secret is shown once."""

    def add() -> Response:
        events = [name.removeprefix("on ") for name in visit.form if name.startswith("on ")]
        url = visit.field("url")
        _, secret = hooks.add_webhook(visit.site, meter, url, events)
        return _meter_page(visit, meter, secret=secret)

    return _at_meter(visit, meter, "webhook", add)


@router.post("/admin/meters/{meter}/webhooks/remove")
def remove_webhook(visit: VisitHere, meter: Id) -> Response:
    """Tell an address nothing more."""

    def remove() -> Response:
        hooks.remove_webhook(visit.site, meter, visit.field("webhook", longest=32))
        return visit.redirect(f"/admin/meters/{meter}", "The webhook is removed.")

    return _at_meter(visit, meter, "webhook", remove)


# One's own account


@router.get("/account")
def account(visit: VisitHere) -> Response:
    """Show one's own tokens, and the form for a new password."""
    return _account(visit)


def _account(
    visit: Visit, status: int = 200, problems: dict[str, str] | None = None, secret: str = ""
) -> Response:
    listed = tokens.tokens(visit.site, visit.caller.user.id)
    return _show(
        visit,
        "admin_account.html",
        problems,
        status=status,
        tokens=[token for token in listed if token.revoked_at is None],
        now=visit.site.now(),
        roles=(*_ROLES, Role.ADMIN) if visit.caller.admin else _ROLES,
        secret=secret,
    )


@router.post("/account/tokens")
def make_token(visit: VisitHere) -> Response:
    """Make a token; its secret is shown once."""
    visit.caller.require_unlimited()

    def make() -> Response:
        scope = visit.form.get("scope", "")
        _, secret = tokens.new_token(
            visit.site,
            visit.caller.user.id,
            visit.field("name", longest=checks.MAX_NAME),
            days=_days(visit.field("days")),
            scopes=[scope] if scope else [],
        )
        return _account(visit, secret=secret)

    return _fill(visit, "token", make, _account)


def _days(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise invalid("days", text[:40], "a number") from None


@router.post("/account/tokens/revoke")
def revoke_token(visit: VisitHere) -> Response:
    """End the life of one of one's own tokens."""
    token = visit.field("token", longest=32)
    tokens.revoke_token(visit.site, token, owner=visit.caller.user.id)
    return visit.redirect("/account", "The token is revoked.")


@router.post("/account/password")
def change_password(visit: VisitHere) -> Response:
    """Set a new password; all tokens and sessions end with the old one."""
    caller = visit.caller
    caller.require_unlimited()

    def change() -> Response:
        try:
            user_service.log_in(visit.site, caller.user.name, visit.form.get("current", ""))
        except Unauthenticated:
            raise invalid("current password", "(hidden)", "it is not right: try again") from None
        user_service.change_user(visit.site, caller.user.id, password=visit.form.get("new", ""))
        return visit.redirect("/sign-in", "The password is changed. Sign in with the new one.")

    return _fill(visit, "password", change, _account)
