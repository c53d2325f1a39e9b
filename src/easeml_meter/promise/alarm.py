"""The alarm: "ok" says that the true loss is at most the validation loss and g more.

g is what a team accepts, or follows from the rows there are: so that a model that does nothing
wrong is ok 99 times in 100, whatever luck its validation set had. It widens after an alarm, when
less of delta is left. It is a function of the answers so far and of public sizes, so every claim is
fixed before a hidden row is read. (docs/mathematics.md, "Levels".)
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from functools import lru_cache
from typing import Annotated, ClassVar, Literal, NamedTuple

from easeml_meter.errors import invalid
from easeml_meter.promise.claims import NotOver
from easeml_meter.promise.kernel import most_errors
from easeml_meter.promise.numbers import plain
from easeml_meter.promise.questions import Asking, Measured, Promise, Shown, Truth
from easeml_meter.promise.samples import Loss
from easeml_meter.promise.schema import Exact, Exacts, Setting
from easeml_meter.promise.shapes import Answer, Verdict

OK, ALARM = "ok", "alarm"
SURE_OF_OK = (Fraction(99, 100), Fraction(995, 1000), Fraction(995, 1000))
"""How often an honest model is ok, by the alarms so far: alarms of one team come together."""
_STEP = 1000
_MOST_PLANNED = 10**6
_MOST_FOUND, _MOST_SUMMED = 64, 2048
"""Ends that are found, and numbers of errors that are summed: of more, those between them."""
_HELD_BEYOND = 50
"""A plan is the least size from which on all so many next ones hold, too."""


class Alarm(Asking, frozen=True, kw_only=True):
    """ok or alarm: is the true loss more than the validation loss and g?"""

    g: Annotated[
        Exacts | None,
        Setting("the overfitting that is accepted; none: as small as the rows allow", above=0),
    ] = None
    expects: Annotated[
        Exact, Setting("the loss that g is planned for, where none is given", above=0, below=1)
    ] = Fraction(1, 5)
    form: ClassVar[Literal["tolerance", "level"]] = "level"
    verdict: ClassVar[bool] = True
    vouches: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.g is not None and len(self.g) not in (1, 3):
            raise invalid("g", list(map(float, self.g)), "one number, or one for each alarm: three")

    def shape(self, loss: Loss) -> Verdict:
        """A false claim leads on by "alarm" alone."""
        return Verdict()

    def claims(self, loss: Loss) -> tuple[tuple[NotOver], ...]:
        """One claim, which v and g fix."""
        return ((NotOver(),),)

    def margin(
        self, rows: int, validation_rows: int, alarms: int, level: Fraction
    ) -> Fraction | None:
        """Return g in force: after so many alarms, at the level of this answer; None: none does."""
        if self.g is not None:
            return self.g[min(alarms, len(self.g) - 1)]
        return least_margin(rows, validation_rows, alarms, level, self.expects)

    def answers(self, told: int) -> tuple[Answer, ...]:
        """List both answers, the more usual one first."""
        return (OK, ALARM)

    def answer(self, told: int, rows: Measured, level: Fraction, g: Fraction) -> Answer:
        """Return ok if the rows reject that the true loss is v + g or more."""
        bar = bar_of(rows.shown, g, level)
        return OK if rows.loss is not None and bar is not None and rows.errors <= bar else ALARM

    def promise(self, answer: Answer, shown: Shown) -> tuple[Promise, ...]:
        """Return what an ok promises: g is the edge of its answer."""
        if answer != OK or shown.first_edge is None or shown.validation is None:
            return ()
        claim = min(Fraction(1), shown.validation + shown.first_edge)
        return (Promise("true loss", None, claim),)

    def truth(self, rows: Measured, level: Fraction) -> Truth:
        """Return whether the claim holds of these rows; an alarm claims nothing."""
        g, loss = rows.shown.first_edge, rows.loss
        if g is None or loss is None:
            return Truth()
        return Truth(passed=loss <= (rows.shown.validation or 0) + g)


def claim_of(shown: Shown, g: Fraction) -> Fraction:
    """Return v + g, at most 1 - 1/n: above it there is nothing to promise."""
    return min((shown.validation or Fraction(0)) + g, 1 - Fraction(1, shown.rows))


@lru_cache(maxsize=4096)
def bar_of(shown: Shown, g: Fraction, level: Fraction) -> int | None:
    """Return the most errors that are ok; None: not even 0 would be. Public numbers decide it."""
    return most_errors(shown.rows, claim_of(shown, g), level)


@lru_cache(maxsize=4096)
def least_margin(
    rows: int, validation_rows: int, alarms: int, level: Fraction, expects: Fraction
) -> Fraction | None:
    """Return the least multiple of 1/1000 at which an honest model is ok often enough; or None.

    Honest: its true loss is `expects`, and neither it nor its validation set looked at anything.
    """
    if not level:
        return None
    sure = float(SURE_OF_OK[min(alarms, len(SURE_OF_OK) - 1)])
    honest = _Honest(rows, validation_rows, level, expects)
    if honest.ok(1.0) < sure:
        return None
    return Fraction(plain.first(lambda g: honest.ok(g / _STEP) >= sure, 0, _STEP), _STEP)


class _Honest:
    """How often a model of some true loss is ok, its validation loss being as noisy.

    e errors of n are ok where the claim, v + g, is at least their Clopper-Pearson end: so these
    ends are found once, and each g is a sum over them.
    """

    def __init__(self, rows: int, validation_rows: int, level: Fraction, loss: Fraction) -> None:
        self._validation, p = validation_rows, float(loss)
        self._most = 1 - 1 / rows
        likely = plain.likely(rows, p)
        wide = max(1, len(likely) // _MOST_SUMMED)
        middles = range(likely.start + wide // 2, likely.stop, wide)
        self._ends = [
            (wide * math.exp(plain.log_density(rows, errors, p)), end)
            for errors, end in zip(middles, _upper_ends(rows, middles, float(level)), strict=True)
        ]
        self._from = plain.likely(validation_rows, p).start
        chances = [
            math.exp(plain.log_density(validation_rows, errors, p))
            for errors in plain.likely(validation_rows, p)
        ]
        self._at_least = [*[*itertools.accumulate(reversed(chances))][::-1], 0.0]

    def ok(self, g: float) -> float:
        """Return the chance of ok at g."""
        total = 0.0
        for chance, end in self._ends:
            if end > self._most:  # the claim is cut there: nothing is ok
                break
            needed = math.ceil((end - g) * self._validation - 1e-9)
            at = min(max(0, needed - self._from), len(self._at_least) - 1)
            total += chance * self._at_least[at]
        return total


def _upper_ends(rows: int, errors: range, level: float) -> list[float]:
    """Return Clopper-Pearson ends: of the most numbers of errors between those that are found.

    They bend so little that straight lines between these do.
    """
    wide = max(1, len(errors) // _MOST_FOUND)
    knots = sorted({*errors[::wide], errors[-1]})
    near: float | None = None
    ends = []
    for each in knots:
        ends.append(plain.upper_end(rows, each, level, near))
        near = ends[-1] + 1 / rows
    found = ends[:1]
    for (low, at), (high, to) in itertools.pairwise(zip(knots, ends, strict=True)):
        between = range(low + errors.step, high + 1, errors.step)
        found += [at + (to - at) * (each - low) / (high - low) for each in between]
    return found


def chance_of_ok(
    rows: int, validation_rows: int, loss: Fraction, g: Fraction, level: Fraction
) -> float:
    """Return how likely a model of this true loss is ok, its validation loss being as noisy."""
    return _Honest(rows, validation_rows, level, loss).ok(float(g))


class Offer(NamedTuple):
    """What so many labels carry: g before and after alarms; None: no g would do."""

    labels: int
    validation_rows: int
    margins: tuple[Fraction | None, ...]


def offer(
    labels: int,
    levels: tuple[Fraction, ...],
    expects: Fraction = Fraction(1, 5),
    validation_rows: int | None = None,
) -> Offer:
    """Return g at each of these levels; a validation set of half as many rows if none is known."""
    rows = max(1, labels // 2) if validation_rows is None else validation_rows
    found = tuple(
        least_margin(labels, rows, alarms, level, expects) for alarms, level in enumerate(levels)
    )
    return Offer(labels, rows, found)


def labels_for(
    g: Fraction,
    level: Fraction,
    alarms: int = 0,
    expects: Fraction = Fraction(1, 5),
    validation_rows: int | None = None,
) -> int | None:
    """Return the least number of labels from which on g is enough; None if none is.

    Ripples of whole errors are looked at over the next sizes.
    """
    sure = float(SURE_OF_OK[min(alarms, len(SURE_OF_OK) - 1)])

    def enough(labels: int) -> bool:
        rows = max(1, labels // 2) if validation_rows is None else validation_rows
        return chance_of_ok(labels, rows, expects, g, level) >= sure

    size = 16
    while not enough(size):
        size *= 2
        if size > _MOST_PLANNED:
            return None
    found = plain.first(enough, size // 2, size)
    ahead, at = 0, found
    while ahead < _HELD_BEYOND:
        at += 1
        ahead = ahead + 1 if enough(at) else 0
    found = at - ahead
    while found > 1 and enough(found - 1):
        found -= 1
    return found
