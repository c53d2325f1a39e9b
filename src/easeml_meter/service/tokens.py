"""Tokens: how callers are recognised, and what each token is limited to."""

from __future__ import annotations

import hashlib
import re
import secrets
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from typing import Any

import sqlalchemy as sa

from easeml_meter.checks import check_name
from easeml_meter.core.model import stamp
from easeml_meter.core.people import SEATED, Member, Role, Token, User
from easeml_meter.errors import Denied, NotFound, Unauthenticated, invalid
from easeml_meter.service.actor import Actor, Permission, allowed
from easeml_meter.service.place import Site
from easeml_meter.storage import schema
from easeml_meter.storage.books import Books
from easeml_meter.storage.people import member_of, token_of, user_of

TOKEN_PREFIX = "emt_"  # noqa: S105 - what a token looks like, not one

_DAY = timedelta(days=1)

SCOPE = rf"^({Role.ADMIN}|({'|'.join(SEATED)})(:[0-9a-f]{{32}})?)$"
"""What a token can be limited to: a role, of all meters or of one; an admin has them all."""

LONGEST_DAYS = 3660

REMEMBERED = 1.0
"""Seconds after which a change made by another process is seen; one made by this one is at once."""

_CALLERS = 10_000


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks, as far as a valid token says."""

    user: User
    token: Token
    members: tuple[Member, ...]

    @property
    def admin(self) -> bool:
        """Tell whether the caller manages the site, and the token may be used for that."""
        return self.user.admin and self._in_scope(Role.ADMIN, None)

    def _in_scope(self, role: Role, meter: str | None) -> bool:
        scopes = self.token.scopes
        return not scopes or role in scopes or (meter is not None and f"{role}:{meter}" in scopes)

    def seats(self, meter: str) -> list[Member]:
        """Give the seats at one meter that the token may be used for."""
        found = [
            seat
            for seat in self.members
            if seat.meter == meter and self._in_scope(seat.role, meter)
        ]
        if self.admin:
            found.append(Member(self.user.id, meter, Role.ADMIN, 0, ""))
        return found

    def at(self, meter: str, tenant: int | None = None) -> Actor:
        """Return the caller as an actor at one meter, for the tenant asked for, if any.

        Raises:
            NotFound: no seat there, so the meter looks like one that does not exist.
        """
        seats = tuple((seat.role, seat.tenant) for seat in self.seats(meter))
        if not seats:
            raise NotFound(f"meter {meter[:32]!r}: none of that name that you have a seat at")
        return Actor(seats, tenant, self.user.id)

    def at_site(self) -> Actor:
        """Return the caller as an actor for what belongs to no meter."""
        own = (Role.LIMITED if self.token.scopes else Role.USER, 0)
        return Actor(((Role.ADMIN, 0), own) if self.admin else (own,), user=self.user.id)

    def seat(self, meter: str, deed: Permission, tenant: int | None = None) -> Member:
        """Give the seat from which this may be done, or refuse.

        A meter where the caller has no seat looks like one that does not exist. A developer or
        runner acts for the tenant of the seat; `tenant` chooses among several seats. For a
        labeler, who sees all tenants, the seat given names the tenant asked for.
        """
        seats = self.seats(meter)
        if not seats:
            raise NotFound(f"meter {meter[:32]!r}: none of that name that you have a seat at")
        able = [seat for seat in seats if allowed(seat.role, deed)]
        if not able:
            roles = " and ".join(sorted({str(seat.role) for seat in seats}))
            raise Denied(f"as {roles} of this meter you may not {deed}")
        for seat in able:
            if seat.tenant == 0:
                return replace(seat, tenant=tenant or 1)
        if tenant is None:
            return able[0]
        for seat in able:
            if seat.tenant == tenant:
                return seat
        raise Denied(f"tenant {tenant}: not yours")

    def require_admin(self) -> None:
        """Let only admins pass."""
        if not self.admin:
            raise Denied("only an admin may do this")

    def require_unlimited(self) -> None:
        """Let only tokens without scopes pass: a limited one must not lead to an unlimited one."""
        if self.token.scopes:
            raise Denied("a token with scopes may not do this: log in")


def new_token(
    site: Site,
    user_id: str,
    name: str,
    *,
    scopes: Iterable[str] = (),
    days: float = 90,
    kind: str = "api",
) -> tuple[Token, str]:
    """Make a token; its secret is given once and only its digest is kept."""
    limited = tuple(scopes)
    check_token(name, limited, days)
    secret = TOKEN_PREFIX + secrets.token_urlsafe(32)
    now = site.clock()
    token = Token(
        id=secrets.token_hex(16),
        user=user_id,
        name=name,
        kind=kind,
        scopes=limited,
        created_at=stamp(now),
        expires_at=stamp(now + days * _DAY),
        revoked_at=None,
    )
    row = asdict(token) | {"scopes": list(limited), "digest": _digest(secret)}
    with site.writing() as books:
        books.connection.execute(schema.tokens.insert(), row)
    return token, secret


def check_token(name: str, scopes: Iterable[str], days: float) -> None:
    """Refuse what no token can be made of."""
    check_name("name", name)
    if not 0 < days <= LONGEST_DAYS:
        raise invalid("days", days, f"a number above 0, at most {LONGEST_DAYS}")
    for scope in scopes:
        if not re.fullmatch(SCOPE, scope):
            roles = ", ".join(SEATED)
            raise invalid("scope", scope[:80], f"admin, or one of {roles} as ROLE or ROLE:METER")


def tokens(site: Site, user_id: str) -> list[Token]:
    """List a user's tokens, the newest first."""
    table = schema.tokens
    with site.reading() as books:
        rows = books.select(table, table.c.user == user_id, order=table.c.created_at.desc())
    return [token_of(row) for row in rows]


def revoke_token(site: Site, identifier: str, *, owner: str | None = None) -> None:
    """End a token's life; with `owner`, only if it is theirs."""
    where = schema.tokens.c.id == identifier
    if owner is not None:
        where &= schema.tokens.c.user == owner
    with site.writing() as books:
        if not books.select(schema.tokens, where):
            raise NotFound(f"token {identifier[:32]!r}: none with that id")
        revoke(books, where, site.now())


def remembered(site: Site, secret: str) -> Caller | None:
    """Find out who holds a token that was asked for a moment ago, without the books."""
    until, caller = site.callers.known.get(_digest(secret), (0.0, None))
    if caller is None or until < time.monotonic() or caller.token.expires_at <= site.now():
        return None
    found: Caller = caller
    return found


def caller_of(site: Site, secret: str) -> Caller:
    """Find out who holds a token.

    It is looked up by its digest, so the time this takes says nothing about other tokens.
    """
    if (known := remembered(site, secret)) is not None:
        return known
    digest, now, memory = _digest(secret), time.monotonic(), site.callers.known
    with site.reading() as books:
        rows = books.connection.execute(_WHO, {"digest": digest}).mappings().all()
    if not rows:
        raise Unauthenticated("the token is not known: log in again")
    first = rows[0]
    token = token_of(_part(first, schema.tokens))
    if token.revoked_at is not None:
        raise Unauthenticated("the token was revoked: log in again")
    if token.expires_at <= site.now():
        raise Unauthenticated("the token has expired: log in again")
    if first[schema.users.c.disabled]:
        raise Unauthenticated("the account is disabled: ask an admin")
    seats = [row for row in rows if row[schema.members.c.user] is not None]
    members = tuple(member_of(_part(row, schema.members)) for row in seats)
    caller = Caller(user_of(_part(first, schema.users)), token, members)
    if len(memory) >= _CALLERS:
        memory.clear()
    memory[digest] = (now + REMEMBERED, caller)
    return caller


# One question for token, user and seats: it is asked at every request.
_WHO = (
    sa.select(schema.tokens, schema.users, schema.members)
    .select_from(
        schema.tokens.join(schema.users, schema.users.c.id == schema.tokens.c.user).outerjoin(
            schema.members, schema.members.c.user == schema.users.c.id
        )
    )
    .where(schema.tokens.c.digest == sa.bindparam("digest"))
    .order_by(schema.members.c.added_at, schema.members.c.role, schema.members.c.tenant)
)


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def revoke(books: Books, where: Any, now: str) -> None:
    """Revoke all tokens that match and are still valid."""
    table = schema.tokens
    live = where & table.c.revoked_at.is_(None)
    books.connection.execute(table.update().where(live), {"revoked_at": now})


def _part(row: Mapping[Any, Any], table: sa.Table) -> dict[str, Any]:
    return {column.name: row[column] for column in table.c}
