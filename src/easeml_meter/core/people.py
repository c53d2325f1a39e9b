"""People as values: their roles, users, seats at meters and tokens, and messages to them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from easeml_meter.errors import MeterError, invalid


class Role(StrEnum):
    """Whom a request comes from."""

    DEVELOPER = "developer"
    LABELER = "labeler"
    RUNNER = "runner"  # a trusted host that computes predictions on the hidden inputs
    ADMIN = "admin"  # manages users and keys; sees neither labels nor losses nor signals
    OWNER = "owner"  # embedded mode: one person's machine, an honour system
    USER = "user"  # whoever has signed in, wherever they have a seat
    LIMITED = "limited token"  # a user by a token with limits, which must not make a wider one
    METRICS = "metrics token"  # a program that watches the server
    ANYONE = "anyone"  # not signed in


SEATED = (Role.DEVELOPER, Role.LABELER, Role.RUNNER)
"""Roles that somebody is given at one meter."""

METRICS = "metrics"
"""A scope of tokens beside the roles: an admin's, for reading /metrics and nothing else."""

EMBEDDED = (*SEATED, Role.ADMIN, Role.OWNER)
"""Roles that somebody can take at a meter in a folder."""


@dataclass(frozen=True, slots=True)
class User:
    """A person or a program with an account."""

    id: str
    name: str
    email: str | None
    admin: bool
    disabled: bool
    created_at: str


@dataclass(frozen=True, slots=True)
class Credentials:
    """What a password is checked against; kept apart from `User`, which is shown."""

    id: str
    """The id of the user."""
    password: str | None
    """A hash; None: the account is used by tokens only."""
    failures: int = 0
    """Wrong passwords in a row."""
    locked_until: str | None = None


@dataclass(frozen=True, slots=True)
class Wrong:
    """Wrong passwords in a row, by account and address."""

    key: str
    """A digest of both, and of the hash that a right one would have."""
    failures: int
    until: str
    """The moment from which the next one may be right."""


@dataclass(frozen=True, slots=True)
class ProviderIdentity:
    """Whom a provider of identities knows a user as; never shown."""

    id: str
    """The id of the user."""
    issuer: str | None
    subject: str | None
    """The name that the provider never gives to anybody else, unlike those that people see."""


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody who has signed in at a provider of identities, as it describes them."""

    issuer: str
    subject: str
    name: str
    email: str | None
    groups: frozenset[str]


@dataclass(frozen=True, slots=True)
class GroupSeat:
    """A seat that the members of a provider's group have; for admins, `meter` is empty."""

    group: str
    role: Role
    meter: str = ""
    """Its id, or its name if no other has it."""
    tenant: int = 0

    @classmethod
    def parse(cls, text: str) -> GroupSeat:
        """Read GROUP=admin, GROUP=ROLE:METER or GROUP=ROLE:METER:TEAM.

        Raises:
            InvalidInput: it is none of them.
        """
        group, _, seat = text.rpartition("=")
        if group and seat == Role.ADMIN:
            return cls(group, Role.ADMIN)
        found = re.fullmatch(rf"({'|'.join(SEATED)}):(.+?)(?::([1-9]\d{{0,5}}))?", seat)
        if not group or found is None:
            allowed = "GROUP=admin, or GROUP=ROLE:METER or GROUP=ROLE:METER:TEAM"
            raise invalid("oidc_seat", text[:80], allowed)
        return cls(group, Role(found[1]), found[2], int(found[3] or 0))


@dataclass(frozen=True, slots=True)
class Seat:
    """A user's role at a meter. `tenant` counts from 1; 0 for roles without one."""

    user: str
    meter: str
    role: Role
    tenant: int
    added_at: str


@dataclass(frozen=True, slots=True)
class Token:
    """A token, without what would let anyone use it."""

    id: str
    user: str
    name: str
    kind: str
    scopes: tuple[str, ...]
    """Roles, `role:METER` or `METRICS`, that it is limited to; empty: all its user may do."""
    created_at: str
    expires_at: str
    revoked_at: str | None
    pace: int | None = None
    """How many answers it gets of a meter in any 24 hours; None: as many as there are."""

    @property
    def limited(self) -> bool:
        """Whether its user may do more than it may."""
        return bool(self.scopes) or self.pace is not None

    def usable(self, now: str) -> bool:
        """Whether it was not revoked and has not expired."""
        return self.revoked_at is None and self.expires_at > now


class DeliveryState(StrEnum):
    """Where a message stands."""

    WAITING = "waiting"
    SENT = "sent"
    GIVEN_UP = "given up"


@dataclass(frozen=True, slots=True)
class Delivery:
    """A message on its way."""

    id: str
    address: str
    """Where its e-mail goes; empty: it goes to those whom the setting `notify` names."""
    body: dict[str, str]
    """Its `subject` and its `text`; of an e-mail also what it is `about`."""
    state: DeliveryState
    attempts: int
    due_at: str
    created_at: str

    @classmethod
    def new(cls, identifier: str, address: str, body: dict[str, str], now: str) -> Delivery:
        """Return a message that is due at once."""
        return cls(identifier, address, body, DeliveryState.WAITING, 0, now, now)


class Undelivered(MeterError):
    """A message did not arrive; it is tried again later."""


class Unsendable(Undelivered):
    """A message cannot even be made; trying it again would not help."""
