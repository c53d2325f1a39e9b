"""Words of meter.toml: protocols, gaps, counts, and what names of losses say."""

from __future__ import annotations

import re
from enum import StrEnum

from easeml_meter.corpus import Corpus


class Protocol(StrEnum):
    """What a submission is answered with."""

    REGULAR = "regular"  # the signal of this submission
    INCREMENTAL = "incremental"  # the worst signal so far
    INDEPENDENT = "independent"  # signals that nobody acts on: the ideal, not a meter
    RESAMPLING = "resampling"  # a fresh test set for every step: the baseline


class Gap(StrEnum):
    """What the bands divide: how far validation loss and test loss are apart."""

    ABSOLUTE = "absolute"  # |test loss - validation loss|, as in the paper
    SIGNED = "signed"  # test loss - validation loss, and 0 where the test loss is the lower one


class Count(StrEnum):
    """Which histories of answers the promise is counted over."""

    CONSISTENT = "consistent"  # those that keep every promise before the last answer
    ALL = "all"  # all that the protocol allows


METERS = (Protocol.REGULAR, Protocol.INCREMENTAL)
GAP = "gap"
"""The question of a meter with bands."""
_NUMBER = re.compile(r"0|[1-9][0-9]{0,17}")


def is_zero_one(loss: str) -> bool:
    """Whether a loss, by its name, is 0 or 1 for every example."""
    return re.fullmatch(r"0-1|top-[1-9][0-9]*|score\[0-1\]", loss) is not None


def is_exact(loss: str) -> bool:
    """Whether a loss, by its name, is a fraction of whole numbers, known without rounding."""
    return is_zero_one(loss) or Corpus.parse(loss) is not None


def classes_of(text: str) -> tuple[str | int, ...]:
    """Read classes with commas between them: numbers if all of them are, else texts.

    A number has one form: 01 is a text, as it is in a file.
    """
    names = tuple(part.strip() for part in text.split(",") if part.strip())
    return tuple(map(int, names)) if all(map(_NUMBER.fullmatch, names)) else names
