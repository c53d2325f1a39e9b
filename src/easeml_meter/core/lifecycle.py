"""Generations: a meter's test sets, one after the other, and what may happen to each."""

from __future__ import annotations

from enum import StrEnum

from easeml_meter.errors import WrongPhase


class Phase(StrEnum):
    """Where a test set stands."""

    REQUESTED = "requested"  # the labelers were asked for it
    ACTIVE = "active"  # sealed, and answering submissions
    SPENT = "spent"  # everything it could safely say has been said, or it was retired early
    RELEASED = "released"  # handed to the developers in the clear
    ARCHIVED = "archived"  # its meter was given up before its first answer


_NEXT = {
    Phase.REQUESTED: (Phase.ACTIVE, Phase.ARCHIVED),
    Phase.ACTIVE: (Phase.SPENT, Phase.ARCHIVED),
    Phase.SPENT: (Phase.RELEASED,),
}


def advance(phase: Phase, to: Phase) -> Phase:
    """Move a generation on; there is one way only, and none back."""
    if to not in _NEXT.get(phase, ()):
        raise WrongPhase(f"the test set is {phase} and cannot become {to}")
    return to
