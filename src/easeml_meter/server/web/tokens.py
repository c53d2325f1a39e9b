"""Signing in and out, and one's own account: its tokens and its password."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse

from easeml_meter.checks import MAX_NAME
from easeml_meter.core.people import METRICS, SEATED, Role
from easeml_meter.errors import Unauthenticated, invalid
from easeml_meter.server.auth import SiteHere
from easeml_meter.server.limits import LoginCounted, address_of
from easeml_meter.server.settings import Settings
from easeml_meter.server.web.forms import fill, show_forms
from easeml_meter.server.web.pages import (
    SESSION,
    SESSION_DAYS,
    FormHere,
    MaybeCaller,
    Visit,
    VisitHere,
    check_door,
    door_form,
    own_address,
    sentence,
    set_cookie,
)
from easeml_meter.service import tokens, users
from easeml_meter.service.actor import ANYONE, Permission
from easeml_meter.service.tokens import TOKEN_PREFIX, log_in, log_in_by_token

router = APIRouter(include_in_schema=False)

Back = Annotated[str, Query(max_length=2000)]


@router.get("/")
def start(caller: MaybeCaller) -> Response:
    """Go to the meters, or to sign in."""
    return RedirectResponse("/sign-in" if caller is None else "/meters", 303)


@router.get("/sign-in")
def sign_in_page(
    request: Request, caller: MaybeCaller, back: Back = "/meters", ended: bool = False
) -> Response:
    """Show the form; somebody who is signed in already is sent on."""
    if caller is not None:
        return RedirectResponse(own_address(back), 303)
    return sign_in_form(request, back=back, ended=ended)


def sign_in_form(
    request: Request,
    *,
    back: str,
    name: str = "",
    ended: bool = False,
    problem: str = "",
    status: int = 200,
) -> HTMLResponse:
    """Show the form, with what was wrong."""
    settings: Settings = request.app.state.settings
    return door_form(
        request,
        "sign_in.html",
        status=status,
        back=own_address(back),
        name=name,
        ended=ended,
        problem=problem,
        provider=settings.oidc_name if settings.oidc_issuer else "",
    )


@router.post("/sign-in")
async def sign_in(request: Request, site: SiteHere, form: FormHere, _: LoginCounted) -> Response:
    """Exchange a name and a password for a session."""
    name, given, address = (form.get(each, "") for each in ("name", "password", "back"))
    if problem := check_door(request, form):
        return sign_in_form(request, back=address, name=name[:200], problem=problem, status=403)
    exchange = partial(log_in, address=address_of(request))
    # A token may stand in the place of the password. Nobody guesses one, so it locks nothing.
    if given.startswith(TOKEN_PREFIX):
        exchange = partial(log_in_by_token)
    session = partial(exchange, ANYONE, site, name.strip(), given, days=SESSION_DAYS)
    try:
        _, secret = await request.app.state.hashing(partial(session, purpose="browser"))
    except Unauthenticated as error:
        request.app.state.metrics.count_failed_login()
        problem = sentence(error)
        return sign_in_form(request, back=address, name=name[:200], problem=problem, status=401)
    answer = RedirectResponse(own_address(address), 303)
    set_cookie(request, answer, SESSION, secret)
    return answer


@router.post("/sign-out")
def sign_out(visit: VisitHere) -> Response:
    """End the session."""
    tokens.log_out(visit.at_site(), visit.site, visit.caller)
    answer = visit.redirect("/sign-in", "You are signed out.")
    set_cookie(visit.request, answer, SESSION, "")
    return answer


@router.get("/account")
def account(visit: VisitHere) -> Response:
    """Show one's own tokens, and the form for a new password."""
    return _account(visit)


def _account(
    visit: Visit, status: int = 200, problems: dict[str, str] | None = None, secret: str = ""
) -> Response:
    actor = visit.at_site()
    # A session by a token with limits shows nothing of the account's other tokens.
    may_list = actor.may(Permission.REVOKE_TOKENS)
    listed = tokens.list_tokens(actor, visit.site) if may_list else []
    return show_forms(
        visit,
        "admin_account.html",
        problems,
        status=status,
        tokens=[token for token in listed if token.revoked_at is None],
        now=visit.site.now(),
        roles=(*SEATED, Role.ADMIN, METRICS) if actor.may(Permission.MANAGE) else SEATED,
        secret=secret,
        provider=visit.settings.oidc_name if visit.settings.oidc_issuer else "",
    )


@router.post("/account/tokens")
def make_token(visit: VisitHere) -> Response:
    """Make a token; its secret is shown once."""

    def make() -> Response:
        scope = visit.form.get("scope", "")
        _, secret = tokens.make_token(
            visit.at_site(),
            visit.site,
            visit.field("name", longest=MAX_NAME),
            days=_days(visit.field("days")),
            scopes=[scope] if scope else [],
            pace=_pace(visit.form.get("pace", "")),
        )
        return _account(visit, secret=secret)

    return fill(visit, "token", make, _account)


def _days(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise invalid("days", text[:40], "a number") from None


def _pace(text: str) -> int | None:
    try:
        return int(text) if text.strip() else None
    except ValueError:
        raise invalid("pace", text[:40], "a whole number of answers, or nothing") from None


@router.post("/account/tokens/revoke")
def revoke_token(visit: VisitHere) -> Response:
    """Revoke one of one's own tokens."""
    tokens.revoke_own_token(visit.at_site(), visit.site, visit.field("token", longest=32))
    return visit.redirect("/account", "The token is revoked.")


@router.post("/account/password")
async def change_password(visit: VisitHere, _: LoginCounted) -> Response:
    """Set a new password; all tokens and sessions end with the old one."""

    def change() -> Response:
        current, new = visit.form.get("current", ""), visit.form.get("new", "")
        address = address_of(visit.request)
        users.change_password(visit.at_site(), visit.site, current, new, address)
        return visit.redirect("/sign-in", "The password is changed. Sign in with the new one.")

    run = visit.request.app.state.hashing
    answer: Response = await run(partial(fill, visit, "password", change, _account))
    return answer
