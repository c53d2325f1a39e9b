"""Tokens in the books, by the digests of their secrets."""

from __future__ import annotations

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

    def holder(self, digest: str) -> Holder | None:
        """Return a token by its digest, with its user and the user's seats, in one query."""
        rows = self._connection.execute(_holder(), {"digest": digest}).all()
        if not rows:
            return None
        seats = (Seat(*row[_SEAT:]) for row in rows if row[_SEAT] is not None)
        return (
            _token(Token(*rows[0][:_USER])),
            User(*rows[0][_USER:_SEAT]),
            tuple(replace(seat, role=Role(seat.role)) for seat in seats),
        )

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
def _holder() -> sa.Select[Any]:
    token, user, seat = schema.tokens, schema.users, schema.members
    rows = ((token, Token), (user, User), (seat, Seat))
    columns = (table.c[field.name] for table, kind in rows for field in fields(kind))
    return (
        sa.select(*columns)
        .select_from(
            token.join(user, user.c.id == token.c.user).outerjoin(seat, seat.c.user == user.c.id)
        )
        .where(token.c.digest == sa.bindparam("digest"))
        .order_by(seat.c.added_at, seat.c.role, seat.c.tenant)
    )
