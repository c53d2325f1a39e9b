"""What questions have in common: what is measured of a model, and what an answer promises."""

from __future__ import annotations

from fractions import Fraction
from typing import Literal, NamedTuple

NO_READING, TOO_FEW, TOO_FAR = "no-reading", "too-few", "too-far"


class Shown(NamedTuple):
    """What of a submission its developers may know before they are answered."""

    rows: int
    validation: Fraction | None = None
    validation_rows: int | None = None
    first_edge: Fraction | None = None


class Measured(NamedTuple):
    """What was measured of a model on hidden rows: nobody sees it.

    Attributes:
        shown: What is public of it.
        loss: On the test set; None: the model failed on it.
        errors: Rows that are wrong, where each is right or wrong.
        wins: Rows that it gets right and the old model wrong.
        losses: The other way round.
    """

    shown: Shown
    loss: Fraction | None
    errors: int = 0
    wins: int = 0
    losses: int = 0


class Promise(NamedTuple):
    """One number range that an answer promises, at the level it was given."""

    of: Literal["true loss", "true gap", "true n - o", "true score"]
    at_least: Fraction | None
    at_most: Fraction | None
