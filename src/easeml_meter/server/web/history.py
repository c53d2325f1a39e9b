"""Answers as pages show them: the last one, the chart, and the list of all, also as CSV."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass, replace
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Response

from easeml_meter.core.people import Role
from easeml_meter.core.questions.planning import labels_needed
from easeml_meter.core.submissions import Note
from easeml_meter.core.views import SessionView, Signal
from easeml_meter.promise.numbers.rounding import at_least
from easeml_meter.report.advice import advice
from easeml_meter.report.checks import checks, summary
from easeml_meter.report.curves import curves_svg
from easeml_meter.report.percent import in_percent
from easeml_meter.report.promised import MOST, best_promise, bounded, mark, promised_svg, tones
from easeml_meter.report.scale import band_tone, tone
from easeml_meter.report.words import (
    LOW_BATTERY,
    loss_name,
    loss_sentence,
    loss_words,
    measured_words,
    page_words,
    range_words,
    sure_words,
    true_loss_words,
    validation_words,
    when,
)
from easeml_meter.server.api.history import Generation
from easeml_meter.server.parameters import Tenant
from easeml_meter.server.web.pages import Visit, VisitHere, download
from easeml_meter.service import users
from easeml_meter.service.actor import Actor
from easeml_meter.service.history import show_session

router = APIRouter(include_in_schema=False)

NEWEST = MOST
"""Answers that a page lists, the newest; each column of the chart leads to its line."""
_PIPS = 24
_MOST_BANDS = 8
_COLUMNS = (
    "step",
    "model",
    "question",
    "answer",
    "gap_at_least",
    "gap_at_most",
    "validation_loss",
    "true_loss_at_least",
    "true_loss_at_most",
    "who",
    "told_at",
    "note",
    "link",
)
_CURVED = 200
"""Steps up to which the losses are drawn after release."""


@dataclass(frozen=True)
class HistoryLook:
    """Which lines of a history are looked at, and in which order; the newest first by default."""

    q: str = ""
    by: str = "step"
    up: bool = False

    def lines(self, found: list[HistoryLine]) -> list[HistoryLine]:
        """Return the lines that contain the words, in order."""
        words = self.q.casefold().strip()
        kept = [each for each in found if words in each.text.casefold()]
        # Unknown numbers come last either way round.
        known = [each for each in kept if each.key(self.by) is not None]
        known.sort(key=lambda each: each.key(self.by), reverse=not self.up)
        return known + [each for each in kept if each.key(self.by) is None]


NEWEST_FIRST = HistoryLook()


def the_look(
    q: Annotated[str, Query(max_length=200)] = "",
    by: Annotated[str, Query(pattern="^(step|model|validation|answer|promised)$")] = "step",
    up: bool = False,
) -> HistoryLook:
    """Read from the address which lines are looked at."""
    return HistoryLook(q, by, up)


LookHere = Annotated[HistoryLook, Depends(the_look)]


@dataclass(frozen=True)
class ShownAnswer:
    """An answer as it is shown."""

    signal: Signal

    @property
    def tone(self) -> int:
        """Its colour, from 1 to 5, the worst; 0: none."""
        return tone(self.signal)

    @property
    def mark(self) -> str:
        """The number of its band, where that means something."""
        return mark(self.signal)

    @property
    def words(self) -> str:
        """What was told."""
        return page_words(self.signal)

    @property
    def title(self) -> str:
        """What was told, as a heading."""
        band, spec = self.signal.band, self.signal.spec
        numbered = band is not None and self.signal.change is None and spec.meter.question.numbered
        of_all = f" of {spec.meter.question.rungs}" if numbered else ""
        return f"{self.words[0].upper()}{self.words[1:]}{of_all}"

    @property
    def gap(self) -> str:
        """The edges of the gap told."""
        gap = self.signal.gap
        return "unknown" if gap is None else range_words(self.signal.spec, gap)

    @property
    def loss(self) -> str:
        """The validation loss, and what is promised of the true loss; may be empty."""
        return loss_sentence(self.signal)

    @property
    def validation_loss(self) -> str:
        """The validation loss."""
        return validation_words(self.signal)

    @property
    def true_loss(self) -> str:
        """Between which losses the true loss lies, as promised."""
        return true_loss_words(self.signal)

    @property
    def bound(self) -> str:
        """The upper bound on the true loss; empty: none is promised."""
        most = bounded(self.signal)
        return "" if most is None else loss_words(self.signal.spec, most)

    @property
    def least(self) -> str:
        """The lower bound on the true loss; empty: none is promised."""
        least = self.signal.true_loss_at_least
        return loss_words(self.signal.spec, least, at_least) if least else ""

    @property
    def sure(self) -> str:
        """The confidence of the promise."""
        return sure_words(self.signal.spec, self.signal.generation)


@dataclass(frozen=True)
class HistoryLine(ShownAnswer):
    """A line of the history."""

    who: str
    note: Note | None = None

    @property
    def text(self) -> str:
        """What is searched for words."""
        noted = f"\n{self.note.text}\n{self.note.link}" if self.note else ""
        return f"{self.signal.model}\n{self.who}{noted}"

    def key(self, by: str) -> Any:
        """Return what it is sorted by; None if that is not known."""
        signal = self.signal
        if by == "answer":  # edges take a while, and most people sort by time
            return signal.answer > 0, signal.gap or (0.0, 0.0), signal.answer
        return {
            "step": signal.step,
            "model": signal.model.casefold(),
            "validation": signal.validation_loss,
            "promised": bounded(signal),
        }[by]


@dataclass(frozen=True)
class Session:
    """What was told from one test set, as pages show it."""

    view: SessionView
    role: Role
    """The visitor's."""
    names: dict[int, str]
    """Who handed in each step, where that is known."""
    look: HistoryLook = NEWEST_FIRST
    newest: int = NEWEST

    @classmethod
    def of(
        cls, visit: Visit, meter: str, view: SessionView, actor: Actor, look: HistoryLook
    ) -> Session:
        """Put the names of people to a session of the actor's team."""
        known = users.user_names(visit.at(meter), visit.site, {*view.submitters})
        pairs = zip(view.signals, view.submitters, strict=True)
        names = {each.step: known.get(who, "") for each, who in pairs}
        return cls(view, actor.role, names, look)

    @property
    def found(self) -> list[HistoryLine]:
        """All lines that are looked at, in order."""
        notes = self.view.noted
        every = [
            HistoryLine(
                each, self.names.get(each.step, ""), notes.get((each.generation, each.step))
            )
            for each in self.view.signals
        ]
        return self.look.lines(every)

    @property
    def last(self) -> ShownAnswer | None:
        """The last answer."""
        return ShownAnswer(self.view.signals[-1]) if self.view.signals else None

    @property
    def truth(self) -> str:
        """The test loss of the last submission, once the test set is released; empty before."""
        known = self.view.retrospective
        if not self.view.released or len(known) < len(self.view.signals):
            return ""
        last = known[-1] if known else None
        return "" if last is None else measured_words(self.view.spec, last.test_loss)

    @property
    def best(self) -> ShownAnswer | None:
        """The answer with the best promise."""
        best = best_promise(self.view)
        return None if best is None else ShownAnswer(best)

    @property
    def state(self) -> str:
        """The phase of the test set, and "nearly" when few answers are left."""
        low = self.view.active and self.view.battery < LOW_BATTERY
        return "nearly" if low else str(self.view.phase)

    @property
    def answers(self) -> int:
        """The answers given, and those that are promised."""
        return len(self.view.signals) + self.view.steps_left

    @property
    def labels_per_answer(self) -> str:
        """What an answer costs: of those given, or as planned while more can follow."""
        labels = self.view.rows or self.view.labels_needed
        meter = self.view.spec.meter
        if meter.renewal.rolls:  # what joins the window for its answers
            return f"{labels_needed(self.view.spec, 2) / (meter.answers() or 1):,.0f} planned"
        before = meter.before(self.view.generation)
        if not self.view.ended:
            every = self.answers + before
            return f"{labels / every:,.0f} planned" if every else ""
        given = len(self.view.signals)
        return f"{labels / (given + before):,.0f}" if given else "no answers"

    @property
    def pips(self) -> list[bool]:
        """One for each answer, whether it is left; empty: too many to draw."""
        used = len(self.view.signals)
        if self.view.spec.meter.renewal.rolls:
            return []
        return [index >= used for index in range(self.answers)] if self.answers <= _PIPS else []

    @property
    def bands(self) -> list[tuple[int, bool]]:
        """The tone of each band, and whether the last answer reaches it; empty: none to draw."""
        last = self.view.signals[-1] if self.view.signals else None
        question = self.view.spec.meter.question
        count = question.rungs
        if question.reads != "gap" or not question.numbered or count > _MOST_BANDS:
            return []
        told = range(0) if last is None else range(last.band or 1, (last.highest_band or 0) + 1)
        return [(band_tone(each, count), each in told) for each in range(1, count + 1)]

    @property
    def edges(self) -> list[str]:
        """The edges of the bands."""
        spec = self.view.spec
        found = spec.meter.question.ends[:-1]
        return [*(loss_words(spec, each).removesuffix(" %") for each in found), loss_words(spec, 1)]

    @property
    def loss_name(self) -> str:
        """What people call the loss."""
        return loss_name(self.view.spec)

    @property
    def advice(self) -> tuple[str, ...]:
        """What to do now."""
        return tuple(in_percent(line, self.view.spec) for line in advice(self.view, self.role))

    @property
    def charts(self) -> str:
        """Each model with its promise, for wide windows and for phones; CSS shows one."""
        return promised_svg(self.view) + promised_svg(self.view, phone=True)

    @property
    def keys(self) -> list[tuple[int, float, float]]:
        """The bars of the legend, in the tones of the chart: tone, left edge and width of each."""
        found = tones(self.view)
        width = 18 / len(found)
        return [(tone, 2 + width * place, width - 1) for place, tone in enumerate(found)]

    @property
    def past(self) -> list[ShownAnswer]:
        """The newest answers, for a line in a list."""
        return [ShownAnswer(each) for each in self.view.signals[-12:]]

    @property
    def curves(self) -> str:
        """Validation and test loss, once they are known; empty: too long to draw here."""
        return curves_svg(self.view) if len(self.view.signals) <= _CURVED else ""

    @property
    def verdict(self) -> str:
        """Whether what was told was right."""
        return summary(checks(self.view))

    def sorted_by(self, by: str) -> HistoryLook:
        """Return the same lines sorted otherwise; the same column again turns them round."""
        return replace(self.look, by=by, up=not self.look.up if by == self.look.by else False)


@router.get("/meters/{meter}/history.csv")
def history_csv(
    visit: VisitHere,
    meter: str,
    look: LookHere,
    tenant: Tenant = None,
    generation: Generation = None,
) -> Response:
    """Return the lines of a history as a file."""
    actor = visit.at(meter, tenant)
    view = show_session(actor, visit.site.space(meter), generation)
    session = Session.of(visit, meter, view, actor, look)
    written = io.StringIO()
    table = csv.writer(written)
    table.writerow(_COLUMNS)
    for line in session.found:
        signal = line.signal
        gap = signal.gap or ("", "")
        losses = signal.validation_loss, signal.true_loss_at_least, signal.true_loss_at_most
        row = (
            signal.step,
            _cell(signal.model),
            signal.spec.meter.question.text,
            signal.name,
            *gap,
            *losses,
            _cell(line.who),
        )
        noted = (_cell(line.note.text), line.note.link) if line.note else ("", "")
        table.writerow([*row, when(signal.told_at), *noted])
    return download(written.getvalue(), "text/csv", f"answers-{view.generation}.csv")


def _cell(text: str) -> str:
    """Keep a spreadsheet from taking a stranger's text for a formula."""
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text
