"""Who asks, and what each role may do. What is not listed is denied."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, TypeVar, cast

from easeml_meter.core.people import Role
from easeml_meter.errors import Denied


class Permission(StrEnum):
    """What can be asked of a meter."""

    SEE_METER = "see the meter"
    SUBMIT = "submit"
    REPORT_SCORES = "report scores"
    SEE_SIGNALS = "see answers"
    PROMOTE = "promote a model"
    SET_VALIDATION = "set the validation set"
    SEE_VALIDATION = "see the validation set"
    SEAL = "seal a test set"
    ADD_TEST_SET = "add a test set"
    SEE_REQUESTS = "see requests for labels"
    SEE_NOTICES = "see notices to labelers"
    RETIRE = "retire a test set"
    RELEASE = "release a test set"
    SEE_RELEASED = "see a released test set"
    SEE_TEST_INPUTS = "see the test inputs"
    HAND_OVER = "hand over a checkpoint"
    CONSENT = "agree to a hand-over"
    AUDIT = "audit"
    MANAGE = "manage users and keys"
    SEE_METRICS = "see the metrics"
    OPERATE = "do what only the server itself does"
    SIGN_IN = "sign in"
    SEE_ACCOUNT = "see their own account"
    CHANGE_ACCOUNT = "change their own account"
    MAKE_TOKENS = "make tokens"
    REVOKE_TOKENS = "see and revoke their own tokens"
    LOG_OUT = "log out"


_ALLOWED = {
    Role.DEVELOPER: {
        Permission.SEE_METER,
        Permission.SUBMIT,
        Permission.SEE_SIGNALS,
        Permission.PROMOTE,
        Permission.SET_VALIDATION,
        Permission.SEE_VALIDATION,
        Permission.SEE_RELEASED,
        Permission.HAND_OVER,
        Permission.CONSENT,
        Permission.AUDIT,
    },
    Role.LABELER: {
        Permission.SEE_METER,
        Permission.SEE_SIGNALS,
        Permission.SEE_VALIDATION,
        Permission.SEAL,
        Permission.ADD_TEST_SET,
        Permission.SEE_REQUESTS,
        Permission.SEE_NOTICES,
        Permission.SEE_TEST_INPUTS,
        Permission.RETIRE,
        Permission.RELEASE,
        Permission.SEE_RELEASED,
        Permission.AUDIT,
    },
    Role.RUNNER: {
        Permission.SEE_METER,
        Permission.SUBMIT,
        Permission.REPORT_SCORES,
        Permission.SEE_VALIDATION,
        Permission.SEE_TEST_INPUTS,
        Permission.SEE_RELEASED,
    },
    Role.ADMIN: {
        Permission.SEE_METER,
        Permission.SEE_REQUESTS,
        Permission.RETIRE,
        Permission.CONSENT,
        Permission.AUDIT,
        Permission.MANAGE,
        Permission.SEE_METRICS,
    },
    # A folder has one owner, from whom nothing in it is hidden; and the server itself is one.
    Role.OWNER: set(Permission),
    Role.USER: {
        Permission.SIGN_IN,
        Permission.SEE_ACCOUNT,
        Permission.CHANGE_ACCOUNT,
        Permission.MAKE_TOKENS,
        Permission.REVOKE_TOKENS,
        Permission.LOG_OUT,
    },
    # A leaked token with limits must not lead to one without, nor to the account or its tokens.
    Role.LIMITED: {Permission.SIGN_IN, Permission.SEE_ACCOUNT, Permission.LOG_OUT},
    # It lies in the settings of a monitoring system, so it does not even name whom it belongs to.
    Role.METRICS: {Permission.SEE_METRICS},
    Role.ANYONE: {Permission.SIGN_IN},
}


@dataclass(frozen=True, slots=True)
class Actor:
    """Somebody who asks for something, with the seats they may use for it."""

    seats: tuple[tuple[Role, int], ...]
    """Roles, each with the tenant it acts for; 0 acts for all tenants."""
    tenant: int | None = None
    """The tenant asked for; None: the actor's own."""
    user: str = ""
    """Id of the user, where people have accounts."""
    token: str = ""
    """Id of the token: at a meter if that has a pace, and for what belongs to no meter."""
    pace: int | None = None
    """How many answers the token gets in 24 hours; None: as many as there are."""

    @classmethod
    def embedded(cls, role: Role = Role.OWNER, tenant: int | None = None) -> Actor:
        """Return whoever uses a meter in a folder, in the role and team they say they have."""
        of_a_team = role in (Role.DEVELOPER, Role.RUNNER)
        return cls(((role, (tenant or 1) if of_a_team else 0),), tenant)

    def granted(self, *permissions: Permission) -> Actor:
        """Return this actor with the seats that allow the first of these permissions.

        Its tenant is then the one it acts for.
        """
        for permission in permissions:
            able = tuple(seat for seat in self.seats if allowed(seat[0], permission))
            if able:
                return replace(self, seats=able, tenant=self._acting_for(able))
        raise self._refused(permissions)

    def _refused(self, permissions: tuple[Permission, ...]) -> Denied:
        roles = {role for role, _ in self.seats}
        limited = not roles.isdisjoint((Role.LIMITED, Role.METRICS))
        if limited and any(allowed(Role.USER, each) for each in permissions):
            return Denied("a token with scopes or a pace may not do this: log in")
        if not {Permission.MANAGE, Permission.SEE_METRICS}.isdisjoint(permissions):
            return Denied("only an admin may do this")
        plural = " and ".join(sorted(f"{role}s" for role in roles))
        return Denied(f"{plural} may not {permissions[0]}")

    def _acting_for(self, able: tuple[tuple[Role, int], ...]) -> int:
        tenants = [tenant for _, tenant in able]
        if 0 in tenants:
            return self.acting_for
        if self.tenant is None:
            return tenants[0]
        if self.tenant not in tenants:
            raise Denied(f"team {self.tenant}: not yours")
        return self.tenant

    def may(self, permission: Permission) -> bool:
        """Whether some seat allows this, for whatever tenant."""
        return any(allowed(role, permission) for role, _ in self.seats)

    def acts_for(self, tenant: int) -> bool:
        """Whether one of the seats is a tenant's own, or acts for all."""
        return any(own in (0, tenant) for _, own in self.seats)

    @property
    def acting_for(self) -> int:
        """The tenant acted for: the one asked for, else the first."""
        return 1 if self.tenant is None else self.tenant

    @property
    def by_user(self) -> dict[str, str]:
        """Who acts, as a link of the audit chain says it; empty where there are no accounts."""
        return {"user": self.user} if self.user else {}

    @property
    def role(self) -> Role:
        """The role of the first seat."""
        return self.seats[0][0]


SYSTEM = Actor(((Role.OWNER, 0),))
"""The program itself: background tasks, and commands of whoever runs the server."""

ANYONE = Actor(((Role.ANYONE, 0),))
"""Somebody who has not signed in."""

UseCase = TypeVar("UseCase", bound=Callable[..., Any])


def needs(*permissions: Permission) -> Callable[[UseCase], UseCase]:
    """Declare what a use case `verb(actor, place, ...)` needs: any one of these permissions.

    This is the only gate. The use case runs with the actor narrowed to the seats that allow the
    first permission the actor has, so what it reads from the actor was checked. It raises `Denied`
    for anyone with none of them, which use cases do not repeat.
    """

    def declare(use_case: UseCase) -> UseCase:
        @functools.wraps(use_case)
        def guarded(actor: Actor, *arguments: Any, **options: Any) -> Any:
            return use_case(actor.granted(*permissions), *arguments, **options)

        guarded.needs = permissions  # type: ignore[attr-defined]
        return cast(UseCase, guarded)

    return declare


def permit(actor: Actor, use_case: Callable[..., Any]) -> None:
    """Check what a use case needs without running it."""
    actor.granted(*use_case.needs)  # type: ignore[attr-defined]


def allowed(role: Role, permission: Permission) -> bool:
    """Whether a role may do this."""
    return permission in _ALLOWED[role]
