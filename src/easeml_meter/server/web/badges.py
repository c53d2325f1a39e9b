"""Badges for a README: the last published signal of a meter's first tenant, for everyone."""

from __future__ import annotations

from fastapi import APIRouter, Response

from easeml_meter.core.views import SessionView
from easeml_meter.errors import NotFound
from easeml_meter.report.badges import badge_json, badge_svg
from easeml_meter.server.auth import SettingsHere, SiteHere
from easeml_meter.server.limits import PlanCounted
from easeml_meter.service.actor import SYSTEM
from easeml_meter.service.history import show_session

router = APIRouter(include_in_schema=False)


@router.get("/badge/{meter}.svg")
def badge(site: SiteHere, settings: SettingsHere, meter: str, _: PlanCounted) -> Response:
    """Draw the badge, where the site shows badges."""
    return _fresh(badge_svg(_published(site, settings, meter)), "image/svg+xml")


@router.get("/badge/{meter}.json")
def shields(site: SiteHere, settings: SettingsHere, meter: str, _: PlanCounted) -> Response:
    """Tell shields.io what the badge shows, where the site shows badges."""
    return _fresh(badge_json(_published(site, settings, meter)), "application/json")


def _published(site: SiteHere, settings: SettingsHere, meter: str) -> SessionView:
    if not settings.badges:
        raise NotFound("badges: this site shows none")
    # For everybody, as the setting says: a badge shows the last answer, and nothing else of it.
    return show_session(SYSTEM, site.space(meter))


def _fresh(badge: str, media_type: str) -> Response:
    # README pages are shown through caches, which would keep an old answer.
    return Response(badge, media_type=media_type, headers={"Cache-Control": "no-cache"})
