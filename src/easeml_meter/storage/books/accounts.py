"""Stored accounts: each tenant's history folded, written with the entry that it ends at.

An account is a copy of what the entries say, so that an answer need not read them all. The audit
compares both.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

import sqlalchemy as sa

from easeml_meter.core.history import Folded
from easeml_meter.core.ledger import Account
from easeml_meter.core.signals import State
from easeml_meter.storage import schema
from easeml_meter.storage.books.repository import Repository, columns_of


class Accounts(Repository):
    """The accounts of all tenants, by test set."""

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
                place | {"tenant": each.account.tenant, "step": each.step, "folded": _written(each)}
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
    account = folded.account
    return {"steps": account.steps, "state": columns_of(account.state)}


def _read(tenant: int, step: int, row: dict[str, Any]) -> Folded:
    return Folded(Account(tenant, row["steps"], State(**row["state"])), step)
