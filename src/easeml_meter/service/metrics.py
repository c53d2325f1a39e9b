"""Totals for whoever runs a server; nothing about losses or signals."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from easeml_meter.core.submissions import FINAL, SubmissionState
from easeml_meter.service.actor import Actor, Permission, needs
from easeml_meter.service.place import Site

_OPEN = tuple(each for each in SubmissionState if each not in FINAL)


@dataclass(frozen=True, slots=True)
class Totals:
    """How much there is of what, of all meters together."""

    submissions: dict[str, int]
    """By state."""
    oldest: dict[str, float]
    """How many seconds ago the oldest one was handed in that is queued or running; 0: none is."""
    answers: int


@needs(Permission.MANAGE)
def totals(_actor: Actor, site: Site) -> Totals:
    """Count submissions and answers. How much all tenants submit is not for each to know."""
    now = site.clock()
    with site.reading() as books:
        oldest = {
            state: (now - datetime.fromisoformat(since)).total_seconds() if since else 0.0
            for state, since in books.counts.oldest(*_OPEN).items()
        }
        return Totals(books.counts.submissions(), oldest, books.counts.answers())
