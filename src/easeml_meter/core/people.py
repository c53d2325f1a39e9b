"""People as values: their roles, users, their seats at meters, their tokens."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Role(StrEnum):
    """Whom a request comes from."""

    DEVELOPER = "developer"
    LABELER = "labeler"
    RUNNER = "runner"  # a trusted host that computes predictions on the hidden inputs
    ADMIN = "admin"  # manages users and keys; sees neither labels nor losses nor signals
    OWNER = "owner"  # embedded mode: one person's machine, an honour system
    USER = "user"  # whoever has signed in, wherever they have a seat
    LIMITED = "limited token"  # a user by a token with limits, which must not make a wider one
    ANYONE = "anyone"  # not signed in


SEATED = (Role.DEVELOPER, Role.LABELER, Role.RUNNER)
"""Roles that somebody is given at one meter."""

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
    """Roles, or `role:METER`, that it is limited to; empty: all its user may do."""
    created_at: str
    expires_at: str
    revoked_at: str | None
    pace: int | None = None
    """How many answers it gets of a meter in any 24 hours; None: as many as there are."""

    @property
    def limited(self) -> bool:
        """Whether its user may do more than it may."""
        return bool(self.scopes) or self.pace is not None
