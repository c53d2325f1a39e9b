"""Tokens: how callers are recognized, and what each token is limited to.

The secret of an invitation lets somebody choose the password of an account, once.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import timedelta

from easeml_meter.checks import ID, check_name
from easeml_meter.core.model import stamp
from easeml_meter.core.people import METRICS, SEATED, Role, Seat, Token, User
from easeml_meter.errors import Denied, MeterError, NotFound, Unauthenticated, invalid
from easeml_meter.service import users
from easeml_meter.service.actor import Actor, Permission, needs
from easeml_meter.service.place import Site
from easeml_meter.storage.books import Books
from easeml_meter.storage.books.users import Holder

TOKEN_PREFIX = "emt_"  # noqa: S105 - what a token looks like, not one

FIRST_ADMIN = "admin"

INVITATION = "invitation"
"""The kind of a token that is good for choosing a password, and for nothing else."""

_DAY = timedelta(days=1)

SCOPE = rf"^({Role.ADMIN}|{METRICS}|({'|'.join(SEATED)})(:{ID})?)$"
"""What a token can be limited to: a role, of all meters or of one (an admin has them all), or
reading the metrics."""

LONGEST_DAYS = 3660

MOST_TOKENS = 1_000
"""Tokens of a user that are in use; as many of those that are not are remembered."""

FASTEST = 1_000_000
"""Answers in 24 hours that a pace may allow."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks, as far as a valid token says."""

    user: User
    token: Token
    members: tuple[Seat, ...]

    @property
    def admin(self) -> bool:
        """Whether the caller manages the site, and the token may be used for that."""
        return self.user.admin and self._in_scope(Role.ADMIN, None)

    def _in_scope(self, role: Role, meter: str | None) -> bool:
        scopes = self.token.scopes
        return not scopes or role in scopes or (meter is not None and f"{role}:{meter}" in scopes)

    def seats(self, meter: str) -> list[Seat]:
        """Return the seats at one meter that the token may be used for."""
        found = [
            seat
            for seat in self.members
            if seat.meter == meter and self._in_scope(seat.role, meter)
        ]
        if self.admin:
            found.append(Seat(self.user.id, meter, Role.ADMIN, 0, ""))
        return found

    def at(self, meter: str, tenant: int | None = None) -> Actor:
        """Return the caller as an actor at one meter, for the tenant asked for, if any.

        Raises:
            NotFound: no seat there, so the meter looks like one that does not exist.
        """
        seats = tuple((seat.role, seat.tenant) for seat in self.seats(meter))
        if not seats:
            raise NotFound(f"meter {meter[:32]!r}: none of that name that you have a seat at")
        pace = self.token.pace
        return Actor(seats, tenant, self.user.id, "" if pace is None else self.token.id, pace)

    def at_site(self) -> Actor:
        """Return the caller as an actor for what belongs to no meter."""
        roles = [Role.ADMIN] if self.admin else []
        if self.user.admin and METRICS in self.token.scopes:
            roles.append(Role.METRICS)
        if set(self.token.scopes) != {METRICS}:
            roles.append(Role.LIMITED if self.token.limited else Role.USER)
        # A token for metrics whose owner is no admin any more is good for nothing.
        seats = tuple((role, 0) for role in roles or [Role.ANYONE])
        return Actor(seats, user=self.user.id, token=self.token.id)


@needs(Permission.SIGN_IN)
def recognize(_actor: Actor, site: Site, secret: str) -> Caller:
    """Return the caller who holds a token.

    Raises:
        Unauthenticated: the token is unknown, revoked or expired, or its account is disabled.
    """
    # Nothing is remembered between requests: a token that was revoked, or a seat that was taken,
    # here or by another process, counts at once. A token is found by its digest, so the time this
    # takes says nothing about other tokens. A single query needs no snapshot: without a
    # transaction, it is one trip to the database.
    with site.store.asking() as books:
        holder = books.tokens.holder(_digest(secret))
    return _caller(site, holder)


def _caller(site: Site, holder: Holder | None) -> Caller:
    if holder is None:
        raise Unauthenticated("the token is not known: log in again")
    token, user, seats = holder
    # An invitation sets a password, once. Until then it must not act as its user.
    if token.kind == INVITATION:
        raise Unauthenticated("this is an invitation: open its link in a browser")
    if token.revoked_at is not None:
        raise Unauthenticated("the token was revoked: log in again")
    if token.expires_at <= site.now():
        raise Unauthenticated("the token has expired: log in again")
    if user.disabled:
        raise Unauthenticated("the account is disabled: ask an admin")
    return Caller(user, token, seats)


@needs(Permission.SIGN_IN)
def log_in(
    _actor: Actor,
    site: Site,
    name: str,
    password: str,
    *,
    days: float,
    purpose: str,
    address: str = "",
) -> tuple[Token, str]:
    """Exchange a name and a password for the token of a session, and its secret.

    Raises:
        Unauthenticated: name or password is wrong, or the account is locked or disabled.
    """
    made: list[tuple[Token, str]] = []

    def enter(books: Books, user: User) -> None:
        made.append(issue(site, user.id, purpose, days=days, kind="session", books=books))

    users.check_password(site, name, password, address, entering=enter)
    return made[0]


@needs(Permission.SIGN_IN)
def log_in_by_token(
    actor: Actor, site: Site, name: str, secret: str, *, days: float, purpose: str
) -> tuple[Token, str]:
    """Exchange a name and a token without limits for the token of a session, and its secret.

    Raises:
        Unauthenticated: the token is not valid, is limited, or belongs to somebody else.
    """
    caller = recognize(actor, site, secret)
    # A session has no limits, so a token that has some must not become one.
    if caller.token.limited or caller.user.name != name:
        raise Unauthenticated("the token is limited, or another user's: give your password")
    with site.writing() as books:
        users.check_still_valid(books, caller.token.id, site.now())
        return issue(site, caller.user.id, purpose, days=days, kind="session", books=books)


@needs(Permission.MAKE_TOKENS)
def make_token(
    actor: Actor,
    site: Site,
    name: str,
    *,
    scopes: Iterable[str] = (),
    days: float = 90,
    pace: int | None = None,
) -> tuple[Token, str]:
    """Make a token of one's own account, and its secret, of which only the digest is kept.

    `pace`: the answers that it gets of a meter in any 24 hours; None: as many as there are.

    Raises:
        InvalidInput: no name, scope, number of days or pace that a token can have.
        Unauthenticated: the token that the actor uses was revoked meanwhile.
        Denied: it would read the metrics, and its owner is no admin.
        MeterError: the actor has `MOST_TOKENS` already.
    """
    limits = tuple(scopes)
    with site.writing() as books:
        if actor.token:
            users.check_still_valid(books, actor.token, site.now())
        live = (each for each in books.tokens.of(actor.user) if each.usable(site.now()))
        if sum(each.kind == "api" for each in live) >= MOST_TOKENS:
            raise MeterError(f"{MOST_TOKENS} tokens of yours are in use: revoke one first")
        if METRICS in limits and not books.users.get(actor.user).admin:
            raise Denied(f"only an admin may make a token with the scope {METRICS}")
        return issue(site, actor.user, name, scopes=limits, days=days, pace=pace, books=books)


def issue(
    site: Site,
    user: str,
    name: str,
    *,
    scopes: tuple[str, ...] = (),
    days: float,
    kind: str = "api",
    pace: int | None = None,
    books: Books | None = None,
) -> tuple[Token, str]:
    """Make a token of an account, and its secret, of which only the digest is kept.

    It is entered in a transaction of its own, unless `books` is one.
    """
    check_token(name, scopes, days, pace)
    secret = TOKEN_PREFIX + secrets.token_urlsafe(32)
    now = site.clock()
    token = Token(
        id=secrets.token_hex(16),
        user=user,
        name=name,
        kind=kind,
        scopes=scopes,
        created_at=stamp(now),
        expires_at=stamp(now + days * _DAY),
        revoked_at=None,
        pace=pace,
    )
    with site.writing() if books is None else nullcontext(books) as entering:
        entering.tokens.forget(user, token.created_at, keep=MOST_TOKENS)
        entering.tokens.add(token, _digest(secret))
    return token, secret


def check_token(name: str, scopes: Iterable[str], days: float, pace: int | None = None) -> None:
    """Refuse what no token can be made of."""
    check_name("name", name)
    if not 0 < days <= LONGEST_DAYS:
        raise invalid("days", days, f"a number above 0, at most {LONGEST_DAYS}")
    if pace is not None and not 1 <= pace <= FASTEST:
        raise invalid("pace", pace, f"answers in 24 hours: a whole number from 1 to {FASTEST:,}")
    for scope in scopes:
        if not re.fullmatch(SCOPE, scope):
            roles, allowed = ", ".join(SEATED), f"{Role.ADMIN}, {METRICS}, or one of"
            raise invalid("scope", scope[:80], f"{allowed} {roles} as ROLE or ROLE:METER")


@needs(Permission.SEE_ACCOUNT)
def own_seats(_actor: Actor, caller: Caller) -> list[Seat]:
    """Return the caller's seats: with a token that has scopes, those that it may be used for."""
    return [seat for seat in caller.members if seat in caller.seats(seat.meter)]


@needs(Permission.REVOKE_TOKENS)
def list_tokens(actor: Actor, site: Site) -> list[Token]:
    """Return one's own tokens, the newest first."""
    with site.reading() as books:
        return books.tokens.of(actor.user)


@needs(Permission.MANAGE, Permission.REVOKE_TOKENS)
def revoke_token(actor: Actor, site: Site, identifier: str) -> None:
    """Revoke one of one's own tokens; admins may revoke anyone's.

    Raises:
        NotFound: there is no such token, or it is somebody else's.
    """
    _revoke(site, identifier, owner=None if actor.may(Permission.MANAGE) else actor.user)


@needs(Permission.REVOKE_TOKENS)
def revoke_own_token(actor: Actor, site: Site, identifier: str) -> None:
    """Revoke one of one's own tokens.

    Raises:
        NotFound: there is no such token, or it is somebody else's.
    """
    _revoke(site, identifier, owner=actor.user)


@needs(Permission.LOG_OUT)
def log_out(_actor: Actor, site: Site, caller: Caller) -> None:
    """Revoke the token that the caller uses, and no other."""
    with site.writing() as books:
        books.tokens.revoke(site.now(), id=caller.token.id)


def _revoke(site: Site, identifier: str, *, owner: str | None) -> None:
    with site.writing() as books:
        token = books.tokens.find(identifier)
        if token is None or owner not in (None, token.user):
            raise NotFound(f"token {identifier[:32]!r}: none with that id")
        books.tokens.revoke(site.now(), id=identifier)


@needs(Permission.MANAGE)
def admin_can_sign_in(_actor: Actor, site: Site) -> bool:
    """Whether some admin has a password, or a token that is still valid and may manage the site."""
    now = site.now()
    with site.reading() as books:
        return any(
            books.users.credentials(admin.id).password is not None
            or any(
                token.usable(now) and token.kind != INVITATION and Caller(admin, token, ()).admin
                for token in books.tokens.of(admin.id)
            )
            for admin in books.users.admins()
        )


@needs(Permission.MANAGE)
def make_admin_token(actor: Actor, site: Site) -> tuple[str, str]:
    """Return the secrets of a new token and of an invitation for a day, of the user "admin".

    The account is opened if there is none, and enabled and made an admin's if it is not.
    """
    with site.reading() as books:
        found = books.users.named(FIRST_ADMIN)
    if found is None:
        admin = users.add_user(actor, site, FIRST_ADMIN, admin=True)
    else:
        admin = users.change_user(actor, site, found.id, admin=True, disabled=False)
    with site.writing() as books:
        books.tokens.revoke(site.now(), user=admin.id, kind=INVITATION)
        name = "from meter serve"
        _, secret = issue(site, admin.id, name, days=1, books=books)
        _, invitation = issue(site, admin.id, name, days=1, kind=INVITATION, books=books)
    return secret, invitation


def _digest(secret: str) -> str:
    # Neither salted nor slow: nobody guesses 256 random bits, and tokens are looked up by it.
    return hashlib.sha256(secret.encode()).hexdigest()


DAYS = 3.0
"""How long an invitation is good for."""


@needs(Permission.MANAGE)
def invite(_actor: Actor, site: Site, user: str) -> str:
    """Return the secret of a new invitation to an account; earlier ones no longer count.

    Raises:
        NotFound: no account has this id.
    """
    with site.writing() as books:
        books.users.get(user)
        # In one transaction: of two admins who invite at once, one ends the other's invitation.
        books.tokens.revoke(site.now(), user=user, kind=INVITATION)
        made = issue(site, user, "invitation", days=DAYS, kind=INVITATION, books=books)
    return made[1]


@needs(Permission.SIGN_IN)
def redeem(
    actor: Actor, site: Site, secret: str, password: str, *, days: float, purpose: str
) -> tuple[Token, str]:
    """Give the account of an invitation its first password; return the token of a session.

    That ends the invitation. Like every new password it revokes all tokens of the account. It is
    entered into the chain of every meter where the account has a seat, because the admin who
    invited knew the secret, too.

    Raises:
        Unauthenticated: there is no such invitation, or it is used, revoked or expired.
        InvalidInput: the password is too short or too long.
    """
    with site.reading() as books:
        holder = books.tokens.holder(_digest(secret))
    if holder is None or holder[0].kind != INVITATION:
        raise Unauthenticated("the invitation is not known: ask an admin for another one")
    token, user, _ = holder
    if not token.usable(site.now()) or user.disabled:
        raise Unauthenticated("the invitation was used or has expired: ask an admin for another")
    made: list[tuple[Token, str]] = []

    def enter(books: Books, user: User) -> None:
        made.append(issue(site, user.id, purpose, days=days, kind="session", books=books))

    # Looked at once more under the lock, where it is used up: two people may redeem it at once. The
    # session begins there, too, so that the next change of the password ends it.
    users.join(actor, site, user.id, token.id, password, entering=enter)
    return made[0]
