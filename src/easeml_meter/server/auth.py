"""Who asks: dependencies that give routes their caller, actor and workspace."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.openapi.models import HTTPBearer
from fastapi.security.base import SecurityBase
from fastapi.security.utils import get_authorization_scheme_param

from easeml_meter.checks import is_id
from easeml_meter.errors import Unauthenticated
from easeml_meter.server.limits import USER
from easeml_meter.server.parameters import MeterKey, Tenant, UserKey
from easeml_meter.server.settings import Settings
from easeml_meter.service.actor import ANYONE, Actor, Permission
from easeml_meter.service.meters import find_meter
from easeml_meter.service.place import Site, Workspace
from easeml_meter.service.tokens import Caller, recognize
from easeml_meter.service.users import find_user


# Not in a thread, as there is nothing to wait for.
async def the_site(request: Request) -> Site:
    """Return the site that the app serves."""
    site: Site = request.app.state.site
    return site


async def the_settings(request: Request) -> Settings:
    """Return the settings that the app runs with."""
    settings: Settings = request.app.state.settings
    return settings


SiteHere = Annotated[Site, Depends(the_site)]
SettingsHere = Annotated[Settings, Depends(the_settings)]


class FindCaller(SecurityBase):
    """Finds out who asks, by the bearer token."""

    def __init__(self) -> None:
        self.model = HTTPBearer(description="A token, from `meter login` or an admin.")
        self.scheme_name = "HTTPBearer"

    async def __call__(self, request: Request) -> Caller:
        """Return the caller."""
        site, token = request.app.state.site, token_of(request)
        return noted(request, await run_in_threadpool(recognize, ANYONE, site, token))


def token_of(request: Request) -> str:
    """Return the token that a request was made with."""
    scheme, token = get_authorization_scheme_param(request.headers.get("Authorization"))
    if scheme.lower() != "bearer" or not token:
        raise Unauthenticated("no token was given: send one as Authorization: Bearer")
    return token


def noted(request: Request, caller: Caller) -> Caller:
    """Count a request for its caller, and name them in the log."""
    # Named first: the log then says whose request was one too many.
    request.scope[USER] = caller.user.id
    request.app.state.limits.users.take(caller.user.id)
    return caller


find_caller = FindCaller()
CallerHere = Annotated[Caller, Depends(find_caller)]


def actor_at(site: Site, caller: Caller, meter: str, tenant: int | None = None) -> Actor:
    """Return the caller as an actor at a meter."""
    actor = caller.at(meter, tenant)
    if actor.may(Permission.MANAGE):  # they have a seat at whatever is named, meter or not
        site.require_meter(meter)
    return actor


_METER = "meter.id"
"""Where a request's scope says which meter its path names."""


# Nearly every request goes through these, and FastAPI takes as long over a dependency of theirs as
# over one of the route: so they take the site from the request.
async def the_meter(request: Request, caller: CallerHere, meter: MeterKey) -> str:
    """Return the id of the meter that the path names, by its id or its name."""
    if is_id(meter):
        return meter
    # Several dependencies of one route need it: it is looked up once for each request.
    if _METER not in request.scope:
        site, at_site = request.app.state.site, caller.at_site()
        request.scope[_METER] = await run_in_threadpool(find_meter, at_site, site, caller, meter)
    found: str = request.scope[_METER]
    return found


async def at_tenant(
    request: Request, caller: CallerHere, meter: MeterKey, tenant: Tenant = None
) -> Actor:
    """Return who asks at a meter, for the tenant that the query names."""
    identifier = await the_meter(request, caller, meter)
    # An admin's actor needs a look at the books, and the event loop must not wait for them.
    if caller.admin:
        site = request.app.state.site
        return await run_in_threadpool(actor_at, site, caller, identifier, tenant)
    return caller.at(identifier, tenant)


async def at_meter(request: Request, caller: CallerHere, meter: MeterKey) -> Actor:
    """Return who asks at a meter, where no tenant can be named."""
    return await at_tenant(request, caller, meter)


async def at_site(caller: CallerHere) -> Actor:
    """Return who asks for something that belongs to no meter."""
    return caller.at_site()


async def the_user(request: Request, caller: CallerHere, user: UserKey) -> str:
    """Return the id of the user that the path names, by their id or their name.

    Only admins have names looked up: what others ask of anybody but themselves is refused alike,
    whether or not there is a user of that name.
    """
    if is_id(user):
        return user
    if caller.admin:
        return await run_in_threadpool(find_user, caller.at_site(), request.app.state.site, user)
    return caller.user.id if user == caller.user.name else user


async def the_workspace(request: Request, caller: CallerHere, meter: MeterKey) -> Workspace:
    """Return the meter that the path names."""
    return (await the_site(request)).space(await the_meter(request, caller, meter))


UserHere = Annotated[str, Depends(the_user)]
"""The id of the user that the path names."""
ActorHere = Annotated[Actor, Depends(at_meter)]
"""Who asks at `/meters/{meter}/...`; the use case decides what they may do."""
TenantActorHere = Annotated[Actor, Depends(at_tenant)]
"""The same for routes with `?tenant=`."""
SiteActorHere = Annotated[Actor, Depends(at_site)]
WorkspaceHere = Annotated[Workspace, Depends(the_workspace)]
