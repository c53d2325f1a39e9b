"""The best adversary of a small world: every strategy on every data set, by dynamic programming."""

from __future__ import annotations

from fractions import Fraction
from functools import cache

from easeml_meter.promise import ledger
from easeml_meter.promise.gap import Gap
from easeml_meter.promise.ledger import Snapshot
from easeml_meter.promise.questions import Measured, Shown
from easeml_meter.spec import MeterSpec

EXAMPLES = 6
TRUE = Fraction(1, 2)
"""The true loss of every model: labels are fair coins."""

Question = tuple[tuple[str, int, int], ...]
"""Each answer with the data sets on which it is told, and with those on which it is wrong."""


class Adversary:
    """Plays every strategy against fair coins, and never forgets.

    A model is a set of flipped predictions; its test loss is the share of wrong ones. `spared` is
    the set of data sets still possible, a bit for each.
    """

    def __init__(self, spec: MeterSpec, examples: int = EXAMPLES) -> None:
        self.spec, self.meter = spec, spec.meter
        assert isinstance(self.meter.asked, Gap)
        self.asked = self.meter.asked
        self.worlds = range(2**examples)
        self.losses = [Fraction(errors, examples) for errors in range(examples + 1)]
        self.with_loss = [
            [
                sum(1 << world for world in self.worlds if (model ^ world).bit_count() == errors)
                for errors in range(examples + 1)
            ]
            for model in self.worlds
        ]
        self.validation_losses = [Fraction(k, 4 * examples) for k in range(4 * examples + 1)]
        self.told = cache(self._told)
        self.questions = cache(self._questions)
        self.endings = cache(self._endings)

    def tails(self) -> list[float]:
        """Return the probability that one model breaks the promise of each band's tolerance."""
        highest = Fraction(1) if self.spec.ceiling is None else Fraction(str(self.spec.ceiling))
        return [
            sum(
                worlds.bit_count() / len(self.worlds)
                for loss, worlds in zip(self.losses, self.with_loss[0], strict=True)
                if loss <= highest and abs(loss - TRUE) > Fraction(str(eps))
            )
            for eps in self.spec.tolerances
        ]

    def _breaks(self, answer: str, loss: Fraction) -> bool:
        """Whether an answer to a model with this test loss is wrong about its true loss."""
        if answer == self.asked.beyond:
            return Fraction(self.asked.least_above or 0) > TRUE
        promised = self.asked.tolerance_of(answer)
        return promised is not None and abs(loss - TRUE) > promised

    def _told(self, told: int) -> set[tuple[tuple[str, bool], ...]]:
        """Return, for each validation loss, the answer to each test loss, and whether it breaks."""
        found = set()
        for validation in self.validation_losses:
            shown = Shown(len(self.losses) - 1, validation)
            answers = [
                self.asked.answer(told, Measured(shown, loss), Fraction(0)) for loss in self.losses
            ]
            pairs = zip(answers, self.losses, strict=True)
            found.add(tuple((answer, self._breaks(answer, loss)) for answer, loss in pairs))
        return found

    def _questions(self, state: int, model: int) -> tuple[Question, ...]:
        """Return what each validation loss makes of the data sets."""
        found = []
        for told in self.told(state):
            masks: dict[str, list[int]] = {}
            for (answer, breaks), worlds in zip(told, self.with_loss[model], strict=True):
                masks.setdefault(answer, [0, 0])[breaks] |= worlds
            found.append(tuple((answer, right, wrong) for answer, (right, wrong) in masks.items()))
        return tuple(found)

    def _endings(self, state: int) -> frozenset[int]:
        """Return the data sets on which the last model breaks its promise, for every choice."""
        return frozenset(
            sum(wrong for _, _, wrong in question)
            for model in self.worlds
            for question in self.questions(state, model)
        )

    def best(self, spec: MeterSpec, spared: int | None = None) -> float:
        """Return the probability that the best strategy breaks a promise, while it is answered.

        Of the data sets, only the spared ones count.
        """

        meter = spec.meter

        @cache
        def after(history: tuple[str, ...]) -> Snapshot:
            return ledger.fold(meter, history)

        @cache
        def is_last(history: tuple[str, ...]) -> bool:
            answers = ledger.answers(meter, at := after(history))
            return not any(ledger.may(meter, ledger.step(meter, at, each)) for each in answers)

        @cache
        def most(history: tuple[str, ...], spared: int) -> int:
            at = after(history)
            if not ledger.may(meter, at):
                return 0
            if is_last(history):
                endings = self.endings(at.told)
                return max((spared & wrong).bit_count() for wrong in endings)
            found = 0
            for model in self.worlds if history else (0,):  # the first model is any
                for question in self.questions(at.told, model):
                    reached = 0
                    for answer, right, wrong in question:
                        reached += (spared & wrong).bit_count()
                        if spared & right:
                            reached += most((*history, answer), spared & right)
                    found = max(found, reached)
            return found

        every = (1 << len(self.worlds)) - 1
        return most((), every if spared is None else spared) / len(self.worlds)
