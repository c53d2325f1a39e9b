"""The story of a released test set: what was told, then the truth; also as a picture to share.

Two models stand side by side there, down to the examples that changed. And badges for a README: the
last published signal of a meter's first tenant, for everyone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Response

from easeml_meter import charts
from easeml_meter.core.views import SessionView, plain
from easeml_meter.errors import NotFound
from easeml_meter.report.badges import badge_json, badge_svg
from easeml_meter.report.checks import Check
from easeml_meter.report.story import Story, share_svg
from easeml_meter.report.words import loss_name, measured_words, shown
from easeml_meter.server.auth import SettingsHere, SiteHere
from easeml_meter.server.limits import PlanCounted
from easeml_meter.server.parameters import Number, Tenant
from easeml_meter.server.web.history import NEWEST, NEWEST_FIRST, Session, ShownAnswer
from easeml_meter.server.web.meters import MeterPage
from easeml_meter.server.web.pages import VisitHere, download
from easeml_meter.service.actor import SYSTEM
from easeml_meter.service.history import show_session
from easeml_meter.service.testsets.differences import PAGE, comparable, compare_submissions
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
