"""Seats in the books; their table is called `members`."""

from __future__ import annotations

from dataclasses import replace

import sqlalchemy as sa

from easeml_meter.core.people import Role, Seat
from easeml_meter.storage import schema
from easeml_meter.storage.books.repository import Repository, columns_of


class Seats(Repository):
    """Who has which role at which meter."""

    def add(self, seat: Seat) -> None:
        """Enter a seat."""
        self._connection.execute(schema.members.insert(), columns_of(seat))

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
