"""Who holds a token is looked up once; yet what changes is seen, here at once, elsewhere soon."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest

from easeml_meter.core.people import Role
from easeml_meter.errors import MeterError, Unauthenticated
from easeml_meter.service import seats, tokens, users
from easeml_meter.service.actor import SYSTEM
from easeml_meter.service.meters import create_meter
from easeml_meter.service.place import Site
from easeml_meter.service.tokens import REMEMBERED, Caller, caller_of, remembered
from easeml_meter.storage import schema
from easeml_meter.storage.books import Books

from .helpers import small_spec


class Moment:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


@dataclass
class Elapsed:
    """The seconds of `time.monotonic`, moved by hand."""

    seconds: float = 1000.0

    def monotonic(self) -> float:
        return self.seconds


@dataclass
class Reads:
    """Counts how often a site's books were read."""

    counts: dict[int, int] = field(default_factory=dict)

    def of(self, site: Site) -> int:
        return self.counts.get(id(site), 0)


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
        return caller_of(self.site, self.secret)


@pytest.fixture
def clock() -> Moment:
    return Moment()


@pytest.fixture
def elapsed(monkeypatch: pytest.MonkeyPatch) -> Elapsed:
    found = Elapsed()
    monkeypatch.setattr(tokens, "time", SimpleNamespace(monotonic=found.monotonic))
    return found


@pytest.fixture
def opened(tmp_path: Path, clock: Moment) -> Iterator[Callable[[], Site]]:
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
def door(opened: Callable[[], Site], elapsed: Elapsed) -> Door:
    site = opened()
    admin = users.add_user(site, "admin", admin=True)
    anna = users.add_user(site, "anna")
    meter = create_meter(SYSTEM, site, small_spec(tenants=(2, 2)), "meter").id
    seats.add_member(site, anna.id, meter, Role.DEVELOPER, 1)
    token, secret = tokens.new_token(site, anna.id, "test", days=1)
    return Door(site, meter, admin.id, anna.id, token.id, secret)


@pytest.fixture
def reads(door: Door, monkeypatch: pytest.MonkeyPatch) -> Reads:
    real, found = Site.reading, Reads()

    def reading(site: Site) -> AbstractContextManager[Books]:
        found.counts[id(site)] = found.of(site) + 1
        return real(site)

    monkeypatch.setattr(Site, "reading", reading)
    return found


def test_a_token_is_looked_up_once(door: Door, reads: Reads) -> None:
    assert remembered(door.site, door.secret) is None
    first = door.caller()
    assert reads.of(door.site) == 1
    assert (first.user.name, first.token.id) == ("anna", door.token)
    assert [(seat.role, seat.tenant) for seat in first.members] == [(Role.DEVELOPER, 1)]
    for _ in range(3):
        assert door.caller() == first
        assert remembered(door.site, door.secret) == first
    assert reads.of(door.site) == 1


def test_each_token_is_one_of_its_own(door: Door, reads: Reads) -> None:
    limited = tokens.new_token(door.site, door.anna, "limited", scopes=["labeler"])[1]
    other = tokens.new_token(door.site, door.admin, "other")[1]
    for _ in range(2):
        assert caller_of(door.site, limited).token.scopes == ("labeler",)
        assert caller_of(door.site, other).admin
        assert door.caller().token.scopes == ()
    assert reads.of(door.site) == 3


def test_it_is_looked_up_again_after_a_while(door: Door, elapsed: Elapsed, reads: Reads) -> None:
    door.caller()
    elapsed.seconds += REMEMBERED * 0.9
    door.caller()
    assert reads.of(door.site) == 1
    # Being asked for makes it last no longer.
    elapsed.seconds += REMEMBERED * 0.2
    assert remembered(door.site, door.secret) is None
    door.caller()
    assert reads.of(door.site) == 2
    door.caller()
    assert reads.of(door.site) == 2


# --- Changes ---


def revoke(site: Site, door: Door) -> None:
    tokens.revoke_token(site, door.token)


def disable(site: Site, door: Door) -> None:
    users.change_user(site, door.anna, disabled=True)


def new_password(site: Site, door: Door) -> None:
    users.change_user(site, door.anna, password="long enough")  # noqa: S106


def make_admin(site: Site, door: Door) -> None:
    users.change_user(site, door.anna, admin=True)


def add_seat(site: Site, door: Door) -> None:
    seats.add_member(site, door.anna, door.meter, Role.DEVELOPER, 2)


def remove_seat(site: Site, door: Door) -> None:
    seats.remove_member(site, door.anna, door.meter, Role.DEVELOPER, 1)


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


@each_change
def test_a_change_made_here_is_seen_at_once(
    door: Door, change: Callable[[Site, Door], None]
) -> None:
    assert shown(door) == BEFORE
    change(door.site, door)
    assert remembered(door.site, door.secret) is None
    assert shown(door) == CHANGES[change]


@each_change
def test_a_change_made_by_another_process_is_seen_soon(
    door: Door,
    elapsed: Elapsed,
    opened: Callable[[], Site],
    change: Callable[[Site, Door], None],
) -> None:
    assert shown(door) == BEFORE
    change(opened(), door)
    elapsed.seconds += REMEMBERED * 0.9
    assert shown(door) == BEFORE  # nobody has told this one yet
    elapsed.seconds += REMEMBERED * 0.2
    assert shown(door) == CHANGES[change]


@each_change
def test_a_change_made_while_it_is_looked_up_is_seen_next(
    door: Door, change: Callable[[Site, Door], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who has read the books just before does not remember what they said then."""
    calls: list[str] = []

    def wrapped(self: Caller, *arguments: object) -> None:
        if not calls:
            calls.append("made")
            change(door.site, door)
        real(self, *arguments)

    real: Callable[..., None] = Caller.__init__
    monkeypatch.setattr(Caller, "__init__", wrapped)
    assert shown(door) == BEFORE
    assert calls == ["made"]
    assert shown(door) == CHANGES[change]


def test_an_admin_no_more(door: Door) -> None:
    make_admin(door.site, door)
    assert shown(door) == (True, [1])
    users.change_user(door.site, door.anna, admin=False)
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
        users.change_user(door.site, door.admin, admin=False)
    assert shown(door) == BEFORE


# --- What is not remembered ---


def test_a_token_that_expires_is_refused_at_once(
    door: Door, clock: Moment, elapsed: Elapsed, reads: Reads
) -> None:
    """By the site's clock, however short ago it was asked for."""
    clock.now += timedelta(days=1, microseconds=-1)
    assert shown(door) == BEFORE
    assert reads.of(door.site) == 1
    clock.now += timedelta(microseconds=1)
    assert remembered(door.site, door.secret) is None
    assert shown(door) == "the token has expired: log in again"


def test_an_unknown_token_is_not_remembered(door: Door, reads: Reads) -> None:
    for count in (1, 2, 3):
        with pytest.raises(Unauthenticated, match="not known"):
            caller_of(door.site, "emt_nobody")
        assert reads.of(door.site) == count
        assert remembered(door.site, "emt_nobody") is None
    assert door.site.callers.known == {}


@pytest.mark.parametrize("change", [revoke, disable], ids=lambda change: change.__name__)
def test_a_token_that_is_refused_is_not_remembered(
    door: Door, reads: Reads, change: Callable[[Site, Door], None]
) -> None:
    change(door.site, door)
    for count in (1, 2):
        with pytest.raises(Unauthenticated):
            door.caller()
        assert reads.of(door.site) == count
    assert door.site.callers.known == {}


def test_the_secret_itself_is_not_kept(door: Door) -> None:
    door.caller()
    assert len(door.site.callers.known) == 1
    assert door.secret not in repr(door.site.callers.known)
    assert door.secret not in repr(door.site)


def test_only_so_many_are_remembered(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "_CALLERS", 3)
    secrets = [tokens.new_token(door.site, door.anna, str(n))[1] for n in range(8)]
    for secret in secrets:
        assert caller_of(door.site, secret).user.id == door.anna
        assert len(door.site.callers.known) <= 3
    assert remembered(door.site, secrets[-1]) is not None


def test_each_site_remembers_for_itself(
    door: Door, opened: Callable[[], Site], reads: Reads
) -> None:
    other = opened()
    door.caller()
    assert remembered(other, door.secret) is None
    assert caller_of(other, door.secret) == door.caller()
    assert (reads.of(door.site), reads.of(other)) == (1, 1)
