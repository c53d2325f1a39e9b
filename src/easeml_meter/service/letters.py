"""Letters to labelers: that labels are asked for, and that a deadline is near.

What is written follows from the open requests, so that a labeler who joins later gets one, too.
"""

from __future__ import annotations

import hashlib
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from easeml_meter.core.lifecycle import Phase
from easeml_meter.core.people import Role
from easeml_meter.service.place import Site
from easeml_meter.storage import schema
from easeml_meter.storage.books import Books

Letter = tuple[str, dict[str, str]]
"""To whom, and what."""

NEAR = timedelta(days=3)
"""So long before a deadline labelers are reminded."""


def enqueue_letters(site: Site) -> None:
    """Write the letters that have not been written yet."""
    with site.reading() as books:
        letters = _letters(books, site.clock())
        if not letters or not _new(books, letters):
            return
    with site.writing() as books:
        for name in _new(books, letters):
            address, body = letters[name]
            row = {
                "id": name,
                "webhook": None,
                "address": address,
                "body": body,
                "state": "waiting",
                "attempts": 0,
                "due_at": site.now(),
                "created_at": site.now(),
            }
            books.connection.execute(schema.deliveries.insert(), row)


def _new(books: Books, letters: dict[str, Letter]) -> list[str]:
    table = schema.deliveries
    query = sa.select(table.c.id).where(table.c.id.in_(list(letters)))
    known = set(books.connection.execute(query).scalars())
    return [name for name in letters if name not in known]


def _id(address: str, body: dict[str, str]) -> str:
    """Name a letter by what it says to whom: nobody gets the same one twice."""
    return hashlib.sha256(f"{address}\n{body['subject']}\n{body['about']}".encode()).hexdigest()[
        :32
    ]


def _letters(books: Books, now: datetime) -> dict[str, Letter]:
    """Give all letters that the open requests call for, by name."""
    made: dict[str, Letter] = {}
    table = schema.generations
    requests = books.select(table, table.c.phase == str(Phase.REQUESTED))
    names = {row.id: row.name for row in books.meters.all()}
    for request in requests:
        bodies = [_asked(request, names[request["meter"]])]
        if request["deadline"] and datetime.fromisoformat(request["deadline"]) - now <= NEAR:
            bodies.append(_reminder(request, names[request["meter"]]))
        for address in _labelers(books, request["meter"]):
            for body in bodies:
                made[_id(address, body)] = (address, body)
    return made


def _labelers(books: Books, meter: str) -> list[str]:
    users, members = schema.users, schema.members
    query = (
        sa.select(users.c.email)
        .join(members, members.c.user == users.c.id)
        .where(members.c.meter == meter, members.c.role == str(Role.LABELER))
        .where(~users.c.disabled, users.c.email.is_not(None))
    )
    return sorted(set(books.connection.execute(query).scalars()))


def _asked(request: dict[str, Any], name: str) -> dict[str, str]:
    return {
        "subject": f"{name}: {request['labels_needed']:,} labels are asked for",
        "about": f"{request['meter']} {request['number']}",
        "text": _text(request, name),
    }


def _reminder(request: dict[str, Any], name: str) -> dict[str, str]:
    return {
        "subject": f"{name}: the deadline for labels is near",
        "about": f"{request['meter']} {request['number']} {request['deadline']}",
        "text": _text(request, name),
    }


def _text(request: dict[str, Any], name: str) -> str:
    lines = [
        f"The meter {name} asks for test set {request['number']}: "
        f"{request['labels_needed']:,} labelled rows, sealed on your machine.",
        f"Reason: {request['reason']}" if request["reason"] else "",
        f"Deadline: {request['deadline']}" if request["deadline"] else "",
        "See meter testset requests, meter seal and meter testset add.",
    ]
    return "\n".join(filter(None, lines)) + "\n"
