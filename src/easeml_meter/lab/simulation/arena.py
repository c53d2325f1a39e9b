"""The desk where many sessions at once hand in models, answered by the meter's real rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cached_property

import numpy as np

from easeml_meter.core.model import Entry
from easeml_meter.lab.meters import gap_of
from easeml_meter.lab.simulation.worlds import Flags, Floats, Integers, Models
from easeml_meter.promise import ledger
from easeml_meter.promise.gap import ABOVE, BELOW
from easeml_meter.promise.ledger import Snapshot
from easeml_meter.promise.meter import Meter
from easeml_meter.promise.numbers.rounding import as_written
from easeml_meter.promise.questions import NO_READING, TOO_FEW, Measured, Shown, is_band
from easeml_meter.vault.draws import Draws

_SLACK = 1e-9
"""A distance counts as beyond the tolerance only if it is so by more than rounding explains."""


_ENTRY = Entry("", 1, 1, 0, "", "", "", 1, "", "", "", "")
"""What is drawn for; the lab fills in the submission and its validation loss."""


_OTHERS = (ABOVE, BELOW, NO_READING, TOO_FEW)
UNREAD = -1 - _OTHERS.index(NO_READING)


def number_of(answer: str) -> int:
    """Return the number of a band, and a negative one of every other answer."""
    return int(answer) if is_band(answer) else -1 - _OTHERS.index(answer)


def name_of(number: int) -> str:
    """Return the answer that has a number."""
    return str(number) if number > 0 else _OTHERS[-1 - number]


Loss = float | Fraction


def answer_to(
    meter: Meter, told: int, validation: Loss, test: Loss, edge: Fraction | None = None
) -> int:
    """Return the number of the answer to these losses, after the worst band that was told."""
    shown = Shown(1, as_written(validation), None, edge)
    rows = Measured(shown, as_written(test))
    return number_of(gap_of(meter).answer(told, rows, Fraction(0)))


class TreeNode:
    """Where a session stands in the tree of histories."""

    def __init__(
        self,
        meter: Meter,
        at: Snapshot,
        later: tuple[int, ...] = (),
        earlier: tuple[Snapshot, ...] = (),
        shared: int = 0,
        *,
        size: int = 1,
    ) -> None:
        """Stand here, on so many labels; `later` tenants follow when its budget is spent.

        If they can have some `shared` steps together, all hand over before the last of these.
        """
        self.shared = 0 if at.group else shared
        asked = at.answers + sum(each.answers for each in earlier)
        if self.shared and asked == shared - 1:
            new = (ledger.start(meter, team) for team in later)
            at = ledger.joined(meter, size, [*earlier, at, *new])
            later, earlier, self.shared = (), (), 0
        elif later and not ledger.may(meter, at):
            earlier = (*earlier, at)
            at, later = ledger.start(meter, later[0]), later[1:]
        self.meter, self.at, self.later, self.earlier = meter, at, later, earlier
        self.size, self.open = size, ledger.may(meter, at)

    def after(self, answer: int) -> TreeNode:
        """Return the place once this was told."""
        at = ledger.step(self.meter, self.at, name_of(answer))
        return TreeNode(self.meter, at, self.later, self.earlier, self.shared, size=self.size)

    @cached_property
    def sure(self) -> bool:
        """Whether one more submission can follow the next one, whatever that is answered."""
        if self.later or self.shared:
            return True
        return ledger.left(self.meter, self.at) > 1


class Arena:
    """Hands models in and keeps count of broken promises.

    All arrays have one entry for each session. `tenants` are served one after the other by the
    same developer; isolated tenants have a desk each. If they are to have `shared` steps, they
    hand over before the last one of these.
    """

    def __init__(
        self,
        meter: Meter,
        size: int,
        sessions: int,
        tenants: Sequence[int] = (1,),
        *,
        shared: int = 0,
        secret: bytes = bytes(32),
    ) -> None:
        """Open the books of all sessions; edges are drawn with this secret."""
        self.meter, self.size, self.sessions = meter, size, sessions
        starts = [ledger.start(self.meter, tenant) for tenant in tenants]
        self.promised = sum(ledger.most_answers(self.meter, each) or 0 for each in starts)
        first = TreeNode(self.meter, starts[0], tuple(tenants[1:]), shared=shared, size=size)
        self.places = [first] * sessions
        self.strain: Floats = np.zeros(sessions)
        """The largest distance of test and true loss yet, as a share of the tolerance promised."""
        self.answered: Integers = np.zeros(sessions, dtype=np.int64)
        self._told: dict[tuple[int, float, int, int], tuple[int, float | None]] = {}
        """What the rules said of a validation loss, and units of a scale."""
        self._last: Integers = np.zeros(sessions, dtype=np.int64)
        self.draws = Draws(secret)
        self.gaps: list[tuple[float, float] | None] = [None] * sessions
        """The edges told with the last answers."""

    @property
    def failed(self) -> Flags:
        """In which sessions the promise was broken."""
        return self.strain > 1 + _SLACK

    @property
    def open(self) -> Flags:
        """Which sessions may submit."""
        return np.array([place.open for place in self.places], dtype=np.bool_)

    @property
    def sure(self) -> Flags:
        """Which sessions may submit at least twice."""
        return np.array([place.open and place.sure for place in self.places], dtype=np.bool_)

    def submit(
        self, validation: Floats, models: Models, which: Flags, crashes: Flags | None = None
    ) -> Integers:
        """Hand in one model for each of these sessions; give the answers, 0 where none was asked.

        The promise of a session is broken when one answered model's test loss is further from its
        true loss than was promised. Where measuring can fail, `crashes` says for whom it does.
        """
        answers = np.zeros(self.sessions, dtype=np.int64)
        distance = np.abs(models.test - models.true).tolist()
        values, units = validation.tolist(), models.units.tolist()
        drawn = not self.meter.question.numbered
        onward: dict[tuple[TreeNode, int], TreeNode] = {}
        for index in np.flatnonzero(which & self.open).tolist():
            place = self.places[index]
            if crashes is not None and crashes[index] and self.meter.sample.may_fail:
                answer, tolerance = UNREAD, None
            else:
                # Many sessions ask the same, unless edges are drawn.
                key = (place.at.told, values[index], units[index], models.scale)
                told = None if drawn else self._told.get(key)
                if told is None:
                    test = Fraction(units[index], models.scale)
                    told = self._tell(index, values[index], test)
                    if not drawn:
                        self._told[key] = told
                answer, tolerance = told
            answers[index] = answer
            if tolerance is not None:
                self.strain[index] = max(self.strain[index], distance[index] / tolerance)
            elif name_of(answer) == ABOVE and gap_of(self.meter).merges:
                # It promises a true loss of at least the ceiling minus the tolerance.
                question = self.meter.question
                short = float(question.limit or 0) - models.true[index]
                eps = float(question.tolerances[0])
                self.strain[index] = max(self.strain[index], short / eps)
            step = (place, answer)
            if step not in onward:
                onward[step] = place.after(answer)
            self.places[index] = onward[step]
        self.answered += answers != 0
        self._last = answers
        return answers

    def resubmit(self) -> Integers:
        """Hand the last submissions in again, unchanged: the same answers, free of charge."""
        return self._last.copy()

    def _tell(self, index: int, validation: float, test: Fraction) -> tuple[int, float | None]:
        """Ask the rules, with the edges drawn for this submission, if edges are drawn."""
        told, edge = self.places[index].at.told, None
        apart = self.meter.question.draws
        if apart is not None:
            edge = self.draws.first_edge(self.drawn_for(index, validation), apart)
        answer = answer_to(self.meter, told, validation, test, edge)
        if edge is not None:
            shown = Shown(self.size, as_written(validation), None, edge)
            told_edges = self.meter.asked.range_of(str(answer), shown)
            self.gaps[index] = told_edges and (float(told_edges[0]), float(told_edges[1]))
        tolerance = self.meter.asked.tolerance_of(name_of(answer))
        return answer, None if tolerance is None else float(tolerance)

    def drawn_for(self, index: int, validation: float) -> Entry:
        """Return what the edges of a session's next answer are drawn for."""
        name = f"{index}/{self.answered[index]}"
        return replace(_ENTRY, submission=name, validation_loss=repr(validation))
