"""Keep or discard: is the new model better than the one it would replace?"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import Annotated, ClassVar, Literal

from easeml_meter.promise.claims import Better
from easeml_meter.promise.kernel import bars_of_change
from easeml_meter.promise.questions import Asking, Measured, Promise, Shown, Truth
from easeml_meter.promise.samples import Loss
from easeml_meter.promise.schema import Setting
from easeml_meter.promise.shapes import Answer, Verdict

KEEP, DISCARD = "keep", "discard"


class Keep(Asking, frozen=True, kw_only=True):
    """Keep what is better than the old model, by the exact sign test on the rows they dispute."""

    than: Annotated[
        Literal["kept", "deployed"],
        Setting("which model the new one has to beat: the last one kept, or the deployed one"),
    ] = "kept"
    form: ClassVar[Literal["tolerance", "level"]] = "level"
    verdict: ClassVar[bool] = True

    @property
    def needs(self) -> frozenset[str]:
        """An old model."""
        return frozenset(("old", "labels"))

    @property
    def promotes(self) -> bool:
        """Whether people say which model is deployed."""
        return self.than == "deployed"

    def shape(self, loss: Loss) -> Verdict:
        """A false claim leads on by "discard" alone."""
        return Verdict()

    def claims(self, loss: Loss) -> tuple[tuple[Better], ...]:
        """One claim."""
        return ((Better(),),)

    def answers(self, told: int) -> tuple[Answer, ...]:
        """List both answers, the more usual one first."""
        return (DISCARD, KEEP)

    def answer(self, told: int, rows: Measured, level: Fraction) -> Answer:
        """Keep if so many wins are luck at most once in 1 / level."""
        bar = self.bars(rows.shown.rows, level)[rows.wins + rows.losses]
        return KEEP if rows.loss is not None and bar is not None and rows.wins >= bar else DISCARD

    def bars(self, rows: int, level: Fraction) -> tuple[int | None, ...]:
        """Return the least wins for every number of disputed rows, of public numbers alone."""
        return _bars(rows, level)

    def promise(self, answer: Answer, shown: Shown) -> tuple[Promise, ...]:
        """A model that is kept is better."""
        return (Promise("true n - o", Fraction(0), None),) if answer == KEEP else ()

    def truth(self, rows: Measured, level: Fraction) -> Truth:
        """Return whether these rows keep it."""
        return Truth(passed=self.answer(0, rows, level) == KEEP)


@lru_cache(maxsize=64)
def _bars(rows: int, level: Fraction) -> tuple[int | None, ...]:
    return bars_of_change(rows, Fraction(0), level)
