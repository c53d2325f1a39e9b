"""Answers, the accounts folded from them, and hand-overs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import fields
from functools import cache
from typing import Any

import sqlalchemy as sa

from easeml_meter.core.history import Folded
from easeml_meter.core.model import Entry, HandOver, HandOverRequest
from easeml_meter.promise.ledger import Snapshot
from easeml_meter.storage import schema
from easeml_meter.storage.books.repository import Repository


class Entries(Repository):
    """The answers given from all test sets."""

    def add(self, entries: Sequence[Entry]) -> None:
        """Enter answers, before they leave."""
        self._add(schema.entries, entries)

    def all(self, meter: str, generation: int, tenant: int | None = None) -> list[Entry]:
        """Return the answers given from one test set, in the order of each tenant's steps."""
        which = {"meter": meter, "generation": generation}
        if tenant is not None:
            which["tenant"] = tenant
        return self._values(schema.entries, Entry, "tenant", "step", **which)

    def of_submission(
        self, meter: str, generation: int, tenant: int, submission: str
    ) -> list[Entry]:
        """Return the answers that a tenant got to a submission, by its digest.

        By the index on digests alone, however long the histories are: where PostgreSQL has a
        choice, it keeps the worse one for long, because it chose while the table was small.
        """
        found = self._values(schema.entries, Entry, submission=submission)
        place = (meter, generation, tenant)
        return [each for each in found if (each.meter, each.generation, each.tenant) == place]

    def of_models(self, meter: str, generation: int, tenant: int, model: str) -> list[Entry]:
        """Return the answers that a tenant got to models of a name, the newest last."""
        which = {"meter": meter, "generation": generation, "tenant": tenant, "model": model}
        return self._values(schema.entries, Entry, "step", **which)

    def at(self, meter: str, generation: int, tenant: int, step: int) -> Entry | None:
        """Return the answer of a step."""
        which = {"meter": meter, "generation": generation, "tenant": tenant, "step": step}
        return next(iter(self._values(schema.entries, Entry, "step", **which)), None)

    def last(self, meter: str, generation: int, tenant: int, answer: str) -> int | None:
        """Return the last step that got an answer; None: no step did."""
        which = {"meter": meter, "generation": generation, "tenant": tenant, "answer": answer}
        return self._connection.execute(_last(), which).scalar()

    def told_to(self, meter: str, tokens: Collection[str], since: str) -> list[tuple[str, str]]:
        """Return the tokens and times of a meter's answers after a moment, the oldest first."""
        given = {"meter": meter, "tokens": list(tokens), "since": since}
        return [(row.token, row.told_at) for row in self._connection.execute(_told_to(), given)]


def _select(*names: str) -> sa.Select[Any]:
    table = schema.entries
    columns = (table.c[field.name] for field in fields(Entry))
    return sa.select(*columns).where(*(table.c[name] == sa.bindparam(name) for name in names))


@cache
def _last() -> sa.Select[Any]:
    names = ("meter", "generation", "tenant", "answer")
    return _select(*names).with_only_columns(sa.func.max(schema.entries.c.step))


@cache
def _told_to() -> sa.Select[Any]:
    table = schema.entries
    chosen = _select("meter").where(
        table.c.token.in_(sa.bindparam("tokens", expanding=True)),
        table.c.told_at > sa.bindparam("since"),
    )
    return chosen.with_only_columns(table.c.token, table.c.told_at).order_by(table.c.told_at)


class Accounts(Repository):
    """Each tenant's history folded, by test set, written with the entry that it ends at.

    It is a copy of what the entries say, so that an answer need not read them all. The audit
    compares both.
    """

    def all(self, meter: str, generation: int) -> dict[int, Folded]:
        """Return the accounts of a test set by tenant, as they were stored."""
        given = {"meter": meter, "generation": generation}
        return _found(self._connection.execute(_stored(), given))

    def complete(self, meter: str, generation: int) -> dict[int, Folded]:
        """Return the accounts that hold all entries of their tenant; others were left behind.

        One index lookup for each tenant, however long its history.
        """
        given = {"meter": meter, "generation": generation}
        return _found(self._connection.execute(_complete(), given))

    def put(self, meter: str, generation: int, folded: Iterable[Folded]) -> None:
        """Store accounts in the place of older ones."""
        place = {"meter": meter, "generation": generation}
        self._put(
            schema.accounts,
            [
                place | {"tenant": each.at.team, "step": each.step, "folded": _written(each)}
                for each in folded
            ],
        )


def _found(rows: Iterable[Sequence[Any]]) -> dict[int, Folded]:
    return {tenant: _read(tenant, step, folded) for tenant, step, folded in rows}


_KEY = ("meter", "generation", "tenant")


@cache
def _stored() -> sa.Select[Any]:
    table = schema.accounts
    same = (table.c[name] == sa.bindparam(name) for name in ("meter", "generation"))
    return sa.select(table.c.tenant, table.c.step, table.c.folded).where(*same)


@cache
def _complete() -> sa.Select[Any]:
    table, entries = schema.accounts, schema.entries
    own = (entries.c[name] == table.c[name] for name in _KEY)
    last = sa.select(sa.func.max(entries.c.step)).where(*own).correlate(table).scalar_subquery()
    return _stored().where(table.c.step == sa.func.coalesce(last, 0))


def _written(folded: Folded) -> dict[str, Any]:
    at = folded.at
    return {"told": at.told, "spent": at.spent, "answers": at.answers, "stage": at.stage}


def _read(tenant: int, step: int, row: dict[str, Any]) -> Folded:
    spent = row["spent"] if isinstance(row["spent"], int) else tuple(row["spent"])
    return Folded(Snapshot(row["told"], spent, row["answers"], tenant, row["stage"]), step)


class HandOvers(Repository):
    """Hand-overs between the tenants of a meter; each counts for one test set."""

    def add(self, handover: HandOver) -> None:
        """Record that a checkpoint was handed over."""
        self._add(schema.handovers, [handover])

    def all(self, meter: str, generation: int) -> list[HandOver]:
        """Return the hand-overs while a test set was in use, the oldest first."""
        which = {"meter": meter, "generation": generation}
        return self._values(schema.handovers, HandOver, "at", "giver", "receiver", **which)

    def request(self, request: HandOverRequest) -> None:
        """Enter a request, or replace it by one to which more tenants have agreed."""
        self.withdraw(request)
        self._add(schema.handover_requests, [request])

    def requests(self, meter: str, generation: int) -> list[HandOverRequest]:
        """Return the requests that wait, the oldest first."""
        table, which = schema.handover_requests, {"meter": meter, "generation": generation}
        return self._values(table, HandOverRequest, "at", "giver", "receiver", **which)

    def withdraw(self, request: HandOverRequest) -> None:
        """Remove a request, if it is there."""
        table = schema.handover_requests
        key = [column == getattr(request, column.name) for column in table.primary_key]
        self._connection.execute(table.delete().where(*key))
