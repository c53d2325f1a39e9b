"""Handing over on a meter's page: shown first, then confirmed."""

from __future__ import annotations

from fastapi import APIRouter, Response

from easeml_meter.errors import invalid
from easeml_meter.server.web.meters import MeterPage
from easeml_meter.server.web.pages import Visit, VisitHere
from easeml_meter.service.handovers import hand_over

router = APIRouter(include_in_schema=False)


@router.post("/meters/{meter}/handover")
def handover(visit: VisitHere, meter: str) -> Response:
    """Tell what a hand-over would do to the budget; confirmed, record it."""
    giver, receiver = _tenant(visit, "giver"), _tenant(visit, "receiver")
    actor, space = visit.at(meter), visit.site.space(meter)
    confirmed = "confirm" in visit.form
    found = hand_over(actor, space, giver, receiver, confirm=confirmed)
    own = giver if actor.acts_for(giver) else receiver
    if not confirmed:
        return MeterPage.open(visit, meter, own).render("handover.html", found=found)
    message = f"Recorded: teams {giver} and {receiver} share one history from now on."
    return visit.redirect(f"/meters/{meter}?tenant={own}", message)


def _tenant(visit: Visit, name: str) -> int:
    text = visit.field(name, longest=7)
    if not (text.isascii() and text.isdigit()):
        raise invalid(name, text, "the number of a team")
    return int(text)
