"""An invitation is good once, for a while, and for a password alone."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.service.helpers import Clock, small_spec

from easeml_meter.core.model import Event
from easeml_meter.core.people import Role, User
from easeml_meter.errors import Denied, InvalidInput, NotFound, Unauthenticated
from easeml_meter.service import invitations, tokens, users
from easeml_meter.service.actor import ANYONE, SYSTEM
from easeml_meter.service.invitations import DAYS, invite
from easeml_meter.service.meters import create_meter
from easeml_meter.service.place import Site
from easeml_meter.service.seats import add_seat
from easeml_meter.service.users import add_user, change_user, check_password

PASSWORD = "a secret of some length"  # noqa: S105 - of a made-up account


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    database = f"sqlite:///{tmp_path / 'meter.db'}"
    with closing(Site.open(database, tmp_path / "files", tmp_path / "key", clock=Clock())) as site:
        add_user(SYSTEM, site, "ada", admin=True)
        yield site


@pytest.fixture
def anna(site: Site) -> User:
    return add_user(SYSTEM, site, "anna")


def redeem(site: Site, secret: str, password: str) -> str:
    """Give the secret of the session."""
    return invitations.redeem(ANYONE, site, secret, password, days=1, purpose="browser")[1]


def test_it_is_good_once(site: Site, anna: User) -> None:
    secret = invite(SYSTEM, site, anna.id)
    session = redeem(site, secret, PASSWORD)
    assert tokens.recognize(ANYONE, site, session).user == anna
    assert check_password(site, "anna", PASSWORD) == anna
    with pytest.raises(Unauthenticated, match="was used"):
        redeem(site, secret, "another secret, too")
    check_password(site, "anna", PASSWORD)


def test_a_second_one_ends_the_first(site: Site, anna: User) -> None:
    first, second = (invite(SYSTEM, site, anna.id) for _ in range(2))
    with pytest.raises(Unauthenticated):
        redeem(site, first, PASSWORD)
    redeem(site, second, PASSWORD)


@pytest.mark.parametrize("by_server", [False, True])
def test_of_two_made_at_once_one_is_good(
    site: Site, monkeypatch: pytest.MonkeyPatch, by_server: bool
) -> None:
    """Both were, if the second was made after the first had ended those before it."""
    admin = add_user(SYSTEM, site, tokens.FIRST_ADMIN, admin=True)
    issue = tokens.issue
    others: list[threading.Thread] = []

    def make() -> None:
        if by_server:
            tokens.make_admin_token(SYSTEM, site)
        else:
            invite(SYSTEM, site, admin.id)

    def slow(*given: Any, **options: Any) -> Any:
        if not others:
            others.append(threading.Thread(target=make))
            others[0].start()
            others[0].join(0.5)  # it waits for this one, or is through by now
        return issue(*given, **options)

    monkeypatch.setattr(tokens, "issue", slow)
    make()
    others[0].join()
    with site.reading() as books:
        made = [each for each in books.tokens.of(admin.id) if each.kind == tokens.INVITATION]
    assert [each.revoked_at is None for each in made].count(True) == 1
    assert len(made) == 2


def test_it_expires(site: Site, anna: User) -> None:
    secret = invite(SYSTEM, site, anna.id)
    assert isinstance(site.clock, Clock)
    site.clock.moment += timedelta(days=DAYS)
    with pytest.raises(Unauthenticated, match="expired"):
        redeem(site, secret, PASSWORD)


def test_it_is_no_token_and_a_token_is_none(site: Site, anna: User) -> None:
    secret = invite(SYSTEM, site, anna.id)
    with pytest.raises(Unauthenticated, match="invitation"):
        tokens.recognize(ANYONE, site, secret)
    _, token = tokens.issue(site, anna.id, "script", days=1)
    for other in (token, "emt_nobody", ""):
        with pytest.raises(Unauthenticated, match="not known"):
            redeem(site, other, PASSWORD)


def test_a_disabled_account_is_not_joined(site: Site, anna: User) -> None:
    secret = invite(SYSTEM, site, anna.id)
    change_user(SYSTEM, site, anna.id, disabled=True)
    with pytest.raises(Unauthenticated):
        redeem(site, secret, PASSWORD)


def test_a_short_password_leaves_it_good(site: Site, anna: User) -> None:
    secret = invite(SYSTEM, site, anna.id)
    with pytest.raises(InvalidInput):
        redeem(site, secret, "short")
    redeem(site, secret, PASSWORD)


def test_only_admins_invite_and_only_users(site: Site, anna: User) -> None:
    with pytest.raises(Denied):
        invite(ANYONE, site, anna.id)
    with pytest.raises(NotFound):
        invite(SYSTEM, site, "0" * 32)


def test_of_two_who_redeem_it_at_the_same_time_one_joins(site: Site, anna: User) -> None:
    secret = invite(SYSTEM, site, anna.id)
    ready, outcomes = threading.Barrier(2), list[str]()

    def run(password: str) -> None:
        ready.wait()
        try:
            redeem(site, secret, password)
            outcomes.append(password)
        except Unauthenticated:
            outcomes.append("")

    words = [f"{PASSWORD} {number}" for number in range(2)]
    threads = [threading.Thread(target=run, args=(word,)) for word in words]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (joined,) = filter(None, outcomes)
    check_password(site, "anna", joined)


def test_a_password_that_is_changed_at_once_ends_the_session_that_it_began(
    site: Site, anna: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The session begins in the transaction that sets the password, or it would begin later."""
    secret, join = invite(SYSTEM, site, anna.id), users.join

    def joined(*given: Any, **options: Any) -> User:
        user = join(*given, **options)
        change_user(SYSTEM, site, anna.id, password="another secret, too")  # noqa: S106
        return user

    monkeypatch.setattr(users, "join", joined)
    session = redeem(site, secret, PASSWORD)
    with pytest.raises(Unauthenticated, match="revoked"):
        tokens.recognize(ANYONE, site, session)


def test_the_chain_of_a_meter_says_that_a_password_was_chosen(site: Site, anna: User) -> None:
    meter = create_meter(SYSTEM, site, small_spec(), "meter").id
    add_seat(SYSTEM, site.space(meter), anna.id, Role.LABELER)
    redeem(site, invite(SYSTEM, site, anna.id), PASSWORD)
    with site.reading() as books:
        events = [link.event for link in books.audit.all(meter)]
    assert events[-1] == Event.INVITATION_REDEEMED
