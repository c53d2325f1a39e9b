"""Idempotency keys in the books."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

import sqlalchemy as sa

from easeml_meter.core.idempotency import KeyedRequest
from easeml_meter.storage import schema
from easeml_meter.storage.books.repository import Repository, columns_of

_TABLE = schema.idempotency
# Building a statement takes longer than carrying it out.
_SAME = (_TABLE.c.user == sa.bindparam("whose")) & (_TABLE.c.key == sa.bindparam("which"))
_KNOWN = sa.select(*(_TABLE.c[field.name] for field in fields(KeyedRequest))).where(
    _TABLE.c.user == sa.bindparam("whose"),
    _TABLE.c.key.in_(sa.bindparam("keys", expanding=True)),
)
_FORGET = _TABLE.delete().where(_SAME)
_ANSWER = (
    _TABLE.update()
    .where(_SAME, _TABLE.c.request == sa.bindparam("asked"))
    .values(status=sa.bindparam("answered"), body=sa.bindparam("answer"))
)


class KeyedRequests(Repository):
    """Requests that came with a key, and what was answered."""

    def known(self, user: str, keys: Sequence[str]) -> dict[str, KeyedRequest]:
        """Return the requests that a user sent with these keys, by key."""
        rows = self._connection.execute(_KNOWN, {"whose": user, "keys": keys})
        return {each.key: each for each in (KeyedRequest(*row) for row in rows)}

    def add(self, requests: Sequence[KeyedRequest]) -> None:
        """Enter requests that are about to be carried out."""
        rows = [columns_of(each) for each in requests]
        for row in rows:
            del row["body"]  # there is none yet, and JSON's null is not the column's
        if rows:
            self._connection.execute(_TABLE.insert(), rows)

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

    def forget(self, user: str, key: str) -> None:
        """Free a key."""
        self._connection.execute(_FORGET, {"whose": user, "which": key})

    def forget_before(self, moment: str) -> None:
        """Free all keys that came before a moment."""
        self._connection.execute(_TABLE.delete().where(_TABLE.c.created_at < moment))

    def forget_unanswered(self) -> None:
        """Free the keys of requests that were never answered."""
        self._connection.execute(_TABLE.delete().where(_TABLE.c.status.is_(None)))
