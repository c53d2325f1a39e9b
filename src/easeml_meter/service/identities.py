"""People with an account at an OpenID provider: their accounts here, and seats by their groups.

A person is known by issuer and subject, which the provider gives to nobody else. Names and
addresses change hands, so by these nobody gets an account that is there already.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from easeml_meter.checks import MAX_NAME
from easeml_meter.core.model import MeterRecord
from easeml_meter.core.people import GroupSeat, Person, ProviderIdentity, Role, Token, User
from easeml_meter.errors import InvalidInput, MeterError, Unauthenticated
from easeml_meter.service import seats, tokens, users
from easeml_meter.service.actor import SYSTEM, Actor, Permission, needs
from easeml_meter.service.place import Site
from easeml_meter.service.users import EMAIL

_LOG = logging.getLogger(__name__)


@needs(Permission.SIGN_IN)
def sign_in(
    _actor: Actor,
    site: Site,
    person: Person,
    rules: Sequence[GroupSeat],
    *,
    days: float,
    purpose: str,
) -> tuple[Token, str]:
    """Sign a person in; return the token of a session, and its secret.

    Their account is opened the first time. Of the seats that the rules are about, they have
    afterwards those of their groups; other seats stay as an admin gave them.

    Raises:
        Unauthenticated: the account is disabled or no longer the person's, or another account has
            the name.
    """
    with site.reading() as books:
        user = books.users.known_as(person.issuer, person.subject)
    if user is None:
        user = _opened(site, person)
    _check_enabled(user)
    _follow(site, user, person.groups, rules)
    with site.writing() as books:
        # Once more under the lock: disabling or disconnecting an account ends the sessions that
        # there are then.
        _check_enabled(books.users.get(user.id))
        known = books.users.known_as(person.issuer, person.subject)
        if known is None or known.id != user.id:
            raise Unauthenticated("the account was disconnected meanwhile: ask an admin")
        return tokens.issue(site, user.id, purpose, days=days, kind="session", books=books)


@needs(Permission.CHANGE_ACCOUNT)
def connect(actor: Actor, site: Site, person: Person) -> None:
    """Let a person sign in to the actor's own account from now on.

    Raises:
        Unauthenticated: the session that began this has ended, or the account is disabled.
        MeterError: they have another account, or somebody else signs in to this one.
    """
    with site.writing() as books:
        # Minutes may have passed at the provider. Whoever had a session that was revoked since, as
        # with a stolen one, must not get a way in that no new password closes.
        users.check_still_valid(books, actor.token, site.now())
        _check_enabled(books.users.get(actor.user))
        known = books.users.known_as(person.issuer, person.subject)
        if known is not None and known.id != actor.user:
            raise MeterError("the provider's account belongs to another account here: ask an admin")
        before = books.users.identity(actor.user)
        wanted = ProviderIdentity(actor.user, person.issuer, person.subject)
        if before.subject is not None and before != wanted:
            raise MeterError("this account belongs to another one at the provider: ask an admin")
        books.users.update(wanted)


@needs(Permission.MANAGE)
def disconnect(_actor: Actor, site: Site, user: str) -> None:
    """Let nobody sign in to an account by the provider, until its owner connects it again.

    It revokes the account's tokens: whoever was connected may have made some.

    Raises:
        NotFound: no account has this id.
        MeterError: nobody is connected to it.
    """
    with site.writing() as books:
        name = books.users.get(user).name
        if books.users.identity(user).subject is None:
            raise MeterError(f"user {name!r}: nobody signs in to it by a provider: check the name")
        books.users.update(ProviderIdentity(user, None, None))
        books.tokens.revoke(site.now(), user=user)


def _check_enabled(user: User) -> None:
    if user.disabled:
        raise Unauthenticated("the account is disabled: ask an admin")


def _opened(site: Site, person: Person) -> User:
    email = person.email
    if email is not None and not (len(email) <= MAX_NAME and re.fullmatch(EMAIL, email)):
        email = None
    known_as = (person.issuer, person.subject)
    try:
        return users.add_user(SYSTEM, site, person.name, email=email, known_as=known_as)
    except InvalidInput as error:
        raise Unauthenticated(f"the provider's name for you cannot be used here: {error}") from None
    except MeterError:
        raise Unauthenticated(
            f"an account {person.name!r} is here already: sign in to it with its password, and "
            'connect it at "Your account"'
        ) from None


def _follow(site: Site, user: User, groups: Iterable[str], rules: Sequence[GroupSeat]) -> None:
    """Give somebody the seats of their groups, and take those of other groups.

    What cannot be is left out and logged: nobody has two roles at a meter, and no labeler becomes
    a developer before the labels are released, whatever a group says.
    """
    wanted = {rule for rule in rules if rule.group in groups}
    # Without a rule about admins, the provider has no say in who is one.
    if any(rule.role is Role.ADMIN for rule in rules):
        admin = any(rule.role is Role.ADMIN for rule in wanted)
        if user.admin != admin:
            _tried(partial(users.change_user, SYSTEM, site, user.id, admin=admin), user, "site")
    with site.reading() as books:
        known, held = books.meters.all(), books.seats.of(user.id)
    ruled = {seat for rule in rules if (seat := _seat(rule, known))}
    due = {seat for rule in wanted if (seat := _seat(rule, known))}
    has = {(seat.meter, seat.role, seat.tenant) for seat in held}
    # Seats are taken before others are given: nobody has two roles at a meter.
    for meter, role, tenant in sorted((ruled & has) - due):
        place = (SYSTEM, site.space(meter), user.id, role, tenant)
        _tried(partial(seats.remove_seat, *place), user, meter)
    for meter, role, tenant in sorted(due - has):
        place = (SYSTEM, site.space(meter), user.id, role, tenant)
        _tried(partial(seats.add_seat, *place), user, meter)


def _tried(act: Callable[[], object], user: User, place: str) -> None:
    try:
        act()
    except MeterError as error:
        fields = {"user": user.id, "at": place, "reason": str(error)}
        _LOG.warning("a group's seat was not given or taken", extra={"fields": fields})


def _seat(rule: GroupSeat, known: Sequence[MeterRecord]) -> tuple[str, Role, int] | None:
    """Return the meter, role and team that a rule is about; None: an admin's, or no such meter."""
    if rule.role is Role.ADMIN:
        return None
    found = [meter.id for meter in known if rule.meter in (meter.id, meter.name)]
    if len(found) != 1:
        _LOG.warning("oidc_seat names no meter, or several", extra={"fields": {"at": rule.meter}})
        return None
    tenant = 0 if rule.role is Role.LABELER else rule.tenant or 1
    return found[0], rule.role, tenant
