"""Signing in and out, and one's own account: its tokens and its password.

By a provider, to its page and back from there: the browser keeps the secrets of a sign-in in a
signed cookie until it comes back, so any server of several can take it from there. The session's
own cookie is not sent by a browser that comes from elsewhere; so after the way back it is asked to
load the next page by itself.

By an invitation: its secret stands behind the # of the link, which browsers do not send: a script
puts it into the form. So it is in no log, and nothing that only follows the link uses it up.
"""

from __future__ import annotations

import base64
import hmac
import json
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse

from easeml_meter.checks import MAX_NAME
from easeml_meter.core.people import METRICS, SEATED, GroupSeat, Role
from easeml_meter.errors import InvalidInput, MeterError, NotFound, Unauthenticated, invalid
from easeml_meter.server.auth import SettingsHere, SiteHere
from easeml_meter.server.limits import LoginCounted, address_of
from easeml_meter.server.oidc import CALLBACK, Begun, Provider
from easeml_meter.server.settings import Settings
from easeml_meter.server.web.pages import (
    MESSAGE,
    SESSION,
    SESSION_DAYS,
    FormHere,
    MaybeCaller,
    Visit,
    VisitHere,
    check_door,
    door_form,
    fill,
    get_cookie,
    own_address,
    packed_message,
    render,
    sentence,
    set_cookie,
    show_forms,
    signature,
)
from easeml_meter.service import identities, tokens, users
from easeml_meter.service.actor import ANYONE, Actor, Permission
from easeml_meter.service.place import Site
from easeml_meter.service.tokens import TOKEN_PREFIX, log_in, log_in_by_token, redeem
from easeml_meter.service.users import LONGEST_PASSWORD, SHORTEST_PASSWORD

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


@router.get("/join")
def join_page(request: Request) -> Response:
    """Show the form."""
    return _form(request)


def _form(
    request: Request, *, invitation: str = "", problem: str = "", status: int = 200
) -> Response:
    return door_form(
        request,
        "join.html",
        status=status,
        invitation=invitation,
        problem=problem,
        shortest=SHORTEST_PASSWORD,
        longest=LONGEST_PASSWORD,
    )


@router.post("/join")
async def join(request: Request, site: SiteHere, form: FormHere, _: LoginCounted) -> Response:
    """Set the password, and open a session with it."""
    secret, password = form.get("invitation", "").strip(), form.get("password", "")
    if problem := check_door(request, form):
        return _form(request, problem=problem, status=403)
    exchange = partial(redeem, ANYONE, site, secret, password, days=SESSION_DAYS)
    try:
        _, session = await request.app.state.hashing(partial(exchange, purpose="browser"))
    except Unauthenticated as error:
        request.app.state.metrics.count_failed_login()
        return _form(request, problem=sentence(error), status=401)
    except InvalidInput as error:
        given = secret[:200]
        return _form(request, invitation=given, problem=sentence(error), status=422)
    answer = RedirectResponse("/meters", 303)
    set_cookie(request, answer, SESSION, session)
    return answer


COOKIE = "meter_provider"
_MINUTES = 10
"""How long somebody may take at the provider."""


@dataclass(frozen=True)
class Way:
    """A round trip to the provider, as the browser's cookie holds it."""

    begun: Begun
    back: str
    account: str
    """The account to connect; empty: somebody signs in."""
    until: str
    token: str = ""
    """The id of the session that connects the account."""

    def packed(self, site: Site) -> str:
        """Return it as a cookie that nobody else can make."""
        text = base64.urlsafe_b64encode(json.dumps(asdict(self)).encode()).decode().rstrip("=")
        return f"{text}.{signature(site, f'provider {text}')}"

    @classmethod
    def unpacked(cls, site: Site, cookie: str) -> Way | None:
        """Return what a cookie holds, if this site made it and it is not too old."""
        text, _, given = cookie.partition(".")
        expected = signature(site, f"provider {text}")
        # Before anything of it is parsed: only what this site has written is read.
        if not hmac.compare_digest(given.encode(), expected.encode()):
            return None
        plain = json.loads(base64.urlsafe_b64decode(f"{text}==="))
        found = cls(Begun(**plain.pop("begun")), **plain)
        return found if datetime.fromisoformat(found.until) > site.clock() else None


def _provider(request: Request) -> Provider:
    provider: Provider | None = request.app.state.provider
    if provider is None:
        raise NotFound("this server has no provider of identities")
    return provider


@router.get("/sign-in/provider")
async def begin(
    request: Request, site: SiteHere, _: LoginCounted, back: Back = "/meters"
) -> Response:
    """Send the browser to the provider."""
    return await _sent(request, site, back=own_address(back), account="")


# A form with its token, and no link: another site could have signed this browser in to the provider
# as somebody else, who would get the account.
@router.post("/account/connect")
async def begin_connecting(request: Request, visit: VisitHere, _: LoginCounted) -> Response:
    """Send somebody with a session to the provider, to connect their account."""
    # Connected, the account has one more way in, without the limits of this token.
    if visit.caller.token.scopes:
        raise Unauthenticated("a session by a token with scopes cannot do this: sign in")
    user, token = visit.caller.user.id, visit.caller.token.id
    return await _sent(request, visit.site, back="/account", account=user, token=token)


async def _sent(
    request: Request, site: Site, *, back: str, account: str, token: str = ""
) -> Response:
    provider, begun = _provider(request), Begun.new()
    until = (site.clock() + timedelta(minutes=_MINUTES)).isoformat()
    try:
        address = await request.app.state.providing(lambda: provider.address(begun))
    except MeterError:
        problem = "The provider cannot be reached now. Try again, or sign in with a password."
        return sign_in_form(request, back=back, problem=problem, status=503)
    answer: Response = RedirectResponse(address, 303)
    if account:  # browsers follow no redirect of a form to another site (form-action)
        answer = render(request, "again.html", address=address)
    way = Way(begun, back, account, until, token)
    # In the browser and not here: whoever began the sign-in, and nobody else, can end it.
    set_cookie(request, answer, COOKIE, way.packed(site), comes_back=True)
    return answer


@router.get(CALLBACK)
async def come_back(
    request: Request, site: SiteHere, settings: SettingsHere, _: LoginCounted
) -> Response:
    """Check what the provider says, and sign the person in or connect their account."""
    provider, query = _provider(request), dict(request.query_params)
    way = Way.unpacked(site, get_cookie(request, COOKIE))
    rules = tuple(map(GroupSeat.parse, settings.oidc_seat))

    def done() -> str:
        if way is None:
            raise Unauthenticated("the sign-in took too long, or began elsewhere: try again")
        person = provider.person(way.begun, query)
        if way.account:
            # The session's cookie does not come along from elsewhere: the signed one says whose
            # account it is, and which session began this.
            actor = Actor(((Role.USER, 0),), user=way.account, token=way.token)
            identities.connect(actor, site, person)
            return ""
        return identities.sign_in(
            ANYONE, site, person, rules, days=SESSION_DAYS, purpose="browser"
        )[1]

    back = "/meters" if way is None else way.back
    try:
        secret = await request.app.state.providing(done)
    except MeterError as error:
        request.app.state.metrics.count_failed_login()
        answer = sign_in_form(request, back=back, problem=sentence(error), status=401)
    else:
        answer = render(request, "again.html", address=back)
        if secret:
            set_cookie(request, answer, SESSION, secret)
        else:
            told = packed_message(site, "Your account is connected: sign in by the provider.")
            set_cookie(request, answer, MESSAGE, told)
    set_cookie(request, answer, COOKIE, "")
    return answer
