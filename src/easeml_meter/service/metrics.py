"""Totals for whoever runs a server; nothing about losses or signals."""

from __future__ import annotations

from dataclasses import dataclass

from easeml_meter.service.actor import Actor, Permission, needs
from easeml_meter.service.place import Site


@dataclass(frozen=True, slots=True)
class Totals:
    """How much there is of what, of all meters together."""

    submissions: dict[str, int]
    """By state."""
    answers: int


@needs(Permission.MANAGE)
def totals(_actor: Actor, site: Site) -> Totals:
    """Count submissions and answers. How much all tenants submit is not for each to know."""
    with site.reading() as books:
        return Totals(books.counts.submissions(), books.counts.answers())
