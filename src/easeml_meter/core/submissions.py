"""Submissions as values: those that wait for a worker, and what their senders may know of them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any, Self

from easeml_meter.checks import known
from easeml_meter.errors import invalid


class SubmissionState(StrEnum):
    """Where a submission stands."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    REFUSED = "refused"


REACHED = "reached"
"""The option of a ticket that says which sets it ran on."""
TURN = "turn"
"""The option that says when it is its turn."""
TOKEN = "token"  # noqa: S105 - the name of an option
"""The option that names the token it came with, if that has a pace."""
NOTE, LINK = "note", "link"
"""The options that are noted on it."""

BYTES = "bytes"
"""The option that names the bytes of a model: the same ones, while it waits, are that model."""

WAITS = (1, 5, 15, 60, 300, 900, 1800, 3600, 14400)
"""Seconds in the queue: the bounds between which waits are counted, for operators."""

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
    """Where it stands besides its state: `REACHED`, `TURN`; and `TOKEN`."""
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
        # Both sets: run again after its worker died, it is measured with what it began with.
        return (int(test_set), int(validation)) if test_set else None

    @property
    def turn(self) -> int:
        """When it is its turn among all that wait, the lowest first."""
        return int(self.options.get(TURN, "0"))

    @property
    def token(self) -> str:
        """Id of the token it came with, if that has a pace; else empty."""
        return self.options.get(TOKEN, "")

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


@dataclass(frozen=True, slots=True)
class CheckedFile:
    """How a file of predictions was read."""

    rows: int
    matched: int | None
    """Ids that are in the set; None: the order was relied on, or the sender may not know."""
    missing: int
    """Rows of the set without a prediction, which count as wrong."""
    first: tuple[Any, ...]
    """The first predictions in the order of the set, with the names of classes."""


@dataclass(frozen=True, slots=True)
class CheckedSubmission:
    """What the meter understands of a submission that was not submitted."""

    kind: str
    tenant: int
    generation: int
    answer: int
    """Which of the team's answers it would use, counted from 1."""
    answers: int
    """How many answers the team has in all, as far as promised."""
    repeated: bool
    """An identical submission was answered before: it would use none."""
    baseline: bool = False
    """It would be the model that others are compared with, and use none."""
    test: CheckedFile | None = None
    validation: CheckedFile | None = None
    """None: it is a model."""
    classes: tuple[str | int, ...] = ()
    """The classes in their order, where the loss has classes."""
    validation_loss: float | None = None
    """None: a model at a server, which runs models only when they are submitted."""

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Return what `to_json` told."""
        files = {name: data[name] and _checked_file(data[name]) for name in ("test", "validation")}
        return cls(**known(cls, data, **files, classes=tuple(data["classes"])))


def _checked_file(data: Mapping[str, Any]) -> CheckedFile:
    return CheckedFile(**known(CheckedFile, data, first=tuple(data["first"])))


LONGEST_NOTE = 200
LONGEST_LINK = 300
# No name or password before the host: it would pass for the host.
_LINK = re.compile(r"https?://[A-Za-z0-9.:\[\]-]+([/?#][!#-;=?-~]*)?")


def check_note(text: str, link: str) -> None:
    """Refuse a text that is no short line, and a link that leads nowhere that a page may."""
    if len(text) > LONGEST_NOTE or not text.isprintable():
        raise invalid("note", text[:40], f"one line of at most {LONGEST_NOTE} characters")
    if link and not (len(link) <= LONGEST_LINK and _LINK.fullmatch(link)):
        allowed = f"http:// or https://, without spaces, at most {LONGEST_LINK} characters"
        raise invalid("link", link[:40], allowed)


@dataclass(frozen=True, slots=True)
class Note:
    """What the sender of a submission noted on it."""

    generation: int
    step: int
    text: str
    link: str
    """To a commit or a run, say; empty: none."""
    at: str

    def __post_init__(self) -> None:
        check_note(self.text, self.link)

    @property
    def place(self) -> str:
        """Where the link leads, as people write it."""
        return self.link.partition("://")[2].rstrip("/")

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return asdict(self)


def next_turn(waiting: Sequence[Ticket], meter: str, tenant: int) -> int:
    """Return the turn of a tenant's next submission, given all that wait or run.

    Tenants take turns, however many submissions each has: the next one comes after the tenant's own
    and after the one that is served now, but not after all that others have handed in.
    """
    served = min((ticket.turn for ticket in waiting), default=0)
    own = (each.turn for each in waiting if (each.meter, each.tenant) == (meter, tenant))
    return 1 + max((served, *own))
