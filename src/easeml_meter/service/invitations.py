"""Invitations: the secret of one lets somebody choose the password of an account, once."""

from __future__ import annotations

from easeml_meter.core.people import Token, User
from easeml_meter.errors import Unauthenticated
from easeml_meter.service import tokens, users
from easeml_meter.service.actor import Actor, Permission, needs
from easeml_meter.service.place import Site
from easeml_meter.service.tokens import INVITATION
from easeml_meter.storage.books import Books

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
        made = tokens.issue(site, user, "invitation", days=DAYS, kind=INVITATION, books=books)
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
    holder = tokens.holder_of(site, secret)
    if holder is None or holder[0].kind != INVITATION:
        raise Unauthenticated("the invitation is not known: ask an admin for another one")
    token, user, _ = holder
    if token.revoked_at is not None or token.expires_at <= site.now() or user.disabled:
        raise Unauthenticated("the invitation was used or has expired: ask an admin for another")
    made: list[tuple[Token, str]] = []

    def enter(books: Books, user: User) -> None:
        made.append(tokens.issue(site, user.id, purpose, days=days, kind="session", books=books))

    # Looked at once more under the lock, where it is used up: two people may redeem it at once. The
    # session begins there, too, so that the next change of the password ends it.
    users.join(actor, site, user.id, token.id, password, entering=enter)
    return made[0]
