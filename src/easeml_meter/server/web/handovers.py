"""Hand-overs on a meter's page: shown first, then requested, accepted or declined."""

from __future__ import annotations

from fastapi import APIRouter, Response

from easeml_meter.core.views import Consequence
from easeml_meter.errors import invalid
from easeml_meter.server.parameters import Id
from easeml_meter.server.web.meters import MeterPage
from easeml_meter.server.web.pages import Visit, VisitHere
from easeml_meter.service.actor import Permission
from easeml_meter.service.handovers import answer_handover, hand_over

router = APIRouter(include_in_schema=False)


@router.post("/meters/{meter}/handover")
def handover(visit: VisitHere, meter: Id) -> Response:
    """Show what a hand-over would do to the budget; once confirmed, request it."""
    giver, receiver = _tenant(visit, "giver"), _tenant(visit, "receiver")
    actor, space = visit.at(meter), visit.site.space(meter)
    confirmed = "confirm" in visit.form
    found = hand_over(actor, space, giver, receiver, confirm=confirmed)
    own = giver if actor.acts_for(giver) else receiver
    if not confirmed:
        return MeterPage.open(visit, meter, own).render("handover.html", found=found)
    return visit.redirect(f"/meters/{meter}?tenant={own}", _standing(found))


@router.post("/meters/{meter}/handover/answer")
def answer(visit: VisitHere, meter: Id) -> Response:
    """Agree to a hand-over, or decline it; the admin comes from another page."""
    giver, receiver = _tenant(visit, "giver"), _tenant(visit, "receiver")
    actor, space = visit.at(meter), visit.site.space(meter)
    accept = visit.field("answer", longest=7) == "accept"
    found = answer_handover(actor, space, giver, receiver, accept=accept)
    said = _standing(found) if accept else "The hand-over is declined."
    back = f"/meters/{meter}" if actor.may(Permission.SEE_SIGNALS) else f"/admin/meters/{meter}"
    return visit.redirect(back, said)


def _standing(found: Consequence) -> str:
    """Say where it stands, to people who have buttons for the rest."""
    return found.standing if found.recorded else f"The hand-over is requested. {found.missing}."


def _tenant(visit: Visit, name: str) -> int:
    text = visit.field(name, longest=7)
    if not (text.isascii() and text.isdigit()):
        raise invalid(name, text, "the number of a team")
    return int(text)
