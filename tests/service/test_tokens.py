"""Who holds a token, and what they may do: every change counts from the next request on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from easeml_meter.core.model import Event
from easeml_meter.core.people import Role, User
from easeml_meter.errors import Denied, InvalidInput, MeterError, NotFound, Unauthenticated
from easeml_meter.service import seats, tokens, users
from easeml_meter.service.actor import ANYONE, SYSTEM
from easeml_meter.service.meters import create_meter
from easeml_meter.service.place import Site
from easeml_meter.service.tokens import DAYS, Caller, invite
from easeml_meter.service.users import add_user, change_user, check_password
from easeml_meter.storage import schema

from .helpers import Clock, StoppedClock, actor_of, small_spec


@dataclass
class Door:
    """A site with an admin, anna who has a seat at a meter and a token, and nobody's secrets."""

    site: Site
    meter: str
    admin: str
    anna: str
    token: str
    secret: str

    def caller(self) -> Caller:
        return tokens.recognize(ANYONE, self.site, self.secret)


@pytest.fixture
def clock() -> StoppedClock:
    return StoppedClock()


@pytest.fixture
def opened(tmp_path: Path, clock: StoppedClock) -> Iterator[Callable[[], Site]]:
    """Open the one site again and again, as each process does for itself."""
    made: list[Site] = []

    def make() -> Site:
        address = f"sqlite:///{tmp_path / 'meter.db'}"
        made.append(Site.open(address, tmp_path / "files", tmp_path / "server.key", clock))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def door(opened: Callable[[], Site]) -> Door:
    site = opened()
    admin = users.add_user(SYSTEM, site, "admin", admin=True)
    anna = users.add_user(SYSTEM, site, "anna")
    meter = create_meter(SYSTEM, site, small_spec(tenants=(2, 2)), "meter").id
    seats.add_seat(SYSTEM, site.space(meter), anna.id, Role.DEVELOPER, 1)
    token, secret = tokens.make_token(actor_of(anna.id), site, "test", days=1)
    return Door(site, meter, admin.id, anna.id, token.id, secret)


def test_a_token_names_its_user_and_their_seats(door: Door) -> None:
    caller = door.caller()
    assert (caller.user.name, caller.token.id) == ("anna", door.token)
    assert [(seat.role, seat.tenant) for seat in caller.members] == [(Role.DEVELOPER, 1)]


def test_each_token_is_one_of_its_own(door: Door) -> None:
    limited = tokens.make_token(actor_of(door.anna), door.site, "limited", scopes=["labeler"])[1]
    other = tokens.make_token(actor_of(door.admin), door.site, "other")[1]
    assert tokens.recognize(ANYONE, door.site, limited).token.scopes == ("labeler",)
    assert tokens.recognize(ANYONE, door.site, other).admin
    assert door.caller().token.scopes == ()


def test_each_token_is_judged_for_itself(door: Door) -> None:
    def judged(secret: str) -> tuple[str, int] | str:
        try:
            found = tokens.recognize(ANYONE, door.site, secret)
        except Unauthenticated as error:
            return str(error)
        return found.user.name, len(found.members)

    other = tokens.make_token(actor_of(door.admin), door.site, "other")[1]
    revoked, secret = tokens.make_token(actor_of(door.anna), door.site, "revoked")
    tokens.revoke_token(SYSTEM, door.site, revoked.id)
    given = [secret, door.secret, "emt_nobody", other, door.secret]
    assert [judged(each) for each in given] == [
        "the token was revoked: log in again",
        ("anna", 1),
        "the token is not known: log in again",
        ("admin", 0),
        ("anna", 1),
    ]


def test_tokens_that_are_of_no_use_any_more_are_forgotten(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Made and revoked again and again, they filled the database."""
    monkeypatch.setattr(tokens, "MOST_TOKENS", 3)
    for name in "abcdef":
        made = tokens.make_token(actor_of(door.anna), door.site, name)[0]
        tokens.revoke_token(SYSTEM, door.site, made.id)
    found = [each.name for each in tokens.list_tokens(actor_of(door.anna), door.site)]
    assert (len(found), "test" in found) == (5, True)


# --- Changes ---


def revoke(site: Site, door: Door) -> None:
    tokens.revoke_token(SYSTEM, site, door.token)


def disable(site: Site, door: Door) -> None:
    users.change_user(SYSTEM, site, door.anna, disabled=True)


def new_password(site: Site, door: Door) -> None:
    users.change_user(SYSTEM, site, door.anna, password="long enough")  # noqa: S106


def make_admin(site: Site, door: Door) -> None:
    users.change_user(SYSTEM, site, door.anna, admin=True)


def add_seat(site: Site, door: Door) -> None:
    other = create_meter(SYSTEM, site, small_spec(tenants=(2, 2)), "other").id
    seats.add_seat(SYSTEM, site.space(other), door.anna, Role.DEVELOPER, 2)


def remove_seat(site: Site, door: Door) -> None:
    seats.remove_seat(SYSTEM, site.space(door.meter), door.anna, Role.DEVELOPER, 1)


def shown(door: Door) -> tuple[bool, list[int]] | str:
    """Give what a caller may do, or why it is nobody."""
    try:
        caller = door.caller()
    except Unauthenticated as error:
        return str(error)
    return caller.admin, [seat.tenant for seat in caller.members]


BEFORE = (False, [1])
CHANGES: dict[Callable[[Site, Door], None], tuple[bool, list[int]] | str] = {
    revoke: "the token was revoked: log in again",
    disable: "the token was revoked: log in again",
    new_password: "the token was revoked: log in again",
    make_admin: (True, [1]),
    add_seat: (False, [1, 2]),
    remove_seat: (False, []),
}
each_change = pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)


@pytest.mark.parametrize("elsewhere", [False, True])
@each_change
def test_a_change_is_seen_at_once_whichever_process_made_it(
    door: Door,
    opened: Callable[[], Site],
    change: Callable[[Site, Door], None],
    elsewhere: bool,
) -> None:
    assert shown(door) == BEFORE
    change(opened() if elsewhere else door.site, door)
    assert shown(door) == CHANGES[change]


def test_an_admin_no_more(door: Door) -> None:
    make_admin(door.site, door)
    assert shown(door) == (True, [1])
    users.change_user(SYSTEM, door.site, door.anna, admin=False)
    assert shown(door) == BEFORE


def test_an_account_disabled_by_hand_is_told_from_a_revoked_token(door: Door) -> None:
    """The token is revoked with its account; where that is undone, the account still counts."""
    assert shown(door) == BEFORE
    with door.site.writing() as books:
        mine = schema.users.c.id == door.anna
        books.connection.execute(schema.users.update().where(mine), {"disabled": True})
    assert shown(door) == "the account is disabled: ask an admin"


def test_a_change_that_is_refused_changes_nothing(door: Door) -> None:
    assert shown(door) == BEFORE
    with pytest.raises(MeterError, match="the last admin"):
        users.change_user(SYSTEM, door.site, door.admin, admin=False)
    assert shown(door) == BEFORE


def test_a_token_that_expires_is_refused_at_once(door: Door, clock: StoppedClock) -> None:
    clock.moment += timedelta(days=1, microseconds=-1)
    assert shown(door) == BEFORE
    clock.moment += timedelta(microseconds=1)
    assert shown(door) == "the token has expired: log in again"


def test_an_unknown_token_is_nobodys(door: Door) -> None:
    with pytest.raises(Unauthenticated, match="not known"):
        tokens.recognize(ANYONE, door.site, "emt_nobody")


def test_the_secret_itself_is_not_kept(door: Door) -> None:
    assert door.secret not in repr(door.caller())
    assert door.secret not in repr(door.site)


def test_a_password_that_is_changed_meanwhile_opens_no_session(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever changes a password ends what others began with the old one."""
    old, new = "an old long secret", "a new long secret"
    users.change_user(SYSTEM, door.site, door.anna, password=old)
    verify = users.verify_password

    def slowly(hashed: str | None, password: str) -> bool:
        monkeypatch.setattr(users, "verify_password", verify)
        users.change_user(SYSTEM, door.site, door.anna, password=new)
        return verify(hashed, password)

    monkeypatch.setattr(users, "verify_password", slowly)
    with pytest.raises(Unauthenticated):
        tokens.log_in(ANYONE, door.site, "anna", old, days=1, purpose="browser")
    token, _ = tokens.log_in(ANYONE, door.site, "anna", new, days=1, purpose="browser")
    assert token.user == door.anna


@pytest.mark.parametrize("change", [new_password, disable, revoke])
def test_a_token_that_is_revoked_meanwhile_makes_no_other(
    door: Door, change: Callable[[Site, Door], None]
) -> None:
    """Its holder was recognized before that."""
    caller = door.caller()
    change(door.site, door)
    with pytest.raises(Unauthenticated, match="the token was revoked: log in again"):
        tokens.make_token(caller.at_site(), door.site, "later")
    assert [token.name for token in tokens.list_tokens(actor_of(door.anna), door.site)] == ["test"]


def test_a_token_that_is_revoked_meanwhile_opens_no_session(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    recognize = tokens.recognize

    def recognized(*given: Any) -> Caller:
        caller = recognize(*given)
        revoke(door.site, door)
        return caller

    monkeypatch.setattr(tokens, "recognize", recognized)
    with pytest.raises(Unauthenticated, match="the token was revoked: log in again"):
        tokens.log_in_by_token(ANYONE, door.site, "anna", door.secret, days=1, purpose="browser")


def test_a_token_that_manages_nothing_lets_no_admin_in(door: Door) -> None:
    """Prometheus may keep its token for years: `meter serve` still prints one when it is needed."""
    admin = actor_of(door.admin)
    for scope in ("metrics", "developer"):
        tokens.make_token(admin, door.site, "narrow", scopes=[scope])
        assert not tokens.admin_can_sign_in(SYSTEM, door.site)
    tokens.make_token(admin, door.site, "wide", scopes=["admin"])
    assert tokens.admin_can_sign_in(SYSTEM, door.site)


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
    return tokens.redeem(ANYONE, site, secret, password, days=1, purpose="browser")[1]


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
    with ThreadPoolExecutor(len(words)) as threads:
        list(threads.map(run, words))
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
    seats.add_seat(SYSTEM, site.space(meter), anna.id, Role.LABELER)
    redeem(site, invite(SYSTEM, site, anna.id), PASSWORD)
    with site.reading() as books:
        events = [link.event for link in books.audit.all(meter)]
    assert events[-1] == Event.INVITATION_REDEEMED
