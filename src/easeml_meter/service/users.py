"""Accounts of people and programs, and the passwords by which they sign in."""

from __future__ import annotations

import re
import secrets
import threading
import unicodedata
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any

from easeml_meter.checks import MAX_NAME, ODD, check_name, is_id
from easeml_meter.core.model import Event
from easeml_meter.core.people import Credentials, ProviderIdentity, User
from easeml_meter.errors import Denied, MeterError, NotFound, Unauthenticated, invalid
from easeml_meter.service.actor import Actor, Permission, needs
from easeml_meter.service.guesses import (
    FAILURES,
    LOCK,
    begin_guess,
    counted_everywhere,
    idle_key,
    key_of,
    locked_everywhere,
)
from easeml_meter.service.place import Site, Workspace
from easeml_meter.storage.books import Books

SHORTEST_PASSWORD = 10

LONGEST_PASSWORD = 1000

# Not what separates, quotes or groups addresses in an e-mail; brackets around a number are a host.
_PART = rf"[^@\s{ODD}<>()\[\],:;\x22\\]+"
EMAIL = rf"^{_PART}@({_PART}|\[[0-9A-Za-z.:]+\])$"

# Each hash takes 64 MB: a crowd that signs in at once must not take all memory.
_HASHING = threading.BoundedSemaphore(4)


@needs(Permission.MANAGE)
def add_user(
    _actor: Actor,
    site: Site,
    name: str,
    *,
    password: str | None = None,
    email: str | None = None,
    admin: bool = False,
    known_as: tuple[str, str] | None = None,
) -> User:
    """Open an account; without a password, tokens or a provider's sign-in are the only ways in.

    `known_as`: issuer and subject, if a provider vouches for its owner. The same account once more
    is that account, as long as nobody can sign in to it by a password.

    Raises:
        InvalidInput: no name, e-mail address or password that an account can have.
        MeterError: another user has the name.
    """
    check_name("name", name)
    _check_letters(name)
    _check_email(email)
    hashed = hash_password(password) if password is not None else None
    user = User(secrets.token_hex(16), name, email, admin, False, site.now())
    with site.writing() as books:
        if hashed is None and known_as is None and (before := _opened_before(books, user)):
            return before
        if _look(name) in {_look(user.name) for user in books.users.all()}:
            raise MeterError(f"name: {name!r} given, another user has it: choose another one")
        books.users.add(user, hashed)
        if known_as is not None:
            books.users.update(ProviderIdentity(user.id, *known_as))
    return user


def _opened_before(books: Books, asked: User) -> User | None:
    """Return the account that an admin opened before, if it is still as it was opened."""
    found = books.users.named(asked.name)
    if found is None or replace(asked, id=found.id, created_at=found.created_at) != found:
        return None
    joined = books.users.credentials(found.id).password or books.users.identity(found.id).issuer
    return None if joined else found


def _look(name: str) -> str:
    """Return what a name looks like: names that differ only in case, width or blanks are one."""
    return " ".join(unicodedata.normalize("NFKC", name).casefold().split())


def _check_letters(name: str) -> None:
    """Refuse a name with letters of several scripts, whose letters look alike."""
    known = {unicodedata.name(letter, "").partition(" ")[0] for letter in name}
    mixed = sorted(known & {"LATIN", "CYRILLIC", "GREEK"})
    if len(mixed) > 1:
        raise invalid("name", name, f"letters of one script, not of {' and '.join(mixed).title()}")


@needs(Permission.MANAGE)
def list_users(_actor: Actor, site: Site) -> list[User]:
    """Return all accounts, by name."""
    with site.reading() as books:
        return books.users.all()


@needs(Permission.MANAGE, Permission.SEE_ACCOUNT)
def show_user(actor: Actor, site: Site, identifier: str) -> User:
    """Return an account; only admins see those of others.

    Raises:
        NotFound: no account has this id.
    """
    if not actor.may(Permission.MANAGE) and identifier != actor.user:
        raise Denied("only an admin may do this")
    with site.reading() as books:
        return books.users.get(identifier)


@needs(Permission.MANAGE)
def find_user(_actor: Actor, place: Site | Workspace, key: str) -> str:
    """Return the id of a user who is given by id or by name; 32 hexadecimal digits are an id.

    Raises:
        NotFound: no account has this name.
    """
    if is_id(key):
        return key
    with place.reading() as books:
        found = books.users.named(key)
    if found is None:
        raise NotFound(f"user {key[:32]!r}: none of that name")
    return found.id


@needs(Permission.SEE_METER)
def user_names(
    _actor: Actor, place: Site | Workspace, identifiers: Collection[str]
) -> dict[str, str]:
    """Return the names of these users by id, to show who did what at a meter.

    A site may have far more users than a meter, and a page may show many meters.
    """
    with place.reading() as books:
        return books.users.names(identifiers)


@needs(Permission.MANAGE, Permission.CHANGE_ACCOUNT)
def change_user(
    actor: Actor,
    site: Site,
    identifier: str,
    *,
    current_password: str = "",
    address: str = "",
    **changes: Any,
) -> User:
    """Change `email`, `admin`, `disabled` or `password` of an account.

    Whoever is not an admin changes their own e-mail and password only, and the password only if
    they know the current one; a wrong one counts as at sign-in, for the `address` it came from. A
    new password, or disabling the account, revokes its tokens.

    Raises:
        NotFound: no account has this id.
        Unauthenticated: the current password is wrong.
        MeterError: no admin would be left.
    """
    if not actor.may(Permission.MANAGE):
        if identifier != actor.user or not changes.keys() <= {"email", "password"}:
            raise Denied("only an admin may do this; of your own account, email and password")
        if "password" in changes:
            changes["verified"] = _check_current(site, identifier, current_password, address)
    return _change(actor, site, identifier, **changes)


@needs(Permission.MANAGE)
def reset_password(actor: Actor, site: Site, identifier: str) -> str:
    """Give an account a random password and return it, as it is kept nowhere.

    Raises:
        NotFound: no account has this id.
    """
    password = random_password()
    _change(actor, site, identifier, password=password)
    return password


def random_password() -> str:
    """Return a password that nobody guesses."""
    return secrets.token_urlsafe(15)


@needs(Permission.CHANGE_ACCOUNT)
def change_password(actor: Actor, site: Site, current: str, new: str, address: str = "") -> None:
    """Change one's own password, which revokes all tokens of the account.

    Raises:
        InvalidInput: the current password is wrong, or the new one too short or too long.
        Unauthenticated: somebody else changed it meanwhile.
    """
    try:
        verified = _check_current(site, actor.user, current, address)
    except Unauthenticated:
        raise invalid("current password", "(hidden)", "it is not right: try again") from None
    _change(actor, site, actor.user, verified=verified, password=new)


def join(
    actor: Actor,
    site: Site,
    identifier: str,
    invitation: str,
    password: str,
    *,
    entering: Callable[[Books, User], object],
) -> User:
    """Set the password of an account by an invitation, given by its id.

    What `entering` does is part of the transaction that sets the password.

    Raises:
        Unauthenticated: somebody else was faster.
    """
    return _change(
        actor, site, identifier, invitation=invitation, entering=entering, password=password
    )


def check_still_valid(books: Books, token: str, now: str) -> None:
    """Look again, under the lock, at a token, by its id, by which somebody was recognized.

    What revokes all tokens of an account, such as a new password, leaves nothing to come of them.
    """
    found = books.tokens.find(token)
    if found is None or found.revoked_at is not None:
        raise Unauthenticated("the token was revoked: log in again")
    if found.expires_at <= now:
        raise Unauthenticated("the token has expired: log in again")


def _check_current(site: Site, identifier: str, password: str, address: str) -> str | None:
    """Check the password of an account; return the hash that it was found to have."""
    with site.reading() as books:
        name = books.users.get(identifier).name
    found: list[Credentials] = []

    def note(books: Books, user: User) -> None:
        found.append(books.users.credentials(user.id))

    check_password(site, name, password, address, entering=note)
    return found[0].password


def _change(
    actor: Actor,
    site: Site,
    identifier: str,
    *,
    invitation: str | None = None,
    verified: str | None = None,
    entering: Callable[[Books, User], object] = lambda books, user: None,
    **changes: Any,
) -> User:
    """Change an account; `verified`: the hash of the password by which its owner may do so."""
    _check_email(changes.get("email"))
    new_password = "password" in changes
    password = changes.pop("password", None)
    # Before the lock: hashing takes long by design, and everybody else would wait.
    hashed = hash_password(password) if password is not None else None
    with site.writing() as books:
        # An admin may have reset the password or revoked the tokens while this one was hashed:
        # whoever knows no more than the old password must not undo that.
        if actor.token:
            check_still_valid(books, actor.token, site.now())
        if verified is not None and books.users.credentials(identifier).password != verified:
            raise Unauthenticated("the password was changed meanwhile: log in with the new one")
        if invitation is not None:  # looked at before the password was hashed, and again here
            token = books.tokens.find(invitation)
            if token is None or token.revoked_at is not None:
                raise Unauthenticated("the invitation was used: ask an admin for another one")
        before = books.users.get(identifier)
        user = replace(before, **changes)
        books.users.update(user)
        if new_password:
            books.users.update(Credentials(identifier, hashed))
        if not books.users.admins():
            raise MeterError("cannot remove the last admin: make someone else an admin first")
        if user.disabled or new_password:
            # Whoever knew the old password may have made tokens with it.
            books.tokens.revoke(site.now(), user=identifier)
        entering(books, user)
        if identifier != actor.user:
            event = Event.PASSWORD_SET if invitation is None else Event.INVITATION_REDEEMED
            _tell_meters(books, site.now(), before, user, [event] if new_password else [])
    return user


def _tell_meters(
    books: Books, now: str, before: User, after: User, events: Sequence[Event]
) -> None:
    """Enter what an admin did to an account into the chain of every meter where it has a seat.

    Whoever sets a password can sign in with it, and then sees what the account may see.
    """
    if after.disabled != before.disabled:
        events = [*events, Event.ACCOUNT_DISABLED if after.disabled else Event.ACCOUNT_ENABLED]
    # In one order for everybody, so that two admins do not wait for each other's locks.
    for meter in sorted({seat.meter for seat in books.seats.of(after.id)}):
        if events:
            books.lock(meter)
            books.audit.append_all(meter, [(now, event, {"user": after.id}) for event in events])


def check_password(
    site: Site,
    name: str,
    password: str,
    address: str = "",
    *,
    entering: Callable[[Books, User], object] = lambda books, user: None,
) -> User:
    """Return the user who has this name and password.

    Wrong ones lock the name, as `guesses` says. What `entering` does is part of the transaction
    that finds the password right: once it is changed, nothing more comes of the old one.

    Raises:
        Unauthenticated: something is wrong; which of name, password or lock is not said.
    """
    now = site.clock()
    with site.writing() as books:
        known = books.users.named(name)
        secret = books.users.credentials(known.id if known else "")
        possible = secret.password is not None and not locked_everywhere(secret, now)
        key = key_of(name, address, secret.password) if possible else idle_key(name, address)
        counts = begin_guess(books, key, now) and possible
    # Between two transactions, so that nobody waits for the hash. The password or a lock may have
    # been changed meanwhile, so both are looked at again below.
    hashed = secret.password
    right = verify_password(hashed, password)
    # An unknown name takes as long as a wrong password: it is hashed and written all the same.
    with site.writing() as books:
        known = books.users.named(name)
        secret = books.users.credentials(known.id if known else "")
        right = right and secret.password == hashed
        unlocked = counts and not locked_everywhere(secret, now)
        if unlocked:
            books.users.update(counted_everywhere(secret, now, right=right))
        welcome = known is not None and not known.disabled and right and unlocked
        if known is not None and welcome:
            books.guesses.forget(key)
            entering(books, known)
    if known is None or not welcome:
        raise Unauthenticated(
            f"name or password is wrong: check both; after {FAILURES} wrong ones in a row, "
            f"even the right one is refused for {LOCK.seconds} seconds or longer"
        )
    return known


def hash_password(password: str) -> str:
    """Return the hash of a password (argon2)."""
    from argon2 import PasswordHasher

    if not SHORTEST_PASSWORD <= len(password) <= LONGEST_PASSWORD:
        allowed = f"{SHORTEST_PASSWORD} to {LONGEST_PASSWORD} characters"
        raise invalid("password", "(hidden)", allowed)
    with _HASHING:
        return PasswordHasher().hash(password)


def verify_password(hashed: str | None, password: str) -> bool:
    """Whether a password has this hash; without a hash it takes as long, and the answer is no."""
    from argon2 import PasswordHasher
    from argon2.exceptions import InvalidHashError, VerificationError

    hasher = PasswordHasher()
    try:
        with _HASHING:
            # Cut to what can be one: hashing megabytes would take as long as their sender likes.
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
