"""Totals for whoever runs a server; nothing about losses or signals."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from easeml_meter.core.history import MeterState
from easeml_meter.core.model import stamp
from easeml_meter.core.submissions import FINAL, WAITS, SubmissionState
from easeml_meter.service.actor import Actor, Permission, needs
from easeml_meter.service.place import Site
from easeml_meter.service.restore import verified_at

NEARLY = 0.8
"""Share of its promised answers that a test set has given when it is nearly spent."""
_OPEN = tuple(each for each in SubmissionState if each not in FINAL)


@dataclass(frozen=True, slots=True)
class Totals:
    """How much there is of what, of all meters together."""

    submissions: dict[str, int]
    """By state."""
    oldest: dict[str, float]
    """How many seconds ago the oldest one was handed in that is queued or running; 0: none is."""
    answers: int
    nearly_spent: int
    """Active test sets that have given most of the answers they promise."""
    requests: int
    """Test sets that labels are needed for."""
    overdue: int
    """Those of them whose deadline is over."""
    waits: tuple[int, ...]
    """How many submissions were begun after a wait up to each bound of `WAITS`, or after longer."""
    waited: float
    """The seconds that all of them waited."""
    backup: datetime | None
    """When the backup verified last was made; None: none is known."""


@needs(Permission.SEE_METRICS)
def totals(_actor: Actor, site: Site) -> Totals:
    """Count submissions and answers. How much all tenants submit is not for each to know."""
    now, backup = site.clock(), verified_at(site.files)
    with site.reading() as books:
        oldest = {
            state: (now - datetime.fromisoformat(since)).total_seconds() if since else 0.0
            for state, since in books.counts.oldest(*_OPEN).items()
        }
        deadlines = [each.deadline for each in books.testsets.requested()]
        # What was answered stays out of it: only how often counts.
        answers = books.counts.answers_of_active()
        specs = {each.id: MeterState.of(each, (), None).spec for each in books.meters.all()}
        nearly = [
            n >= NEARLY * specs[meter].of_test_set(number).steps
            for meter, (number, n) in answers.items()
        ]
        waits = books.counts.waits()
        return Totals(
            submissions=books.counts.submissions(),
            oldest=oldest,
            answers=books.counts.answers(),
            nearly_spent=sum(nearly),
            requests=len(deadlines),
            overdue=sum(each is not None and each < stamp(now) for each in deadlines),
            waits=tuple(waits.get(each, (0, 0.0))[0] for each in range(len(WAITS) + 1)),
            waited=sum(seconds for _, seconds in waits.values()),
            backup=backup,
        )
