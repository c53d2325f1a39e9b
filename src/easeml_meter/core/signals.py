"""From two losses to what is told: gap, band, above the ceiling, and the protocol's answer.

An answer is a whole number: 1..m for a band, or one of the answers below, which have none. What
may be told next depends on the history of answers alone; `State` is the part of it that matters.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

from easeml_meter.conditions import Comparison
from easeml_meter.errors import invalid
from easeml_meter.promise.numbers.rounding import as_written, at_least, at_most
from easeml_meter.spec import Gap, MeterSpec, Protocol

if TYPE_CHECKING:
    from easeml_meter.core.views import Signal

Loss = float | Fraction
Against = Comparison | None
"""The old model beside a new one, where they are compared."""
ABOVE_CEILING = -1
NO_READING = -3
PASS = -6
FAIL = -7
BASELINE = -8
TOO_FAR = -9
BELOW_FLOOR = -11
TOO_FEW = -12
OK = -13
ALARM = -14

_NAMES = {
    ABOVE_CEILING: "above-ceiling",
    NO_READING: "no-reading",
    PASS: "pass",
    FAIL: "fail",
    BASELINE: "baseline",
    BELOW_FLOOR: "below-floor",
    TOO_FEW: "too-few",
    TOO_FAR: "too-far",
    OK: "ok",
    ALARM: "alarm",
}
_SILENT = {
    NO_READING: "The model could not be measured on the hidden inputs: nothing is promised.",
    TOO_FEW: "Too few rows are predicted positive on the test set: nothing is promised.",
    BASELINE: "Other models are compared with this one; nothing is promised about it.",
}
"""What is said with answers that promise nothing, whatever was asked."""
_ANSWERS = {name: answer for answer, name in _NAMES.items()}


def name_of(answer: int) -> str:
    """Name an answer for people and for the books."""
    return _NAMES.get(answer, str(answer))


def answer_named(name: str) -> int:
    """Read an answer from its name."""
    return _ANSWERS[name] if name in _ANSWERS else int(name)


@dataclass(frozen=True, slots=True)
class State:
    """What the rules remember of the history of answers."""

    top: int = 1
    """The running maximum of an incremental meter; 1 before anything was told."""
    passes: int = 0
    """Models that passed, or alarms, where they are counted."""
    based: bool = False
    """Whether there is a model to compare others with."""


@dataclass(frozen=True)
class Rules:
    """The feedback rule of one meter, step by step."""

    spec: MeterSpec
    first_edge: Fraction | None = None
    """Where the bands of one answer begin, if its edges were drawn: the others follow from it."""
    validation_loss: Fraction | None = None
    """Of one answer, where it decides which edges are left out (`merging`)."""

    def drawing(self, first_edge: Fraction | None) -> Rules:
        """Return the rule for one answer, whose edges were drawn from here on."""
        return Rules(self.spec, first_edge) if self.spec.drawn is not None else self

    def merging(self, validation_loss: Fraction) -> Rules:
        """Return the rule for one answer, without the edges that lie near the ceiling.

        An edge e cuts test losses at v - e and v + e. Where one of them is within two tolerances
        below the ceiling, the edge is dropped on both sides: on one side alone, three answers could
        come. The validation loss v is known, so a missing edge tells nothing.
        """
        return replace(self, validation_loss=validation_loss) if self.spec.merges else self

    @cached_property
    def _told_from(self) -> list[int]:
        """The numbers of the bands whose lower edges are told; the others join the one below."""
        loss, spec = self.validation_loss, self.spec
        if loss is None or spec.ceiling is None:
            return list(range(1, spec.signals + 1))
        highest = as_written(spec.ceiling)
        lowest = highest - 2 * as_written(spec.tolerances[0])
        sides = (1,) if spec.gap is Gap.SIGNED else (1, -1)
        return [1] + [
            number
            for number, edge in enumerate(self._lower_edges[1:], 2)
            if not any(lowest <= loss + side * edge <= highest for side in sides)
        ]

    @property
    def beyond(self) -> int:
        """The answer to a test loss above the ceiling; of a score, that is below its floor."""
        return ABOVE_CEILING if self.spec.floor is None else BELOW_FLOOR

    @property
    def incremental(self) -> bool:
        """Whether only the worst band so far is told."""
        return self.spec.protocol is Protocol.INCREMENTAL

    def gap(self, validation_loss: float | Fraction, test_loss: float | Fraction) -> Fraction:
        """Return the gap of two losses, without rounding.

        A signed gap is 0 for a model that is better on the test set.
        """
        above = as_written(test_loss) - as_written(validation_loss)
        return max(above, Fraction(0)) if self.spec.gap is Gap.SIGNED else abs(above)

    def band_of(self, gap: float | Fraction) -> int:
        """Return the number of the band that a gap falls into: lower edge in, upper edge out."""
        if not 0 <= gap <= 1:
            raise invalid("gap", gap, "a difference of two losses, from 0 to 1")
        if self.spec.drawn is None:
            # Exact fractions: a gap on an edge falls into the same band on every machine.
            edges = [self._lower_edges[number - 1] for number in self._told_from]
            return self._told_from[bisect_right(edges, as_written(gap)) - 1]
        first, apart = self._drawn
        last = math.ceil((1 - first) / apart) + 1
        return min(last, math.floor((as_written(gap) - first) / apart) + 2)

    @property
    def _drawn(self) -> tuple[Fraction, Fraction]:
        """The first edge and the distance of the edges; band 1 ends at the first."""
        if self.first_edge is None or self.spec.drawn is None:
            raise AssertionError("the edges of an answer are needed, and it has none")
        return self.first_edge, as_written(self.spec.drawn)

    @cached_property
    def _lower_edges(self) -> list[Fraction]:
        return [as_written(band.lower) for band in self.spec.bands]

    def answers(self, state: State) -> tuple[int, ...]:
        """List every answer that may come next, the most usual one first."""
        spec = self.spec
        highest = spec.signals
        if spec.drawn is not None:
            highest = math.ceil(1 / as_written(spec.drawn)) + 1
        lowest = state.top if self.incremental else 1
        found = [*range(lowest, highest + 1)]
        if spec.ceiling is not None:
            found.append(self.beyond)
        if spec.may_be_too_few:
            found.append(TOO_FEW)
        if spec.may_fail:
            found.append(NO_READING)
        return tuple(found)

    def answer(
        self,
        state: State,
        validation_loss: Loss,
        test_loss: Loss,
        against: Comparison | None = None,
    ) -> int:
        """Return what is told for a submission with these losses.

        The gap of a model does not depend on what it is compared `against`.
        """
        spec = self.spec
        # Each alone, and first: an error that depends on how far they are apart tells something.
        if not 0 <= validation_loss <= 1:
            raise invalid("validation loss", validation_loss, "a loss from 0 to 1")
        if not 0 <= test_loss <= 1:
            raise invalid("test loss", "(hidden)", "a loss from 0 to 1")
        if spec.ceiling is not None and as_written(test_loss) > as_written(spec.ceiling):
            return self.beyond
        told = self.merging(as_written(validation_loss))
        return self.read(state, told.band_of(self.gap(validation_loss, test_loss)))

    def read(self, state: State, band: int) -> int:
        """Return what is told of a model in this band: itself, or the worst one so far."""
        return max(state.top, band) if self.incremental else band

    def unread(self, state: State, reason: int) -> int:
        """Return what is told of a model without a reading: the reason."""
        return reason

    def after(self, state: State, answer: int) -> State:
        """Return the state once this was told."""
        if answer > 0 and self.incremental:
            return replace(state, top=answer)
        return state

    def ended(self, state: State) -> bool:
        """Whether an answer has closed the test set: with bands, none does."""
        return False

    def left(self, state: State, steps: int) -> int:
        """Return how many of so many steps are promised whatever their answers are."""
        return steps

    def share_left(self, state: State) -> float:
        """Return the share of the answers that close the test set which has not come yet."""
        return 1.0

    def level(self, state: State) -> int:
        """Return the index of the smallest tolerance that the next answer may promise."""
        return state.top - 1 if self.incremental else 0

    def tolerance(self, answer: int) -> float | None:
        """Return the tolerance promised with an answer; None where there is no reading."""
        if answer < 1:
            return None
        return self.spec.tolerances[answer - 1 if self.spec.drawn is None else 0]

    def range_of(self, answer: int) -> tuple[float, float] | None:
        """Return the edges of the empirical gap that an answer tells; None without a reading.

        An incremental answer tells an upper edge only: the gap is at most the worst so far.
        """
        if answer < 1:
            return None
        if self.spec.drawn is not None:
            first, apart = self._drawn
            lower = max(Fraction(0), first + (answer - 2) * apart) if answer > 1 else Fraction(0)
            upper = min(Fraction(1), first + (answer - 1) * apart)
            # Rounded outward: what is printed must hold for the exact edges, too.
            return float(at_least(lower, digits=15)), float(at_most(upper, digits=15))
        bands = self.spec.bands
        above = next((number for number in self._told_from if number > answer), len(bands) + 1)
        return (0.0 if self.incremental else bands[answer - 1].lower), bands[above - 2].upper

    @property
    def least_above(self) -> float | None:
        """The least true loss that "above the ceiling" promises; None if it promises nothing."""
        if self.spec.ceiling is None or not self.spec.merges:
            return None
        least = as_written(self.spec.ceiling) - as_written(self.spec.tolerances[0])
        return float(at_least(max(least, Fraction(0)), digits=15))

    def side(self, answer: int, validation_loss: Fraction) -> int:
        """Return 1 if the test loss must be above the validation loss, -1 if below, 0 if unknown.

        A distance has no sign, but losses lie between 0 and 1, or the ceiling: a gap may have room
        on one side only.
        """
        edges = self.range_of(answer)
        lower = as_written(edges[0]) if edges is not None else Fraction(0)
        if lower == 0:
            return 0
        if self.spec.gap is Gap.SIGNED or validation_loss < lower:
            return 1
        return -1 if validation_loss + lower > self._highest else 0

    @property
    def _highest(self) -> Fraction:
        """The largest test loss that gets a reading."""
        return Fraction(1) if self.spec.ceiling is None else as_written(self.spec.ceiling)

    def change_of(self, answer: int) -> tuple[float, float] | None:
        """Return the edges of n - o that an answer tells: none, unless that is the question."""
        return None

    def true_change_of(self, answer: int) -> tuple[float, float] | None:
        """Return what an answer promises of the true n - o."""
        return None

    def true_loss(
        self, answer: int, validation_loss: Fraction
    ) -> tuple[float | None, float | None]:
        """Return what an answer promises of the true loss: at least, at most; None for nothing.

        It is within the tolerance of the test loss, which the band leaves on either side of the
        validation loss, or on one. A running maximum is used for its upper end only.
        """
        if answer in (ABOVE_CEILING, BELOW_FLOOR):
            return self.least_above, None
        edges, tolerance = self.range_of(answer), self.tolerance(answer)
        if edges is None or tolerance is None:
            return None, None
        (lower, upper), eps = map(as_written, edges), as_written(tolerance)
        side = self.side(answer, validation_loss)
        above = min(validation_loss + upper, self._highest)
        most = (validation_loss - lower if side < 0 else above) + eps
        least = (validation_loss + lower if side > 0 else validation_loss - upper) - eps
        at_the_most = float(at_most(min(most, Fraction(1)), digits=15))
        if side <= 0 and (self.incremental or self.spec.gap is Gap.SIGNED):
            return None, at_the_most
        return float(at_least(max(least, Fraction(0)), digits=15)), at_the_most

    def truth(
        self, validation_loss: Fraction, test_loss: Fraction, against: Comparison | None = None
    ) -> dict[str, Any]:
        """Return what really happened at a step, as the fields of a `Truth`: here, the band."""
        return {"band": self.band_of(self.gap(validation_loss, test_loss))}

    def sentence(self, signal: Signal, sure: str) -> str:
        """Say what an answer promises; `sure` is its probability, as the begin of a sentence."""
        spec, answer = self.spec, signal.answer
        if answer in _SILENT:
            return _SILENT[answer]
        if answer == BELOW_FLOOR and spec.corpus is not None:
            word, least = spec.corpus.word, self.least_above
            told = f"The {word} on the test set is below the floor ({at_most(spec.floor or 0)})"
            if least is None:
                return f"{told}; nothing else is reported."
            most = at_most(1 - as_written(least))
            return f"{told}. {sure}: this model's true {word} is at most {most}."
        if signal.true_gap is None:
            ceiling, least = at_least(spec.ceiling or 0.0), self.least_above
            if least is None:
                return f"The test loss is above the ceiling ({ceiling}); nothing else is reported."
            return (
                f"The test loss is above the ceiling ({ceiling}). {sure}: this model's "
                f"true loss is at least {at_least(least)}."
            )
        lower, upper = signal.true_gap
        if spec.curve:
            return f"{sure}: {self._curve_promise(lower, upper)}"
        gap = "true gap"
        if spec.window is not None:
            batches = "1 batch" if spec.window == 1 else f"{spec.window:,} batches"
            gap += f", averaged over its window of {batches},"
        told_upper_end = self.incremental and answer > 0
        if told_upper_end or (spec.gap is Gap.SIGNED and lower == 0):
            return f"{sure}: this model's {gap} is at most {at_most(upper)}."
        edges = f"{at_least(lower)} and {at_most(upper)}"
        return f"{sure}: this model's {gap} lies between {edges}."

    def _curve_promise(self, lower: float, upper: float) -> str:
        within = (
            "at every threshold, this model's true rates of true and false positives are within "
            f"{at_most(upper)} of those on the validation set"
        )
        # A running maximum may be another model's band: its lower edge says nothing of this one.
        if self.incremental or lower <= 0:
            return f"{within}."
        return f"{within}; the largest difference is at least {at_least(lower)}."


@lru_cache(maxsize=1024)  # a meter has only a few bands, and a report asks at every step
def true_gap(edges: tuple[float, float], tolerance: float) -> tuple[float, float]:
    """Return what is promised of the gap to the true loss: the band, widened by eps."""
    lower, upper = (as_written(edge) for edge in edges)
    eps = as_written(tolerance)
    least, most = max(lower - eps, Fraction(0)), min(upper + eps, Fraction(1))
    return float(at_least(least, digits=15)), float(at_most(most, digits=15))
