"""Idempotency keys in the books."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import fields
from typing import Any

import sqlalchemy as sa

from easeml_meter.core.idempotency import NOBODY, KeyedRequest, Place
from easeml_meter.storage import schema
from easeml_meter.storage.books.exchange import Query
from easeml_meter.storage.books.repository import Repository, columns_of, of_pairs

_TABLE = schema.idempotency
# Building a statement takes longer than carrying it out.
_SAME = (_TABLE.c.user == sa.bindparam("whose")) & (_TABLE.c.key == sa.bindparam("which"))
_ANSWER = (
    _TABLE.update()
    .where(_SAME, _TABLE.c.request == sa.bindparam("asked"))
    .values(status=sa.bindparam("answered"), body=sa.bindparam("answer"), server=None)
)
# As it was begun, and not begun anew since, by this server or another one.
_BEGUN = (
    _SAME
    & (_TABLE.c.server == sa.bindparam("by"))
    & (_TABLE.c.created_at == sa.bindparam("begun"))
    & (_TABLE.c.request == sa.bindparam("asked"))
)
_COMMIT = (
    _TABLE.update()
    .where(_BEGUN)
    .values(status=sa.bindparam("answered"), body=sa.bindparam("answer"))
)
_GIVE_UP = _TABLE.delete().where(_BEGUN)
_GIVE_UP_UNCOMMITTED = _GIVE_UP.where(_TABLE.c.status.is_(None))
# Not without a server: what was written for older versions would be taken for the answer.
_LEAVE = _TABLE.update().where(_BEGUN, _TABLE.c.status.is_not(None)).values(server=NOBODY)
_TAKE_OVER = _TABLE.delete().where(
    _SAME,
    _TABLE.c.created_at == sa.bindparam("begun"),
    _TABLE.c.status.is_not_distinct_from(sa.bindparam("standing", type_=sa.Integer)),
)
# A lock of PostgreSQL is listed with its number in two halves.
_ALIVE = sa.text(
    "SELECT number FROM (SELECT (classid::bigint << 32) | objid::bigint AS number FROM pg_locks "
    "WHERE locktype = 'advisory' AND objsubid = 1 AND granted AND database = "
    "(SELECT oid FROM pg_database WHERE datname = current_database())) held "
    "WHERE number = ANY(:servers)"
)


class KeyedRequests(Repository):
    """Requests that came with a key, and what was answered."""

    def known(self, requests: Sequence[KeyedRequest]) -> dict[Place, KeyedRequest]:
        """Return the requests that came with the same keys, by user and key."""
        if not requests:
            return {}
        places = {each.place for each in requests}
        rows = self._connection.ask(self.question(places))
        found = (KeyedRequest(*row) for row in rows)
        return {each.place: each for each in found if each.place in places}

    def question(self, places: Collection[Place]) -> Query:
        """Return what `known` asks."""
        return of_pairs(self._connection.dialect, _TABLE, KeyedRequest, ("user", "key"), places)

    def add(self, requests: Sequence[KeyedRequest]) -> None:
        """Enter requests that are about to be carried out."""
        rows = [columns_of(each) for each in requests]
        for row in rows:
            del row["body"]  # there is none yet, and JSON's null is not the column's
        if rows:
            self._connection.execute(_TABLE.insert(), rows)

    def alive(self, servers: Collection[int]) -> frozenset[int]:
        """Return those of other servers that are alive; on SQLite there are no others."""
        if not servers or self._connection.dialect == "sqlite":
            return frozenset()
        return frozenset(self._connection.execute(_ALIVE, {"servers": list(servers)}).scalars())

    def commit(self, request: KeyedRequest) -> bool:
        """Record that a request counts from this transaction on; False: it is no longer its own.

        Its row stays locked until then, so nobody else begins it meanwhile.
        """
        given = _begun(request) | {"answered": request.status, "answer": request.body}
        return self._connection.execute(_COMMIT, given).rowcount == 1

    def give_up(self, request: KeyedRequest, *, uncommitted: bool) -> None:
        """Free the key of a request; with `uncommitted` only if nothing of it counts."""
        statement = _GIVE_UP_UNCOMMITTED if uncommitted else _GIVE_UP
        self._connection.execute(statement, _begun(request))

    def leave(self, request: KeyedRequest) -> None:
        """Record that nobody carries out a request any more, if something of it counts."""
        self._connection.execute(_LEAVE, _begun(request))

    def take_over(self, found: KeyedRequest) -> bool:
        """Free a key, unless it changed since it was read."""
        given = {
            "whose": found.user,
            "which": found.key,
            "begun": found.created_at,
            "standing": found.status,
        }
        return self._connection.execute(_TAKE_OVER, given).rowcount == 1

    def put(self, requests: Sequence[KeyedRequest]) -> None:
        """Enter requests with their answers, in the place of older ones with the same keys.

        Those with the key of another request are refused before. Two meters of a PostgreSQL do not
        wait for each other, so a key that came to both at once stands for what was entered last.
        """
        # In one order, so that no two transactions wait for each other.
        rows = sorted(map(columns_of, requests), key=lambda row: (row["user"], row["key"]))
        self._put(_TABLE, rows)

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

    def forget_before(self, moment: str) -> None:
        """Free all keys that came before a moment."""
        self._connection.execute(_TABLE.delete().where(_TABLE.c.created_at < moment))


def _begun(request: KeyedRequest) -> dict[str, Any]:
    return {
        "whose": request.user,
        "which": request.key,
        "by": request.server,
        "begun": request.created_at,
        "asked": request.request,
    }
