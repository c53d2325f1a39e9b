"""Accounts of people and programs, and the passwords by which they sign in."""

from __future__ import annotations

import re
import secrets
import threading
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any

from easeml_meter.checks import MAX_NAME, ODD, check_name
from easeml_meter.core.model import stamp
from easeml_meter.core.people import User
from easeml_meter.errors import MeterError, NotFound, Unauthenticated, invalid
from easeml_meter.service.place import Site
from easeml_meter.service.tokens import new_token, revoke
from easeml_meter.storage import schema
from easeml_meter.storage.people import user_of

FIRST_ADMIN = "admin"

SHORTEST_PASSWORD = 10

LONGEST_PASSWORD = 1000

FAILURES = 5
"""Wrong passwords in a row before an account is locked, for twice as long each time."""

LOCK = timedelta(seconds=30)

LONGEST_LOCK = timedelta(hours=1)

EMAIL = rf"^[^@\s{ODD}]+@[^@\s{ODD}]+$"

# Each hash takes 64 MB: a crowd at the door must not take all memory.
_HASHING = threading.BoundedSemaphore(4)


def add_user(
    site: Site,
    name: str,
    *,
    password: str | None = None,
    email: str | None = None,
    admin: bool = False,
) -> User:
    """Open an account."""
    check_name("name", name)
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
    return [user_of(row) for row in rows]


def user(site: Site, identifier: str) -> User:
    """Find an account by its id."""
    with site.reading() as books:
        rows = books.select(schema.users, schema.users.c.id == identifier)
    if not rows:
        raise NotFound(f"user {identifier[:32]!r}: none with that id")
    return user_of(rows[0])


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
            revoke(books, schema.tokens.c.user == identifier, site.now())
        return user_of(books.select(table, table.c.id == identifier)[0])


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
    return user_of(row)


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


def _check_email(email: str | None) -> None:
    if email is not None and not (len(email) <= MAX_NAME and re.fullmatch(EMAIL, email)):
        raise invalid("email", email[:80], "such as name@example.org, or none")
