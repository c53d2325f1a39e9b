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


_NEXT = {
    Phase.REQUESTED: Phase.ACTIVE,
    Phase.ACTIVE: Phase.SPENT,
    Phase.SPENT: Phase.RELEASED,
}


def advance(phase: Phase, to: Phase) -> Phase:
    """Move a generation on; there is one way only, and none back."""
    if _NEXT.get(phase) is not to:
        raise WrongPhase(f"the test set is {phase} and cannot become {to}")
    return to
