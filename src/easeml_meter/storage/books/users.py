"""People: accounts, seats, tokens, and wrong passwords."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import fields, replace
from functools import cache
from typing import Any

import sqlalchemy as sa

from easeml_meter.core.people import Credentials, ProviderIdentity, Role, Seat, Token, User, Wrong
from easeml_meter.errors import NotFound
from easeml_meter.storage import schema
from easeml_meter.storage.books.repository import Repository


class Users(Repository):
    """Accounts of people and programs."""

    def add(self, user: User, password: str | None) -> None:
        """Enter a new account with the hash of its password, if it has one."""
        credentials = schema.columns_of(Credentials(user.id, password))
        self._connection.execute(schema.users.insert(), schema.columns_of(user) | credentials)

    def all(self) -> list[User]:
        """Return all accounts, by name."""
        # Not sorted by the database: PostgreSQL may have an alphabet of its own, and whoever reads
        # page after page goes on from a name.
        return sorted(self._values(schema.users, User), key=lambda user: user.name)

    def get(self, identifier: str) -> User:
        """Return an account by its id."""
        found = self._values(schema.users, User, id=identifier)
        if not found:
            raise NotFound(f"user {identifier[:32]!r}: none with that id")
        return found[0]

    def named(self, name: str) -> User | None:
        """Return the account of this name, if there is one."""
        return next(iter(self._values(schema.users, User, name=name)), None)

    def names(self, identifiers: Collection[str]) -> dict[str, str]:
        """Return the names of those of these accounts that there are, by id."""
        rows = self._connection.execute(_names(), {"ids": list(identifiers)})
        return {row.id: row.name for row in rows}

    def known_as(self, issuer: str, subject: str) -> User | None:
        """Return the account of whom a provider knows by this name, if there is one."""
        found = self._values(schema.users, User, issuer=issuer, subject=subject)
        return next(iter(found), None)

    def identity(self, identifier: str) -> ProviderIdentity:
        """Return whom a provider knows a user as; an unknown account is nobody."""
        found = self._values(schema.users, ProviderIdentity, id=identifier)
        return found[0] if found else ProviderIdentity(identifier, None, None)

    def admins(self) -> list[User]:
        """Return the admins whose accounts are not disabled."""
        return self._values(schema.users, User, admin=True, disabled=False)

    def credentials(self, identifier: str) -> Credentials:
        """Return what a password is checked against; an unknown account has no password."""
        found = self._values(schema.users, Credentials, id=identifier)
        return found[0] if found else Credentials(identifier, None)

    def update(self, changed: User | Credentials | ProviderIdentity) -> None:
        """Record changes of an account, or of how its user is recognized."""
        columns: dict[str, Any] = schema.columns_of(changed)
        same = schema.users.c.id == changed.id
        self._connection.execute(schema.users.update().where(same), columns)


@cache
def _names() -> sa.Select[Any]:
    table = schema.users
    chosen = table.c.id.in_(sa.bindparam("ids", expanding=True))
    return sa.select(table.c.id, table.c.name).where(chosen)


class Seats(Repository):
    """Who has which role at which meter."""

    def add(self, seat: Seat) -> None:
        """Enter a seat."""
        self._add(schema.members, [seat])

    def remove(self, seat: Seat) -> None:
        """Take a seat away."""
        table = schema.members
        key = (table.c[name] == getattr(seat, name) for name in ("user", "meter", "role", "tenant"))
        self._connection.execute(table.delete().where(*key))

    def at(self, meter: str) -> list[Seat]:
        """Return the seats at a meter, the oldest first."""
        return self._seats("added_at", "user", "role", "tenant", meter=meter)

    def of(self, user: str) -> list[Seat]:
        """Return the seats of a user at all meters, the oldest first."""
        return self._seats("added_at", "role", "tenant", user=user)

    def _seats(self, *order: str, **equal: object) -> list[Seat]:
        found = self._values(schema.members, Seat, *order, **equal)
        return [replace(seat, role=Role(seat.role)) for seat in found]

    def addresses(self, meter: str, role: Role) -> list[str]:
        """Return the e-mail addresses of whoever has this role at a meter and can sign in."""
        users, members = schema.users, schema.members
        query = (
            sa.select(users.c.email)
            .distinct()
            .join(members, members.c.user == users.c.id)
            .where(members.c.meter == meter, members.c.role == str(role))
            .where(~users.c.disabled, users.c.email.is_not(None))
            .order_by(users.c.email)
        )
        return list(self._connection.execute(query).scalars())


Holder = tuple[Token, User, tuple[Seat, ...]]


class Tokens(Repository):
    """Tokens of all users; a revoked one stays, so that its holder learns why it is refused."""

    def add(self, token: Token, digest: str) -> None:
        """Enter a new token. Only the digest of its secret is kept."""
        self._connection.execute(
            schema.tokens.insert(), schema.columns_of(token) | {"digest": digest}
        )

    def of(self, user: str) -> list[Token]:
        """Return a user's tokens, the newest first."""
        found = self._values(schema.tokens, Token, "created_at", "id", user=user)
        return [_token(each) for each in reversed(found)]

    def forget(self, user: str, now: str, *, keep: int) -> None:
        """Remove those of a user's tokens that are not usable any more, but for the newest."""
        old = [each.id for each in self.of(user) if not each.usable(now)][keep:]
        self._connection.execute(schema.tokens.delete().where(schema.tokens.c.id.in_(old)))

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


class WrongPasswords(Repository):
    """How often a password was wrong, by account and address."""

    def get(self, key: str) -> Wrong | None:
        """Return what was counted; None: nothing."""
        found = self._values(schema.guesses, Wrong, key=key)
        return found[0] if found else None

    def put(self, wrong: Wrong) -> None:
        """Record a count, in place of the earlier one."""
        self.forget(wrong.key)
        self._add(schema.guesses, [wrong])

    def forget(self, key: str) -> None:
        """Begin to count from zero again."""
        table = schema.guesses
        self._connection.execute(table.delete().where(table.c.key == key))

    def forget_before(self, moment: str) -> None:
        """Forget those whose lock, if they had one, ended before this moment."""
        table = schema.guesses
        self._connection.execute(table.delete().where(table.c.until < moment))
