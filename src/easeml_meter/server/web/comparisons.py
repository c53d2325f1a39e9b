"""Two models side by side on a released test set, down to the examples that changed."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Response

from easeml_meter.core.differences import plain
from easeml_meter.report.words import loss_name, measured_words, shown
from easeml_meter.server.parameters import Number, Tenant
from easeml_meter.server.web.history import NEWEST_FIRST, Session, ShownAnswer
from easeml_meter.server.web.meters import MeterPage
from easeml_meter.server.web.pages import VisitHere
from easeml_meter.service.testsets.differences import PAGE, comparable, compare_submissions
from easeml_meter.service.testsets.release import released_session

router = APIRouter(include_in_schema=False)

Step = Annotated[int, Query(ge=1, le=1_000_000_000)]
_LONGEST_CELL = 120


@router.get("/meters/{meter}/test-sets/{number}/compare")
def compare(
    visit: VisitHere,
    meter: str,
    number: Number,
    *,
    tenant: Tenant = None,
    first: Step | None = None,
    second: Step | None = None,
    show: Literal["worse", "better"] = "worse",
    page: Annotated[int, Query(ge=1, le=1_000_000)] = 1,
) -> Response:
    """Show what became worse and better from one submission to another.

    Before release there is nothing to show, and the error says why.
    """
    place = MeterPage.open(visit, meter, tenant)
    space = visit.site.space(meter)
    view = released_session(place.actor, space, number)
    steps = comparable(place.actor, space, number)
    found = compare_submissions(
        place.actor, space, number, (first, second), better=show == "better", page=page
    )
    told = {each.step: ShownAnswer(each) for each in view.signals}
    return visit.render(
        "compare.html",
        page=place,
        session=Session.of(visit, meter, view, place.actor, NEWEST_FIRST),
        number=number,
        found=found,
        sides=[(told[each.step], each) for each in (found.first, found.second)],
        choices=[(step, told[step].signal.model) for step in steps],
        show=show,
        of_page=PAGE,
        loss=loss_name(view.spec),
        measured=lambda loss: measured_words(view.spec, loss),
        cell=_cell,
    )


def _cell(value: Any) -> str:
    """Show any value of a table in a few characters."""
    if value is None:
        return ""
    written = f"{value:.6g}" if isinstance(value, float) else str(plain(value))
    return shown(written, _LONGEST_CELL)
