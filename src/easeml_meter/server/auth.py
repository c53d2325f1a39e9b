"""Who asks: the dependencies by which routes learn it."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.openapi.models import HTTPBearer
from fastapi.security.base import SecurityBase
from fastapi.security.utils import get_authorization_scheme_param

from easeml_meter.core.people import Role
from easeml_meter.errors import Unauthenticated
from easeml_meter.server.middleware import USER
from easeml_meter.server.settings import Settings
from easeml_meter.service.actor import Permission
from easeml_meter.service.meter import Meter
from easeml_meter.service.place import Site
from easeml_meter.service.seats import require_meter
from easeml_meter.service.tokens import Caller, caller_of, remembered


# Not in a thread, as there is nothing to wait for.
async def the_site(request: Request) -> Site:
    """Give the site that the app serves."""
    site: Site = request.app.state.site
    return site


async def the_settings(request: Request) -> Settings:
    """Give the settings that the app runs with."""
    settings: Settings = request.app.state.settings
    return settings


SiteHere = Annotated[Site, Depends(the_site)]
SettingsHere = Annotated[Settings, Depends(the_settings)]


class FindCaller(SecurityBase):
    """Finds out who asks, by the bearer token; one dependency, since every request has it."""

    def __init__(self) -> None:
        self.model = HTTPBearer(description="A token, from `meter login` or an admin.")
        self.scheme_name = "HTTPBearer"

    async def __call__(self, request: Request) -> Caller:
        """Give the caller; in a thread only if the books have to be asked."""
        site, token = request.app.state.site, token_of(request)
        known = remembered(site, token)
        caller = await run_in_threadpool(caller_of, site, token) if known is None else known
        return noted(request, caller)


def token_of(request: Request) -> str:
    """Give the token that a request was made with."""
    scheme, token = get_authorization_scheme_param(request.headers.get("Authorization"))
    if scheme.lower() != "bearer" or not token:
        raise Unauthenticated("no token was given: send one as Authorization: Bearer")
    return token


def noted(request: Request, caller: Caller) -> Caller:
    """Count a request for its caller, and name them in the log."""
    request.scope[USER] = caller.user.id
    request.app.state.limits.users.take(caller.user.id)
    return caller


find_caller = FindCaller()
CallerHere = Annotated[Caller, Depends(find_caller)]


def meter_for(
    site: Site, caller: Caller, meter: str, deed: Permission, tenant: int | None = None
) -> Meter:
    """Open a meter from the caller's seat for one deed, or refuse."""
    seat = caller.seat(meter, deed, tenant)
    if seat.role is Role.ADMIN:  # who has any other seat has it at a meter that exists
        require_meter(site, meter)
    return Meter(site.space(meter), seat.role, seat.tenant or 1)
