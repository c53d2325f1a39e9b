"""Idempotency keys in the books."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from functools import cache
from typing import Any

import sqlalchemy as sa

from easeml_meter.core.idempotency import KeyedRequest, Place
from easeml_meter.storage import schema
from easeml_meter.storage.books.repository import Repository, adding, columns_of

_TABLE = schema.idempotency
# Building a statement takes longer than carrying it out.
_SAME = (_TABLE.c.user == sa.bindparam("whose")) & (_TABLE.c.key == sa.bindparam("which"))
_FORGET = _TABLE.delete().where(_SAME)
_ANSWER = (
    _TABLE.update()
    .where(_SAME, _TABLE.c.request == sa.bindparam("asked"))
    .values(status=sa.bindparam("answered"), body=sa.bindparam("answer"))
)


class KeyedRequests(Repository):
    """Requests that came with a key, and what was answered."""

    def known(self, requests: Sequence[KeyedRequest]) -> dict[Place, KeyedRequest]:
        """Return the requests that came with the same keys, by user and key."""
        places = {each.place for each in requests}
        found = self._of_pairs(_TABLE, KeyedRequest, ("user", "key"), places)
        return {each.place: each for each in found}

    def add(self, requests: Sequence[KeyedRequest]) -> None:
        """Enter requests that are about to be carried out."""
        rows = [columns_of(each) for each in requests]
        for row in rows:
            del row["body"]  # there is none yet, and JSON's null is not the column's
        if rows:
            self._connection.execute(_TABLE.insert(), rows)

    def put(self, requests: Sequence[KeyedRequest]) -> None:
        """Enter requests with their answers, in the place of older ones with the same keys.

        Those with the key of another request are refused before. Two meters of a PostgreSQL do not
        wait for each other, so a key that came to both at once stands for what was entered last.
        """
        if requests:
            # In one order, so that no two transactions wait for each other.
            rows = sorted(map(columns_of, requests), key=lambda row: (row["user"], row["key"]))
            self._run(_put(self._connection.dialect.name), rows)

    def answer(self, requests: Sequence[KeyedRequest]) -> None:
        """Record the answers of requests that were entered before.

        A key that was freed meanwhile, and may stand for another request now, is left alone.
        """
        answers = [
            {
                "whose": each.user,
                "which": each.key,
                "asked": each.request,
                "answered": each.status,
                "answer": each.body,
            }
            for each in requests
        ]
        if answers:
            self._connection.execute(_ANSWER, answers)

    def texts(self) -> list[KeyedRequest]:
        """Return the requests whose answer is a text: it is sealed to the server's key."""
        columns = (_TABLE.c[field.name] for field in fields(KeyedRequest))
        text = sa.cast(_TABLE.c.body, sa.Text).like('"%')
        return [
            KeyedRequest(*row) for row in self._connection.execute(sa.select(*columns).where(text))
        ]

    def forget(self, user: str, key: str) -> None:
        """Free a key."""
        self._connection.execute(_FORGET, {"whose": user, "which": key})

    def forget_before(self, moment: str) -> None:
        """Free all keys that came before a moment."""
        self._connection.execute(_TABLE.delete().where(_TABLE.c.created_at < moment))

    def forget_unanswered(self) -> None:
        """Free the keys of requests that were never answered."""
        self._connection.execute(_TABLE.delete().where(_TABLE.c.status.is_(None)))


@cache
def _put(dialect: str) -> Any:
    keys = [column.name for column in _TABLE.primary_key]
    names = tuple(field.name for field in fields(KeyedRequest))
    insert = adding(dialect, _TABLE, names)
    return insert.on_conflict_do_update(
        index_elements=keys,
        set_={name: insert.excluded[name] for name in names if name not in keys},
    )
