"""Idempotency keys in the books."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from easeml_meter.core.idempotency import KeyedRequest
from easeml_meter.storage import schema
from easeml_meter.storage.books.repository import Repository, columns_of

_TABLE = schema.idempotency
# Building a statement takes longer than carrying it out.
_SAME = (_TABLE.c.user == sa.bindparam("whose")) & (_TABLE.c.key == sa.bindparam("which"))
_FORGET = _TABLE.delete().where(_SAME)
_ANSWER = (
    _TABLE.update()
    .where(_SAME)
    .values(status=sa.bindparam("answered"), body=sa.bindparam("answer"))
)


class KeyedRequests(Repository):
    """Requests that came with a key, and what was answered."""

    def find(self, user: str, key: str) -> KeyedRequest | None:
        """Return the request that a user sent with a key, if there was one."""
        return next(iter(self._values(_TABLE, KeyedRequest, user=user, key=key)), None)

    def add(self, request: KeyedRequest) -> None:
        """Enter a request that is about to be carried out."""
        given = columns_of(request)
        if request.body is None:
            del given["body"]  # JSON's null is not the column's
        self._connection.execute(_TABLE.insert(), given)

    def answer(self, requests: Sequence[KeyedRequest]) -> None:
        """Record the answers of requests that were entered before."""
        answers = [
            {"whose": each.user, "which": each.key, "answered": each.status, "answer": each.body}
            for each in requests
        ]
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
