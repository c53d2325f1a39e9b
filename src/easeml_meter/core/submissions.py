"""Submissions as values: those that wait for a worker, and what their senders may know of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum


class SubmissionState(StrEnum):
    """Where a submission stands."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    REFUSED = "refused"


REACHED = "reached"
"""The option of a ticket that says which sets it ran on."""

FINAL = (SubmissionState.DONE, SubmissionState.REFUSED)
"""States after which nothing more happens."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """What may be known of a submission without seeing its signal."""

    id: str
    state: SubmissionState
    kind: str
    model: str
    tenant: int
    generation: int | None
    step: int | None
    created_at: str
    problem: dict[str, str] | None = None
    """Why it was refused: from what its sender knows anyway."""

    @property
    def final(self) -> bool:
        """Whether nothing more will happen."""
        return self.state in FINAL


@dataclass(frozen=True, slots=True)
class Ticket:
    """A submission in the queue."""

    id: str
    meter: str
    tenant: int
    user: str
    model: str
    kind: str
    blob: str
    options: dict[str, str]
    """Where it stands besides its state: `REACHED`."""
    state: SubmissionState
    problem: dict[str, str] | None
    generation: int | None
    step: int | None
    attempts: int
    created_at: str
    changed_at: str

    @property
    def reached(self) -> tuple[int, int] | None:
        """The numbers of the test set and the validation set it was run on, or None.

        Written down before it sees hidden rows: from then on it is charged, whatever happens.
        """
        test_set, _, validation = self.options.get(REACHED, "").partition("/")
        return (int(test_set), int(validation)) if test_set else None

    def reaching(self, test_set: int, validation: int) -> Ticket:
        """Return it with the mark that it is about to run on hidden rows."""
        return replace(self, options=self.options | {REACHED: f"{test_set}/{validation}"})

    @property
    def receipt(self) -> Receipt:
        """What its sender may know of it."""
        return Receipt(
            id=self.id,
            state=self.state,
            kind=self.kind,
            model=self.model,
            tenant=self.tenant,
            generation=self.generation,
            step=self.step,
            created_at=self.created_at,
            problem=self.problem,
        )
