"""Claims: what an answer says of the truth, and so what can be false about it."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True)
class Within:
    """The loss (or score) on the test set is within `eps` of the true one.

    Under a ceiling only test losses up to it are read; `merged`: "above the ceiling" promises a
    true loss of at least the ceiling minus eps.
    """

    eps: Fraction
    ceiling: Fraction | None = None
    merged: bool = False


@dataclass(frozen=True)
class WithinLoosely:
    """The same, by the bound that the paper takes for every loss."""

    eps: Fraction


@dataclass(frozen=True)
class ChangeWithin:
    """n - o is within `eps` of the true one, for models that are apart on at most `most`."""

    eps: Fraction
    most: Fraction


@dataclass(frozen=True)
class Exceeds:
    """A share of rows, such as the accuracy, is above `share`; planned to show `margin` more."""

    share: Fraction
    margin: Fraction


@dataclass(frozen=True)
class Gains:
    """n - o is above `change`; planned to show `margin` more, apart on at most `most` rows."""

    change: Fraction
    margin: Fraction
    most: Fraction = Fraction(1)


@dataclass(frozen=True)
class Better:
    """The new model is better than the old one: the sign test, whatever they disagree on."""


@dataclass(frozen=True)
class NotOver:
    """The true loss is at most the validation loss and g more."""


Clause = Exceeds | Gains | Better | NotOver | Within | ChangeWithin
