"""Accounts: an admin's to manage, and everyone's own."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Request, Response
from fastapi.concurrency import run_in_threadpool
from pydantic import BaseModel, StringConstraints

from easeml_meter.checks import MAX_NAME
from easeml_meter.core.people import User
from easeml_meter.errors import Unauthenticated
from easeml_meter.server.api.common import Given, Line, Listed, PageHere, paged
from easeml_meter.server.api.routing import ApiRoute
from easeml_meter.server.auth import SiteActorHere, SiteHere, UserHere
from easeml_meter.server.errors import answers
from easeml_meter.server.limits import address_of, count_login
from easeml_meter.service import identities, invitations, users
from easeml_meter.service.users import EMAIL, LONGEST_PASSWORD, SHORTEST_PASSWORD

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
    return InvitationMade(path=f"/join#{invitations.invite(actor, site, user)}")


@router.delete(
    "/users/{user}/identity",
    operation_id="remove_identity",
    status_code=204,
    responses=answers(404, 409),
)
def disconnect(site: SiteHere, actor: SiteActorHere, user: UserHere) -> Response:
    """Disconnect an account from whoever signs in to it by the OpenID provider (admins).

    It revokes the account's tokens. The password stays.
    """
    identities.disconnect(actor, site, user)
    return Response(status_code=204)
