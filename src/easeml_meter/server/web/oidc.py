"""Signing in by a provider: to its page, and back from there.

The browser keeps the secrets of a sign-in in a signed cookie until it comes back, so any server
of several can take it from there. The session's own cookie is not sent by a browser that comes
from elsewhere; so after the way back it is asked to load the next page by itself.
"""

from __future__ import annotations

import base64
import hmac
import json
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta

from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse

from easeml_meter.core.people import GroupSeat, Role
from easeml_meter.errors import MeterError, NotFound, Unauthenticated
from easeml_meter.server.auth import SettingsHere, SiteHere
from easeml_meter.server.limits import LoginCounted
from easeml_meter.server.oidc import CALLBACK, Begun, Provider
from easeml_meter.server.web.pages import (
    MESSAGE,
    SESSION,
    SESSION_DAYS,
    VisitHere,
    get_cookie,
    own_address,
    packed_message,
    render,
    sentence,
    set_cookie,
    signature,
)
from easeml_meter.server.web.tokens import Back, sign_in_form
from easeml_meter.service import identities
from easeml_meter.service.actor import ANYONE, Actor
from easeml_meter.service.place import Site

router = APIRouter(include_in_schema=False)

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
