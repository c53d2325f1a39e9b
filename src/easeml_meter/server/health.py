"""/healthz, /readyz and /metrics, for those who run the server."""

from __future__ import annotations

import ipaddress

from fastapi import APIRouter, Request
from fastapi.responses import PlainTextResponse

from easeml_meter.server.auth import SiteHere, noted, token_of
from easeml_meter.service.tokens import caller_of

# Not part of the API, nor of its document.
router = APIRouter(include_in_schema=False, default_response_class=PlainTextResponse)

_FORWARDED = ("forwarded", "x-forwarded-for", "x-real-ip", "via")


@router.get("/healthz")
async def healthz() -> str:
    """Tell that the process answers."""
    return "ok\n"


@router.get("/readyz")
def readyz(site: SiteHere) -> str:
    """Tell that the database answers, too."""
    with site.reading() as books:
        books.connection.exec_driver_sql("SELECT 1")
    return "ok\n"


@router.get("/metrics", openapi_extra={"security": [{"HTTPBearer": []}]})
def metrics(request: Request, site: SiteHere) -> str:
    """Give counts for Prometheus.

    How much all tenants submit is not for each of them to know: without an admin's token this
    answers only to the machine itself, unless the setting `metrics_public` says otherwise.
    """
    if not (request.app.state.settings.metrics_public or _from_here(request)):
        noted(request, caller_of(site, token_of(request))).require_admin()
    text: str = request.app.state.metrics.text(site)
    return text


def _from_here(request: Request) -> bool:
    """Tell whether a program on this machine asks, and not for somebody else."""
    if request.client is None or any(name in request.headers for name in _FORWARDED):
        return False
    try:
        return ipaddress.ip_address(request.client.host).is_loopback
    except ValueError:
        return False
