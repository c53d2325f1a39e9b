"""Signing in; users, their tokens, and their seats at meters."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field, StringConstraints

from easeml_meter.checks import MAX_NAME
from easeml_meter.core.people import Member, Role, Token, User
from easeml_meter.errors import Denied, Unauthenticated
from easeml_meter.server.api.common import Given, Line, Listed, PageHere, paged, seat_for
from easeml_meter.server.api.routing import ApiRoute
from easeml_meter.server.auth import CallerHere, SettingsHere, SiteHere
from easeml_meter.server.errors import answers
from easeml_meter.server.idempotency import OnceHere
from easeml_meter.server.limits import LoginCounted
from easeml_meter.server.parameters import Id
from easeml_meter.service import seats, tokens, users
from easeml_meter.service.actor import Permission
from easeml_meter.service.tokens import LONGEST_DAYS, SCOPE
from easeml_meter.service.users import EMAIL, LONGEST_PASSWORD, SHORTEST_PASSWORD

router = APIRouter(tags=["accounts"], route_class=ApiRoute)

Password = Annotated[str, StringConstraints(max_length=LONGEST_PASSWORD)]
NewPassword = Annotated[
    str, StringConstraints(min_length=SHORTEST_PASSWORD, max_length=LONGEST_PASSWORD)
]
Email = Annotated[str, StringConstraints(max_length=MAX_NAME, pattern=EMAIL)]
Scope = Annotated[str, StringConstraints(pattern=SCOPE)]
Seat = Literal["developer", "labeler", "runner"]


class Login(Given):
    """A name and a password."""

    name: Line
    password: Password


class LoggedIn(BaseModel):
    """A token."""

    token: str
    expires_at: str


class UserShown(BaseModel):
    """An account."""

    id: str
    name: str
    email: str | None
    admin: bool
    disabled: bool
    created_at: str


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


class TokenShown(BaseModel):
    """A token, without its secret."""

    id: str
    name: str
    kind: str
    scopes: list[str]
    created_at: str
    expires_at: str
    revoked_at: str | None


class NewToken(Given):
    """A token to make."""

    name: Line
    scopes: list[Scope] = Field(default_factory=list, max_length=100)
    days: Annotated[float, Field(gt=0, le=LONGEST_DAYS)] = 90


class TokenMade(TokenShown):
    """A token and, this once, its secret."""

    token: str


class NewMember(Given):
    """A seat to give. Developers and runners sit with a tenant, numbered from 1."""

    user: Annotated[str, StringConstraints(pattern="^[0-9a-f]{32}$")]
    role: Seat
    tenant: Annotated[int, Field(ge=0, le=1_000_000)] = 0


class MemberShown(BaseModel):
    """A seat at a meter."""

    user: str
    meter: str
    role: str
    tenant: int
    added_at: str


class Me(BaseModel):
    """Who asks, and what the token may be used for."""

    user: UserShown
    token: TokenShown
    seats: list[MemberShown]


def _user(user: User) -> UserShown:
    return UserShown(**asdict(user))


def _token(token: Token) -> TokenShown:
    plain = {name: value for name, value in asdict(token).items() if name != "user"}
    return TokenShown(**(plain | {"scopes": list(token.scopes)}))


def _member(member: Member) -> MemberShown:
    return MemberShown(**asdict(member))


@router.post("/login", response_model=LoggedIn, responses=answers(only=(401, 413, 422, 429, 503)))
def login(
    body: Login, request: Request, site: SiteHere, settings: SettingsHere, _: LoginCounted
) -> Any:
    """Exchange a name and a password for a token."""
    try:
        user = users.log_in(site, body.name, body.password)
    except Unauthenticated:
        request.app.state.metrics.count_failed_login()
        raise
    days = settings.login_days
    token, secret = tokens.new_token(site, user.id, "login", days=days, kind="session")
    return LoggedIn(token=secret, expires_at=token.expires_at)


@router.post("/logout", status_code=204, responses=answers())
def logout(site: SiteHere, caller: CallerHere) -> Response:
    """Revoke the token that this is asked with."""
    tokens.revoke_token(site, caller.token.id)
    return Response(status_code=204)


@router.get("/me", response_model=Me, responses=answers())
def me(caller: CallerHere) -> Any:
    """Tell who asks."""
    seats = [seat for seat in caller.members if seat in caller.seats(seat.meter)]
    return Me(
        user=_user(caller.user), token=_token(caller.token), seats=[_member(seat) for seat in seats]
    )


@router.get("/users", response_model=Listed[UserShown], responses=answers())
def list_users(site: SiteHere, caller: CallerHere, page: PageHere) -> Any:
    """List all accounts, by name (admins)."""
    caller.require_admin()
    return paged(users.users(site), page, key=lambda user: user.name, show=_user)


@router.post("/users", status_code=201, response_model=UserShown, responses=answers(409, 413))
def add_user(body: NewUser, site: SiteHere, caller: CallerHere, once: OnceHere) -> JSONResponse:
    """Open an account (admins). Without a password it is used by tokens only."""
    caller.require_admin()

    def make() -> tuple[int, UserShown]:
        return 201, _user(users.add_user(site, **body.model_dump()))

    return once.answer(make)


@router.get("/users/{user}", response_model=UserShown, responses=answers(404))
def show_user(user: Id, site: SiteHere, caller: CallerHere) -> Any:
    """Show an account (admins, or one's own)."""
    if user != caller.user.id:
        caller.require_admin()
    return _user(users.user(site, user))


@router.patch("/users/{user}", response_model=UserShown, responses=answers(404, 409, 413))
def change_user(user: Id, body: UserChanges, site: SiteHere, caller: CallerHere) -> Any:
    """Change an account (admins); of one's own, e-mail and password.

    A new password, or disabling the account, revokes its tokens. Who is no admin has to know the
    old password.
    """
    changes = body.model_dump(exclude_unset=True)
    current = changes.pop("current_password", "")
    if not caller.admin:
        caller.require_unlimited()
        if user != caller.user.id or not changes.keys() <= {"email", "password"}:
            raise Denied("only an admin may do this; of your own account, email and password")
        if "password" in changes:
            users.log_in(site, caller.user.name, current)
    return _user(users.change_user(site, user, **changes))


@router.get("/tokens", response_model=Listed[TokenShown], responses=answers())
def list_tokens(site: SiteHere, caller: CallerHere, page: PageHere) -> Any:
    """List one's own tokens, the newest first."""
    return paged(
        tokens.tokens(site, caller.user.id), page, key=_token_place, show=_token, falling=True
    )


def _token_place(token: Token) -> str:
    return f"{token.created_at} {token.id}"


@router.post("/tokens", status_code=201, response_model=TokenMade, responses=answers(409, 413))
def new_token(body: NewToken, site: SiteHere, caller: CallerHere, once: OnceHere) -> JSONResponse:
    """Make a token; its secret is in this answer only."""
    caller.require_unlimited()

    def make() -> tuple[int, TokenMade]:
        token, secret = tokens.new_token(site, caller.user.id, **body.model_dump())
        return 201, TokenMade(**_token(token).model_dump(), token=secret)

    return once.answer(make, secret=True)


@router.delete("/tokens/{token}", status_code=204, responses=answers(404))
def revoke_token(token: Id, site: SiteHere, caller: CallerHere) -> Response:
    """Revoke one of one's own tokens (admins: anyone's)."""
    tokens.revoke_token(site, token, owner=None if caller.admin else caller.user.id)
    return Response(status_code=204)


@router.get("/meters/{meter}/members", response_model=Listed[MemberShown], responses=answers(404))
def list_members(meter: Id, site: SiteHere, caller: CallerHere, page: PageHere) -> Any:
    """List who has a seat at a meter (admins)."""
    seat_for(site, caller, meter, Permission.MANAGE)
    return paged(seats.members(site, meter), page, key=_seat_place, show=_member)


def _seat_place(member: Member) -> str:
    return f"{member.added_at} {member.user} {member.role} {member.tenant:07}"


@router.post(
    "/meters/{meter}/members",
    status_code=201,
    response_model=MemberShown,
    responses=answers(404, 409, 413),
)
def add_member(
    meter: Id, body: NewMember, site: SiteHere, caller: CallerHere, once: OnceHere
) -> JSONResponse:
    """Give a user a seat at a meter (admins)."""
    seat_for(site, caller, meter, Permission.MANAGE)

    def make() -> tuple[int, MemberShown]:
        role = Role(body.role)
        return 201, _member(seats.add_member(site, body.user, meter, role, body.tenant))

    return once.answer(make)


@router.delete(
    "/meters/{meter}/members/{user}/{role}/{tenant}", status_code=204, responses=answers(404)
)
def remove_member(
    meter: Id,
    user: Id,
    role: Seat,
    tenant: Annotated[int, Path(ge=0, le=1_000_000)],
    *,
    site: SiteHere,
    caller: CallerHere,
) -> Response:
    """Take a seat away (admins). Tenant 0 stands for roles without one."""
    seat_for(site, caller, meter, Permission.MANAGE)
    seats.remove_member(site, user, meter, Role(role), tenant)
    return Response(status_code=204)
