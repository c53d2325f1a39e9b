"""The story of a released test set: what was told, then the truth; also as a picture to share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fastapi import APIRouter, Response

from easeml_meter import charts
from easeml_meter.report.checks import Check
from easeml_meter.report.story import Story, share_svg
from easeml_meter.report.words import measured_words
from easeml_meter.server.parameters import Number, Tenant
from easeml_meter.server.web.history import NEWEST, NEWEST_FIRST, Session, ShownAnswer
from easeml_meter.server.web.meters import MeterPage
from easeml_meter.server.web.pages import VisitHere, download
from easeml_meter.service.testsets.differences import comparable
from easeml_meter.service.testsets.release import released_session

router = APIRouter(include_in_schema=False)


@dataclass(frozen=True)
class StoryLine(ShownAnswer):
    """An answer as it was told, beside what was true."""

    check: Check

    @property
    def saw(self) -> str:
        """The validation loss."""
        truth = self.check.truth
        return self.validation_loss if truth is None else self._words(truth.validation_loss)

    @property
    def was(self) -> str:
        """The test loss."""
        truth = self.check.truth
        return "unknown" if truth is None else self._words(truth.test_loss)

    @property
    def between(self) -> str:
        """The gap between the two."""
        gap = self.check.gap
        return "unknown" if gap is None else self._words(gap)

    def _words(self, loss: float) -> str:
        return measured_words(self.signal.spec, loss)


def _lines(story: Story) -> list[StoryLine]:
    return [StoryLine(each.signal, each) for each in story.checks[-NEWEST:]]


@router.get("/meters/{meter}/test-sets/{number}")
def show_story(visit: VisitHere, meter: str, number: Number, tenant: Tenant = None) -> Response:
    """Tell what happened on a released test set, to those who saw its answers."""
    page = MeterPage.open(visit, meter, tenant)
    view = released_session(page.actor, visit.site.space(meter), number)
    story = Story(view)
    session = Session.of(visit, meter, view, page.actor, NEWEST_FIRST)
    chosen = None if story.chosen is None else StoryLine(story.chosen.signal, story.chosen)
    best = None if story.best is None else StoryLine(story.best.signal, story.best)
    return visit.render(
        "story.html",
        page=page,
        session=session,
        story=story,
        chosen=chosen,
        best=best,
        lines=_lines(story),
        comparable=comparable(page.actor, visit.site.space(meter), number),
        kinds=("png", "svg") if charts.draws_png() else ("svg",),
    )


@router.get("/meters/{meter}/test-sets/{number}/story.{kind}")
def share_image(
    visit: VisitHere,
    meter: str,
    number: Number,
    kind: Literal["svg", "png"],
    tenant: Tenant = None,
) -> Response:
    """Return the story as a picture."""
    view = released_session(visit.at(meter, tenant), visit.site.space(meter), number)
    drawn = share_svg(Story(view))
    name = f"test-set-{view.generation}.{kind}"
    if kind == "png":
        return download(charts.png(drawn), "image/png", name)
    return download(drawn, "image/svg+xml", name)
