"""Who asks: the dependencies by which routes learn it."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from easeml_meter.server.frame import USER
from easeml_meter.server.settings import Settings
from easeml_meter.service.accounts import Caller, Unknown, caller_of, require_meter
from easeml_meter.service.meter import Meter
from easeml_meter.service.roles import Deed, Role
from easeml_meter.service.site import Site

bearer = HTTPBearer(auto_error=False, description="A token, from `meter login` or an admin.")


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


def find_caller(
    request: Request,
    site: SiteHere,
    credentials: Annotated[HTTPAuthorizationCredentials | None, Depends(bearer)],
) -> Caller:
    """Find out who asks, by the bearer token."""
    if credentials is None:
        raise Unknown("no token was given: send one as Authorization: Bearer")
    caller = caller_of(site, credentials.credentials)
    request.scope[USER] = caller.user.id
    request.app.state.limits.users.take(caller.user.id)
    return caller


CallerHere = Annotated[Caller, Depends(find_caller)]


def meter_for(
    site: Site, caller: Caller, meter: str, deed: Deed, tenant: int | None = None
) -> Meter:
    """Open a meter from the caller's seat for one deed, or refuse."""
    seat = caller.seat(meter, deed, tenant)
    if seat.role is Role.ADMIN:  # who has any other seat has it at a meter that exists
        require_meter(site, meter)
    return Meter(site.space(meter), seat.role, seat.tenant or 1)
