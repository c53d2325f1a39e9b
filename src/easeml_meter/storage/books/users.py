"""Users in the books."""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from typing import Any

import sqlalchemy as sa

from easeml_meter.core.people import Credentials, ProviderIdentity, User
from easeml_meter.errors import NotFound
from easeml_meter.storage import schema
from easeml_meter.storage.books.repository import Repository, columns_of


class Users(Repository):
    """Accounts of people and programs."""

    def add(self, user: User, password: str | None) -> None:
        """Enter a new account with the hash of its password, if it has one."""
        credentials = columns_of(Credentials(user.id, password))
        self._connection.execute(schema.users.insert(), columns_of(user) | credentials)

    def all(self) -> list[User]:
        """Return all accounts, by name."""
        # Not sorted by the database: PostgreSQL may have an alphabet of its own, and whoever reads
        # page after page goes on from a name.
        return sorted(self._values(schema.users, User), key=lambda user: user.name)

    def get(self, identifier: str) -> User:
        """Return an account by its id.

        Raises:
            NotFound: no account has this id.
        """
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
        columns: dict[str, Any] = columns_of(changed)
        same = schema.users.c.id == changed.id
        self._connection.execute(schema.users.update().where(same), columns)


@cache
def _names() -> sa.Select[Any]:
    table = schema.users
    chosen = table.c.id.in_(sa.bindparam("ids", expanding=True))
    return sa.select(table.c.id, table.c.name).where(chosen)
