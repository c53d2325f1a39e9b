"""Users, their seats at meters, and the tokens and passwords by which they are known."""

from __future__ import annotations

import hashlib
import re
import secrets
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from easeml_meter.errors import Denied, MeterError, NotFound, Unauthenticated, invalid
from easeml_meter.service.roles import Deed, Role, allowed
from easeml_meter.service.site import Site
from easeml_meter.spec import MeterSpec
from easeml_meter.storage import schema
from easeml_meter.storage.schema import stamp
from easeml_meter.storage.store import Books

TOKEN_PREFIX = "emt_"  # noqa: S105 - what a token looks like, not one
MAX_NAME = 200
FIRST_ADMIN = "admin"
SHORTEST_PASSWORD = 10
LONGEST_PASSWORD = 1000
FAILURES = 5
"""Wrong passwords in a row before an account is locked, for twice as long each time."""
LOCK = timedelta(seconds=30)
LONGEST_LOCK = timedelta(hours=1)
_DAY = timedelta(days=1)
# In words that Python, Rust and JavaScript understand alike.
_ODD = r"\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\uffff"
NAME = rf"^[^\s{_ODD}][^{_ODD}]{{0,199}}$"
"""Names: no control characters, and nothing that changes the order in which they are read."""
EMAIL = rf"^[^@\s{_ODD}]+@[^@\s{_ODD}]+$"
_SEATED = (Role.DEVELOPER, Role.LABELER, Role.RUNNER)
SCOPE = rf"^({Role.ADMIN}|({'|'.join(_SEATED)})(:[0-9a-f]{{32}})?)$"
"""What a token can be limited to: a role, of all meters or of one; an admin has them all."""
LONGEST_DAYS = 3660
REMEMBERED = 1.0
"""Seconds after which a change made by another process is seen; one made by this one is at once."""
_CALLERS = 10_000
# Each hash takes 64 MB: a crowd at the door must not take all memory.
_HASHING = threading.BoundedSemaphore(4)


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

    def seat(self, meter: str, deed: Deed, tenant: int | None = None) -> Member:
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


def add_user(
    site: Site,
    name: str,
    *,
    password: str | None = None,
    email: str | None = None,
    admin: bool = False,
) -> User:
    """Open an account."""
    _check_name("name", name)
    _check_email(email)
    hashed = hash_password(password) if password is not None else None
    user = User(secrets.token_hex(16), name, email, admin, False, site.now())
    row = asdict(user) | {"password": hashed, "failures": 0, "locked_until": None}
    with site.writing() as books:
        if books.select(schema.users, schema.users.c.name == name):
            raise MeterError(f"name: {name!r} given, another user has it: choose another one")
        books.connection.execute(schema.users.insert(), row)
    return user


def users(site: Site) -> list[User]:
    """List all accounts, by name."""
    with site.reading() as books:
        rows = books.select(schema.users, order=schema.users.c.name)
    return [_user(row) for row in rows]


def user(site: Site, identifier: str) -> User:
    """Find an account by its id."""
    with site.reading() as books:
        rows = books.select(schema.users, schema.users.c.id == identifier)
    if not rows:
        raise NotFound(f"user {identifier[:32]!r}: none with that id")
    return _user(rows[0])


def change_user(site: Site, identifier: str, **changes: Any) -> User:
    """Change email, admin, disabled or password of an account; the last admin stays one."""
    _check_email(changes.get("email"))
    if changes.get("password") is not None:
        changes["password"] = hash_password(changes["password"])
        changes |= {"failures": 0, "locked_until": None}
    with site.writing() as books:
        table = schema.users
        before = books.select(table, table.c.id == identifier)
        if not before:
            raise NotFound(f"user {identifier[:32]!r}: none with that id")
        if changes:
            books.connection.execute(table.update().where(table.c.id == identifier), changes)
        working = table.c.admin & ~table.c.disabled
        if not books.select(table, working):
            raise MeterError("the last admin must stay one: make somebody else an admin first")
        if changes.get("disabled") or "password" in changes:
            _revoke(books, schema.tokens.c.user == identifier, site.now())
        return _user(books.select(table, table.c.id == identifier)[0])


def add_member(site: Site, user_id: str, meter: str, role: Role, tenant: int = 0) -> Member:
    """Give a user a seat at a meter; developers and runners sit with a tenant."""
    if role not in (Role.DEVELOPER, Role.LABELER, Role.RUNNER):
        raise invalid("role", str(role), "developer, labeler or runner")
    user(site, user_id)
    require_meter(site, meter)
    with site.writing() as books:
        books.lock(meter)
        spec = MeterSpec.from_mapping(books.meter(meter).settings)
        count = 1 if spec.handover else max(1, len(spec.tenants))
        if role is Role.LABELER:
            tenant = 0
        elif not 1 <= (tenant := tenant or 1) <= count:
            raise MeterError(f"tenant: {tenant} given, this meter has those from 1 to {count}")
        rows = [row for row in _members(books, user_id) if row.meter == meter]
        # Two roles in one hand would show a developer the hidden inputs, or the labels.
        if others := {row.role for row in rows} - {role}:
            holds = others.pop()
            raise MeterError(
                f"role: {role} given, this user is {holds} of the meter: one role each"
            )
        member = Member(user_id, meter, role, tenant, site.now())
        if not any((row.role, row.tenant) == (role, tenant) for row in rows):
            books.connection.execute(schema.members.insert(), asdict(member))
            details = {"user": user_id, "role": str(role), "tenant": tenant}
            books.append_audit(meter, member.added_at, "member added", details)
    return member


def remove_member(site: Site, user_id: str, meter: str, role: Role, tenant: int = 0) -> None:
    """Take a seat away."""
    table = schema.members
    with site.writing() as books:
        books.lock(meter)
        where = (
            (table.c.user == user_id)
            & (table.c.meter == meter)
            & (table.c.role == str(role))
            & (table.c.tenant == tenant)
        )
        if books.connection.execute(table.delete().where(where)).rowcount == 0:
            raise NotFound("member: there is no such seat")
        details = {"user": user_id, "role": str(role), "tenant": tenant}
        books.append_audit(meter, site.now(), "member removed", details)


def members(site: Site, meter: str) -> list[Member]:
    """List the seats at a meter."""
    table = schema.members
    with site.reading() as books:
        rows = books.select(table, table.c.meter == meter, order=(table.c.added_at, table.c.user))
    return [_member(row) for row in rows]


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
    _check_name("name", name)
    if not 0 < days <= LONGEST_DAYS:
        raise invalid("days", days, f"a number above 0, at most {LONGEST_DAYS}")
    for scope in scopes:
        if not re.fullmatch(SCOPE, scope):
            roles = ", ".join(_SEATED)
            raise invalid("scope", scope[:80], f"admin, or one of {roles} as ROLE or ROLE:METER")


def tokens(site: Site, user_id: str) -> list[Token]:
    """List a user's tokens, the newest first."""
    table = schema.tokens
    with site.reading() as books:
        rows = books.select(table, table.c.user == user_id, order=table.c.created_at.desc())
    return [_token(row) for row in rows]


def revoke_token(site: Site, identifier: str, *, owner: str | None = None) -> None:
    """End a token's life; with `owner`, only if it is theirs."""
    where = schema.tokens.c.id == identifier
    if owner is not None:
        where &= schema.tokens.c.user == owner
    with site.writing() as books:
        if not books.select(schema.tokens, where):
            raise NotFound(f"token {identifier[:32]!r}: none with that id")
        _revoke(books, where, site.now())


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
    token = _token(_part(first, schema.tokens))
    if token.revoked_at is not None:
        raise Unauthenticated("the token was revoked: log in again")
    if token.expires_at <= site.now():
        raise Unauthenticated("the token has expired: log in again")
    if first[schema.users.c.disabled]:
        raise Unauthenticated("the account is disabled: ask an admin")
    seats = [row for row in rows if row[schema.members.c.user] is not None]
    members = tuple(_member(_part(row, schema.members)) for row in seats)
    caller = Caller(_user(_part(first, schema.users)), token, members)
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


def log_in(site: Site, name: str, password: str) -> User:
    """Check a password; whether the name or the password was wrong is not said."""
    table = schema.users
    with site.reading() as books:
        rows = books.select(table, table.c.name == name)
    right = verify_password(rows[0]["password"] if rows else None, password)
    now = site.clock()
    # An unknown name takes as long as a wrong password: it is hashed and written all the same.
    identifier = rows[0]["id"] if rows else ""
    with site.writing() as books:
        rows = books.select(table, table.c.id == identifier)
        row = rows[0] if rows else _NOBODY
        locked = row["locked_until"]
        open_to_all = locked is None or datetime.fromisoformat(locked) <= now
        passed = right and open_to_all and not row["disabled"]
        if open_to_all:
            failures = 0 if right else row["failures"] + 1
            until = None
            if failures >= FAILURES:
                until = stamp(now + min(LOCK * 2 ** min(failures - FAILURES, 20), LONGEST_LOCK))
            changes = {"failures": failures, "locked_until": until}
            books.connection.execute(table.update().where(table.c.id == identifier), changes)
    if not passed:
        raise Unauthenticated(
            "name or password is wrong, or too many wrong ones were tried: wait, retry"
        )
    return _user(row)


_NOBODY: dict[str, Any] = {"failures": 0, "locked_until": None, "disabled": True}


def admin_can_sign_in(site: Site) -> bool:
    """Tell whether some admin has a password or a token that is still valid."""
    users, tokens = schema.users, schema.tokens
    with site.reading() as books:
        admins = books.select(users, users.c.admin & ~users.c.disabled)
        valid = tokens.c.revoked_at.is_(None) & (tokens.c.expires_at > site.now())
        holders = {row["user"] for row in books.select(tokens, valid)}
    return any(row["password"] is not None or row["id"] in holders for row in admins)


def admin_token(site: Site) -> str:
    """Give a token of the user "admin" for a day; the account is made, or made good, as needed."""
    with site.reading() as books:
        found = books.select(schema.users, schema.users.c.name == FIRST_ADMIN)
    if found:
        admin = change_user(site, found[0]["id"], admin=True, disabled=False)
    else:
        admin = add_user(site, FIRST_ADMIN, admin=True)
    return new_token(site, admin.id, "from meter serve", days=1)[1]


def require_meter(site: Site, meter: str) -> None:
    """Refuse a meter that does not exist."""
    with site.reading() as books:
        if not books.select(schema.meters, schema.meters.c.id == meter):
            raise NotFound(f"meter {meter[:32]!r}: none of that name that you have a seat at")


def hash_password(password: str) -> str:
    """Hash a password with argon2."""
    from argon2 import PasswordHasher

    if not SHORTEST_PASSWORD <= len(password) <= LONGEST_PASSWORD:
        allowed = f"{SHORTEST_PASSWORD} to {LONGEST_PASSWORD} characters"
        raise invalid("password", "(hidden)", allowed)
    with _HASHING:
        return PasswordHasher().hash(password)


def verify_password(hashed: str | None, password: str) -> bool:
    """Compare; without a hash, take as long as with one and say no."""
    from argon2 import PasswordHasher
    from argon2.exceptions import InvalidHashError, VerificationError

    hasher = PasswordHasher()
    try:
        with _HASHING:
            right = hasher.verify(hashed or _NOBODYS, password[:LONGEST_PASSWORD])
    except (VerificationError, InvalidHashError):
        return False
    return right and hashed is not None


_NOBODYS = (
    "$argon2id$v=19$m=65536,t=3,p=4$MDEyMzQ1Njc4OWFiY2RlZg$"
    "vvc1IPIgK0RjmEqKGyGmVbhoLmJKl5KOVvyJcSPCWsY"
)
"""A hash of nothing anyone knows, with the parameters of the real ones."""


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def _check_name(field: str, name: str) -> None:
    if not re.fullmatch(NAME, name):
        raise invalid(field, name[:40], "1 to 200 printable characters")


def _check_email(email: str | None) -> None:
    if email is not None and not (len(email) <= MAX_NAME and re.fullmatch(EMAIL, email)):
        raise invalid("email", email[:80], "such as name@example.org, or none")


def _members(books: Books, user_id: str) -> list[Member]:
    table = schema.members
    return [_member(row) for row in books.select(table, table.c.user == user_id)]


def _revoke(books: Books, where: Any, now: str) -> None:
    table = schema.tokens
    live = where & table.c.revoked_at.is_(None)
    books.connection.execute(table.update().where(live), {"revoked_at": now})


def _part(row: Mapping[Any, Any], table: sa.Table) -> dict[str, Any]:
    return {column.name: row[column] for column in table.c}


def _user(row: dict[str, Any]) -> User:
    return User(
        row["id"], row["name"], row["email"], row["admin"], row["disabled"], row["created_at"]
    )


def _member(row: dict[str, Any]) -> Member:
    return Member(**(row | {"role": Role(row["role"])}))


def _token(row: dict[str, Any]) -> Token:
    plain = {key: value for key, value in row.items() if key != "digest"}
    return Token(**(plain | {"scopes": tuple(row["scopes"])}))
