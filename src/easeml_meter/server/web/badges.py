"""Badges for a README: the last published signal of a meter's first tenant, for everyone."""

from __future__ import annotations

from fastapi import APIRouter, Response

from easeml_meter.errors import NotFound
from easeml_meter.report.badges import badge_svg
from easeml_meter.server.auth import SettingsHere, SiteHere
from easeml_meter.server.limits import PlanCounted
from easeml_meter.service.actor import SYSTEM
from easeml_meter.service.history import show_session

router = APIRouter(include_in_schema=False)


@router.get("/badge/{meter}.svg")
def badge(site: SiteHere, settings: SettingsHere, meter: str, _: PlanCounted) -> Response:
    """Draw the badge, where the site shows badges."""
    if not settings.badges:
        raise NotFound("badges: this site shows none")
    drawn = badge_svg(show_session(SYSTEM, site.space(meter)))
    # README pages are shown through caches, which would keep an old answer.
    return Response(drawn, media_type="image/svg+xml", headers={"Cache-Control": "no-cache"})
