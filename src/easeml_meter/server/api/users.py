"""Accounts, tokens and seats: an admin's to manage, and everyone's own; signing in.

Routes and JSON call seats members.
"""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from typing import Annotated, Literal

from fastapi import APIRouter, Path, Request
from fastapi.concurrency import run_in_threadpool
from pydantic import BaseModel, Field, StringConstraints

from easeml_meter.checks import MAX_NAME
from easeml_meter.core.people import Role, Seat, Token, User
from easeml_meter.errors import Unauthenticated
from easeml_meter.server.api.common import ApiRoute, Given, Line, Listed, PageHere, paged
from easeml_meter.server.auth import (
    ActorHere,
    CallerHere,
    SettingsHere,
    SiteActorHere,
    SiteHere,
    UserHere,
    WorkspaceHere,
)
from easeml_meter.server.errors import answers
from easeml_meter.server.limits import LoginCounted, address_of, count_login
from easeml_meter.server.parameters import Id
from easeml_meter.service import identities, seats, tokens, users
from easeml_meter.service.actor import ANYONE
from easeml_meter.service.tokens import FASTEST, LONGEST_DAYS, SCOPE
from easeml_meter.service.users import EMAIL, LONGEST_PASSWORD, SHORTEST_PASSWORD, find_user

router = APIRouter(tags=["accounts"], route_class=ApiRoute)

Password = Annotated[str, StringConstraints(max_length=LONGEST_PASSWORD)]
NewPassword = Annotated[
    str, StringConstraints(min_length=SHORTEST_PASSWORD, max_length=LONGEST_PASSWORD)
]
Email = Annotated[str, StringConstraints(max_length=MAX_NAME, pattern=EMAIL)]


class UserShown(BaseModel):
    """An account."""

    id: str
    name: str
    email: str | None
    admin: bool
    disabled: bool
    created_at: str


class InvitationMade(BaseModel):
    """An invitation: whoever opens PATH of the server first chooses the password."""

    path: str


class NewUser(Given):
    """An account to open."""

    name: Line
    email: Email | None = None
    password: NewPassword | None = None
    admin: bool = False


class UserChanges(Given):
    """What to change of an account; what is left out stays, and null takes away."""

    email: Email | None = None
    password: NewPassword | None = None
    current_password: Password = ""
    admin: bool = False
    disabled: bool = False


def user_shown(user: User) -> UserShown:
    """Return an account as JSON shows it."""
    return UserShown(**asdict(user))


@router.get("/users", responses=answers())
def list_users(site: SiteHere, actor: SiteActorHere, page: PageHere) -> Listed[UserShown]:
    """List all accounts, by name (admins)."""
    found = users.list_users(actor, site)
    return paged(found, page, key=lambda user: user.name, show=user_shown)


@router.post("/users", status_code=201, responses=answers(409, 413))
def add_user(site: SiteHere, actor: SiteActorHere, given: NewUser) -> UserShown:
    """Open an account (admins). Without a password it is used by tokens only."""
    return user_shown(users.add_user(actor, site, **given.model_dump()))


@router.get("/users/{user}", responses=answers(404))
def show_user(site: SiteHere, actor: SiteActorHere, user: UserHere) -> UserShown:
    """Show an account (admins, or one's own)."""
    return user_shown(users.show_user(actor, site, user))


@router.patch("/users/{user}", responses=answers(404, 409, 413))
async def change_user(
    request: Request, site: SiteHere, actor: SiteActorHere, user: UserHere, given: UserChanges
) -> UserShown:
    """Change an account (admins); of one's own, e-mail and password.

    A new password, or disabling the account, revokes its tokens. Anyone but an admin has to know
    the old password; a wrong one counts as at login.
    """
    changes = given.model_dump(exclude_unset=True)
    # Somebody with a stolen session could guess the old password here instead of at the door.
    if "password" in changes and user == actor.user:
        await count_login(request)
    run = request.app.state.hashing if "password" in changes else run_in_threadpool
    change = partial(users.change_user, actor, site, user, address=address_of(request), **changes)
    try:
        return user_shown(await run(change))
    except Unauthenticated:
        request.app.state.metrics.count_failed_login()
        raise


@router.post(
    "/users/{user}/invitations",
    operation_id="invite_user",
    status_code=201,
    responses=answers(404, 409),
)
def invite(site: SiteHere, actor: SiteActorHere, user: UserHere) -> InvitationMade:
    """Invite the future owner of an account to choose its password (admins).

    The link works once, and for three days.
    """
    return InvitationMade(path=f"/join#{tokens.invite(actor, site, user)}")


@router.delete(
    "/users/{user}/identity",
    operation_id="remove_identity",
    status_code=204,
    responses=answers(404, 409),
)
def disconnect(site: SiteHere, actor: SiteActorHere, user: UserHere) -> None:
    """Disconnect an account from whoever signs in to it by the OpenID provider (admins).

    It revokes the account's tokens. The password stays.
    """
    identities.disconnect(actor, site, user)


SeatRole = Literal["developer", "labeler", "runner"]


class NewMember(Given):
    """A seat to give. Developers and runners belong to a team, numbered from 1."""

    user: Line
    """Id of the user, or their name."""
    role: SeatRole
    tenant: Annotated[int, Field(ge=0, le=1_000_000)] = 0


class MemberShown(BaseModel):
    """A seat at a meter."""

    user: str
    meter: str
    role: str
    tenant: int
    added_at: str


def member_shown(seat: Seat) -> MemberShown:
    """Return a seat as JSON shows it."""
    return MemberShown(**asdict(seat))


@router.get("/meters/{meter}/members", responses=answers(404))
def list_members(actor: ActorHere, space: WorkspaceHere, page: PageHere) -> Listed[MemberShown]:
    """List who has a seat at a meter (admins)."""
    return paged(
        seats.list_seats(actor, space),
        page,
        key=lambda seat: f"{seat.added_at} {seat.user} {seat.role} {seat.tenant:07}",
        show=member_shown,
    )


@router.post(
    "/meters/{meter}/members",
    status_code=201,
    responses=answers(404, 409, 413),
)
def add_member(actor: ActorHere, space: WorkspaceHere, given: NewMember) -> MemberShown:
    """Give a user a seat at a meter (admins)."""
    user = find_user(actor, space, given.user)
    return member_shown(seats.add_seat(actor, space, user, Role(given.role), given.tenant))


@router.delete(
    "/meters/{meter}/members/{user}/{role}/{tenant}", status_code=204, responses=answers(404)
)
def remove_member(
    actor: ActorHere,
    space: WorkspaceHere,
    user: UserHere,
    role: SeatRole,
    tenant: Annotated[int, Path(ge=0, le=1_000_000)],
) -> None:
    """Take a seat away (admins). Tenant 0 stands for roles without one."""
    seats.remove_seat(actor, space, user, Role(role), tenant)


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
def logout(site: SiteHere, caller: CallerHere) -> None:
    """Revoke the token that this is asked with."""
    tokens.log_out(caller.at_site(), site, caller)


@router.get("/me", operation_id="show_me", responses=answers())
def me(caller: CallerHere) -> Me:
    """Return who is asking."""
    seats = tokens.own_seats(caller.at_site(), caller)
    return Me(
        user=user_shown(caller.user),
        token=_token_shown(caller.token),
        seats=[member_shown(seat) for seat in seats],
    )


@router.get("/tokens", responses=answers())
def list_tokens(site: SiteHere, actor: SiteActorHere, page: PageHere) -> Listed[TokenShown]:
    """List one's own tokens, the newest first."""
    return paged(
        tokens.list_tokens(actor, site),
        page,
        key=lambda token: f"{token.created_at} {token.id}",
        show=_token_shown,
        falling=True,
    )


@router.post(
    "/tokens",
    operation_id="make_token",
    status_code=201,
    responses=answers(409, 413),
)
def new_token(site: SiteHere, actor: SiteActorHere, given: NewToken) -> TokenMade:
    """Make a token; its secret is in this answer only."""
    token, secret = tokens.make_token(actor, site, **given.model_dump())
    return TokenMade(**_token_shown(token).model_dump(), token=secret)


@router.delete("/tokens/{token}", status_code=204, responses=answers(404))
def revoke_token(site: SiteHere, actor: SiteActorHere, token: Id) -> None:
    """Revoke one of one's own tokens (admins: anyone's)."""
    tokens.revoke_token(actor, site, token)


def _token_shown(token: Token) -> TokenShown:
    plain = {name: value for name, value in asdict(token).items() if name != "user"}
    return TokenShown(**(plain | {"scopes": list(token.scopes)}))
