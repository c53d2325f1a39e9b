"""Tokens in the books, by the digests of their secrets."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import fields, replace
from functools import cache
from typing import Any

import sqlalchemy as sa

from easeml_meter.core.people import Role, Seat, Token, User
from easeml_meter.storage import schema
from easeml_meter.storage.books.repository import Repository, columns_of

Holder = tuple[Token, User, tuple[Seat, ...]]


class Tokens(Repository):
    """Tokens of all users; a revoked one stays, so that its holder learns why it is refused."""

    def add(self, token: Token, digest: str) -> None:
        """Enter a new token. Only the digest of its secret is kept."""
        self._connection.execute(schema.tokens.insert(), columns_of(token) | {"digest": digest})

    def of(self, user: str) -> list[Token]:
        """Return a user's tokens, the newest first."""
        found = self._values(schema.tokens, Token, "created_at", "id", user=user)
        return [_token(each) for each in reversed(found)]

    def find(self, identifier: str) -> Token | None:
        """Return a token by its id, if there is one."""
        return next(map(_token, self._values(schema.tokens, Token, id=identifier)), None)

    def holders(self, digests: Collection[str]) -> dict[str, Holder]:
        """Return tokens by digest, with their users and the users' seats, in one query."""
        found: dict[str, Holder] = {}
        for digest, *row in self._connection.execute(_holders(), {"digests": list(digests)}):
            token, user, seats = found.get(digest) or (
                _token(Token(*row[:_USER])),
                User(*row[_USER:_SEAT]),
                (),
            )
            seat = Seat(*row[_SEAT:])
            if seat.meter is not None:  # None: the user has no seat
                seats += (replace(seat, role=Role(seat.role)),)
            found[digest] = token, user, seats
        return found

    def revoke(self, now: str, **which: str) -> None:
        """Revoke the tokens with this `id`, or of this `user`, unless they are already."""
        table = schema.tokens
        same = [table.c[name] == value for name, value in which.items()]
        live = table.update().where(*same, table.c.revoked_at.is_(None))
        self._connection.execute(live, {"revoked_at": now})


def _token(stored: Token) -> Token:
    return replace(stored, scopes=tuple(stored.scopes))


_USER = len(fields(Token))
_SEAT = _USER + len(fields(User))


@cache
def _holders() -> sa.Select[Any]:
    token, user, seat = schema.tokens, schema.users, schema.members
    rows = ((token, Token), (user, User), (seat, Seat))
    columns = (table.c[field.name] for table, kind in rows for field in fields(kind))
    return (
        sa.select(token.c.digest, *columns)
        .select_from(
            token.join(user, user.c.id == token.c.user).outerjoin(seat, seat.c.user == user.c.id)
        )
        .where(token.c.digest.in_(sa.bindparam("digests", expanding=True)))
        .order_by(seat.c.added_at, seat.c.role, seat.c.tenant)
    )
