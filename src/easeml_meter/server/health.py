"""/healthz, /readyz and /metrics, for those who run the server."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import PlainTextResponse

from easeml_meter.checks import is_loopback
from easeml_meter.core.doctor import Finding, Verdict, healthy, ok
from easeml_meter.server.auth import SettingsHere, SiteHere, noted, token_of
from easeml_meter.server.metrics import Metrics
from easeml_meter.service.actor import ANYONE, SYSTEM
from easeml_meter.service.doctor import readiness
from easeml_meter.service.tokens import recognize

# Not part of the API, nor of its document.
router = APIRouter(include_in_schema=False, default_response_class=PlainTextResponse)

# Some load balancers ask for the head only.
_METHODS = ["GET", "HEAD"]

# A proxy on this machine connects from here too, but asks for somebody elsewhere.
_FORWARDED = ("forwarded", "x-forwarded-for", "x-real-ip", "via")


@router.api_route("/healthz", methods=_METHODS)
async def healthz() -> str:
    """Answer, to show that the process does."""
    return "ok\n"


@router.api_route("/readyz", methods=_METHODS)
def readyz(request: Request, site: SiteHere, settings: SettingsHere) -> PlainTextResponse:
    """Answer with the cheap checks of `meter doctor`: 200, or 503 if one failed.

    Strangers see how each check went; what was found names paths and addresses, and is only for
    this machine.
    """
    findings = [*readiness(SYSTEM, site, settings.folder), _proxy(request)]
    whole = _from_here(request)
    lines = [each.line if whole else f"{each.verdict} {each.check}" for each in findings]
    status = 200 if healthy(findings) else 503
    return PlainTextResponse("".join(f"{line}\n" for line in lines), status)


def _proxy(request: Request) -> Finding:
    """Whether the forwarded headers of this very request were believed, if it has any."""
    if not request.headers.get("X-Forwarded-For"):
        return ok("proxy", "none in between")
    named = [each.strip() for each in request.headers["X-Forwarded-For"].split(",")]
    # A proxy that is trusted has its client's address put in the place of its own.
    if request.client is not None and request.client.host in named:
        return ok("proxy", "its headers are believed")
    remedy = "name its address as trusted_proxy"
    return Finding("proxy", Verdict.WARN, "forwarded headers are not believed", remedy)


@router.get("/metrics", openapi_extra={"security": [{"HTTPBearer": []}]})
def metrics(request: Request, site: SiteHere) -> str:
    """Return counts and times for Prometheus.

    How much all tenants submit is not for each of them to know: without a token of an admin's, or
    one with the scope `metrics`, this answers only to the machine itself, unless the setting
    `metrics_public` says otherwise.
    """
    here, public = _from_here(request), request.app.state.settings.metrics_public
    if here or public:
        actor = SYSTEM
    else:
        actor = noted(request, recognize(ANYONE, site, token_of(request))).at_site()
    counts: Metrics = request.app.state.metrics
    # Times measured inside the server are free of the network's noise: not for everyone to see.
    return counts.text(actor, site, timed=here or not public)


def _from_here(request: Request) -> bool:
    """Whether a program on this machine asks, and not on behalf of another one."""
    if request.client is None or any(name in request.headers for name in _FORWARDED):
        return False
    return is_loopback(request.client.host)
