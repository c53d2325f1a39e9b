"""Signing in, and tokens."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, Field, StringConstraints

from easeml_meter.core.people import Token
from easeml_meter.errors import Unauthenticated
from easeml_meter.server.api.common import Given, Line, Listed, PageHere, paged
from easeml_meter.server.api.routing import ApiRoute
from easeml_meter.server.api.seats import MemberShown, member_shown
from easeml_meter.server.api.users import Password, UserShown, user_shown
from easeml_meter.server.auth import CallerHere, SettingsHere, SiteActorHere, SiteHere
from easeml_meter.server.errors import answers
from easeml_meter.server.limits import LoginCounted, address_of
from easeml_meter.server.parameters import Id
from easeml_meter.service import tokens
from easeml_meter.service.actor import ANYONE
from easeml_meter.service.tokens import FASTEST, LONGEST_DAYS, SCOPE

router = APIRouter(tags=["accounts"], route_class=ApiRoute)

Scope = Annotated[str, StringConstraints(pattern=SCOPE)]


class Login(Given):
    """A name and a password."""

    name: Line
    password: Password


class LoggedIn(BaseModel):
    """A token."""

    token: str
    expires_at: str


class TokenShown(BaseModel):
    """A token, without its secret."""

    id: str
    name: str
    kind: str
    scopes: list[str]
    created_at: str
    expires_at: str
    revoked_at: str | None
    pace: int | None


class NewToken(Given):
    """A token to make."""

    name: Line
    scopes: list[Scope] = Field(default_factory=list, max_length=100)
    days: Annotated[float, Field(gt=0, le=LONGEST_DAYS)] = 90
    pace: Annotated[int, Field(ge=1, le=FASTEST)] | None = None
    """How many answers it gets of a meter in any 24 hours; null: as many as there are."""


class TokenMade(TokenShown):
    """A token and, this once, its secret."""

    token: str


class Me(BaseModel):
    """Who asks, and what the token may be used for."""

    user: UserShown
    token: TokenShown
    seats: list[MemberShown]


@router.post("/login", operation_id="log_in", responses=answers(only=(401, 413, 422, 429, 503)))
async def login(
    request: Request, site: SiteHere, settings: SettingsHere, _: LoginCounted, given: Login
) -> LoggedIn:
    """Exchange a name and a password for a token."""
    # In threads of its own: hashing is slow by design, and strangers decide how often it happens.
    try:
        token, secret = await request.app.state.hashing(
            partial(
                tokens.log_in,
                ANYONE,
                site,
                given.name,
                given.password,
                days=settings.login_days,
                purpose="login",
                address=address_of(request),
            )
        )
    except Unauthenticated:
        request.app.state.metrics.count_failed_login()
        raise
    return LoggedIn(token=secret, expires_at=token.expires_at)


@router.post("/logout", operation_id="log_out", status_code=204, responses=answers())
def logout(site: SiteHere, caller: CallerHere) -> Response:
    """Revoke the token that this is asked with."""
    tokens.log_out(caller.at_site(), site, caller)
    return Response(status_code=204)


@router.get("/me", operation_id="show_me", responses=answers())
def me(caller: CallerHere) -> Me:
    """Return who is asking."""
    seats = tokens.own_seats(caller.at_site(), caller)
    return Me(
        user=user_shown(caller.user),
        token=_shown(caller.token),
        seats=[member_shown(seat) for seat in seats],
    )


@router.get("/tokens", responses=answers())
def list_tokens(site: SiteHere, actor: SiteActorHere, page: PageHere) -> Listed[TokenShown]:
    """List one's own tokens, the newest first."""
    return paged(
        tokens.list_tokens(actor, site),
        page,
        key=lambda token: f"{token.created_at} {token.id}",
        show=_shown,
        falling=True,
    )


@router.post(
    "/tokens",
    operation_id="make_token",
    status_code=201,
    responses=answers(413),
)
def new_token(site: SiteHere, actor: SiteActorHere, given: NewToken) -> TokenMade:
    """Make a token; its secret is in this answer only."""
    token, secret = tokens.make_token(actor, site, **given.model_dump())
    return TokenMade(**_shown(token).model_dump(), token=secret)


@router.delete("/tokens/{token}", status_code=204, responses=answers(404))
def revoke_token(site: SiteHere, actor: SiteActorHere, token: Id) -> Response:
    """Revoke one of one's own tokens (admins: anyone's)."""
    tokens.revoke_token(actor, site, token)
    return Response(status_code=204)


def _shown(token: Token) -> TokenShown:
    plain = {name: value for name, value in asdict(token).items() if name != "user"}
    return TokenShown(**(plain | {"scopes": list(token.scopes)}))
