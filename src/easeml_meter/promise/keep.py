"""Keep or discard: is the new model better than the one it would replace?"""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, ClassVar, Literal

from easeml_meter.promise.claims import Better
from easeml_meter.promise.kernel import least_wins
from easeml_meter.promise.questions import Asking, Measured, Promise, Shown
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

    def answer(self, told: int, rows: Measured, level: Fraction) -> Answer:
        """Keep if so many wins are luck at most once in 1 / level."""
        bar = least_wins(rows.wins + rows.losses, level)
        return KEEP if rows.loss is not None and bar is not None and rows.wins >= bar else DISCARD

    def promise(self, told: int, answer: Answer, shown: Shown) -> tuple[Promise, ...]:
        """A model that is kept is better."""
        return (Promise("true n - o", Fraction(0), None),) if answer == KEEP else ()
