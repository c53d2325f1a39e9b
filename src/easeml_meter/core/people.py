"""People as values: users, their seats at meters, their tokens."""

from __future__ import annotations

from dataclasses import dataclass

from easeml_meter.service.actor import Role


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
class Member:
    """A user's seat at a meter. `tenant` counts from 1; 0 for roles without one."""

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
