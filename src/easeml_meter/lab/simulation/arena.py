"""The desk where many sessions at once hand in models, answered by the meter's real rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cached_property

import numpy as np

from easeml_meter.core.ledger import Account, Ledger
from easeml_meter.core.model import Entry
from easeml_meter.core.signals import ABOVE_CEILING, NO_READING, State
from easeml_meter.errors import invalid
from easeml_meter.lab.simulation.worlds import Flags, Floats, Integers, Models
from easeml_meter.spec import METERS
from easeml_meter.vault.draws import Draws

_SLACK = 1e-9
"""A distance counts as beyond the tolerance only if it is so by more than rounding explains."""


_ENTRY = Entry("", 1, 1, 0, "", "", "", 1, "", "", "", "")
"""What is drawn for; the lab fills in the submission and its validation loss."""


class AnySizeLedger(Ledger):
    """A ledger that accepts too few labels as well: the lab asks what they lead to."""

    def __post_init__(self) -> None:
        """Check all but the size."""
        if self.spec.protocol not in METERS:
            raise invalid("protocol", str(self.spec.protocol), "only meters answer submissions")


class TreeNode:
    """Where a session stands in the tree of histories."""

    def __init__(
        self,
        ledger: Ledger,
        account: Account,
        later: tuple[int, ...] = (),
        earlier: tuple[Account, ...] = (),
        shared: int = 0,
    ) -> None:
        """Stand at this account; `later` tenants follow when its budget is spent.

        If they can have some `shared` steps together, all hand over before the last of these.
        """
        self.shared = 0 if account.group else shared
        asked = account.steps + sum(each.steps for each in earlier)
        if self.shared and asked == shared - 1:
            account = ledger.merge([*earlier, account, *map(Account, later)])
            later, earlier, self.shared = (), (), 0
        elif later and not ledger.may_submit(account):
            earlier = (*earlier, account)
            account, later = Account(tenant=later[0]), later[1:]
        self.ledger, self.account, self.later, self.earlier = ledger, account, later, earlier
        self.state = account.state
        self.open = ledger.may_submit(account)

    def after(self, answer: int) -> TreeNode:
        """Return the place once this was told."""
        return self._at(self.ledger.record(self.account, answer))

    def _at(self, account: Account) -> TreeNode:
        return TreeNode(self.ledger, account, self.later, self.earlier, self.shared)

    @cached_property
    def sure(self) -> bool:
        """Whether one more submission can follow the next one, whatever that is answered."""
        if self.later or self.shared:
            return True
        return self.ledger.steps_left(self.account) > 1


class Arena:
    """Hands models in and keeps count of broken promises.

    All arrays have one entry for each session. `tenants` are served one after the other by the
    same developer; isolated tenants have a desk each. If they are to have `shared` steps, they
    hand over before the last one of these.
    """

    def __init__(
        self,
        ledger: Ledger,
        sessions: int,
        tenants: Sequence[int] = (1,),
        shared: int = 0,
        secret: bytes = bytes(32),
    ) -> None:
        """Open the books of all sessions; edges are drawn with this secret."""
        self.ledger, self.sessions = ledger, sessions
        self.rules, self.spec = ledger.rules, ledger.spec
        self.promised = sum(ledger.promised(tenant) for tenant in tenants)
        start = Account(tenant=tenants[0])
        first = TreeNode(ledger, start, tuple(tenants[1:]), shared=shared)
        self.places = [first] * sessions
        self.strain: Floats = np.zeros(sessions)
        """The largest distance of test and true loss yet, as a share of the tolerance promised."""
        self.answered: Integers = np.zeros(sessions, dtype=np.int64)
        self._told: dict[tuple[State, float, int, int], tuple[int, float | None]] = {}
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

    @property
    def states(self) -> list[State]:
        """What the rules remember of each session."""
        return [place.state for place in self.places]

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
        drawn = self.spec.drawn is not None
        onward: dict[tuple[TreeNode, int], TreeNode] = {}
        for index in np.flatnonzero(which & self.open).tolist():
            place = self.places[index]
            if crashes is not None and crashes[index] and self.spec.may_fail:
                answer, tolerance = self.rules.unread(place.state, NO_READING), None
            else:
                # Many sessions ask the same, unless edges are drawn.
                key = (place.state, values[index], units[index], models.scale)
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
            elif answer == ABOVE_CEILING and self.spec.merges:
                # It promises a true loss of at least the ceiling minus the tolerance.
                short = (self.spec.ceiling or 0.0) - models.true[index]
                self.strain[index] = max(self.strain[index], short / self.spec.tolerances[0])
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
        state = self.places[index].state
        if self.spec.drawn is not None:
            entry = self.drawn_for(index, validation)
            rules = self.rules.drawing(self.draws.first_edge(entry, self.spec.drawn))
            answer = rules.answer(state, validation, test)
            self.gaps[index] = rules.range_of(answer)
            return answer, rules.tolerance(answer)
        answer = self.rules.answer(state, validation, test)
        return answer, self.rules.tolerance(answer)

    def drawn_for(self, index: int, validation: float) -> Entry:
        """Return what the edges of a session's next answer are drawn for."""
        name = f"{index}/{self.answered[index]}"
        return replace(_ENTRY, submission=name, validation_loss=repr(validation))
