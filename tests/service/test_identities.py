"""People whom a provider vouches for: accounts by their subject, seats by their groups."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.server.helpers import Served, serve
from tests.service.helpers import actor_of, small_spec

from easeml_meter.core.people import GroupSeat, Person, Role, User
from easeml_meter.errors import InvalidInput, MeterError, Unauthenticated
from easeml_meter.service import identities, users
from easeml_meter.service.actor import ANYONE, SYSTEM, Actor
from easeml_meter.service.meters import create_meter
from easeml_meter.service.seats import add_seat
from easeml_meter.service.tokens import issue, recognize

ANN = Person("https://login.example.org", "1", "ann", "ann@example.org", frozenset())
RULES = tuple(
    map(
        GroupSeat.parse,
        ("dev=developer:spam:2", "label=labeler:spam", "boss=admin", "gone=runner:nowhere"),
    )
)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with serve(tmp_path) as each:
        create_meter(SYSTEM, each.site, small_spec(tenants=(2, 2)), "spam")
        yield each


def roles(served: Served, person: Person, *groups: str) -> list[str]:
    """Sign a person of some groups in; return what they may do."""
    person = replace(person, groups=frozenset(groups))
    _, secret = identities.sign_in(ANYONE, served.site, person, RULES, days=1, purpose="test")
    caller = recognize(ANYONE, served.site, secret)
    held = [f"{seat.role}:{seat.tenant}" for seat in caller.members]
    return sorted([*held, *(["admin"] if caller.admin else [])])


def test_groups_give_seats_and_take_them(served: Served) -> None:
    assert roles(served, ANN) == []
    assert roles(served, ANN, "dev", "other") == ["developer:2"]
    assert roles(served, ANN, "dev", "boss") == ["admin", "developer:2"]
    assert roles(served, ANN) == []
    assert roles(served, ANN, "gone") == []


def test_seats_that_no_rule_is_about_stay(served: Served) -> None:
    roles(served, ANN)
    with served.site.reading() as books:
        ann = books.users.named("ann")
        (meter,) = books.meters.all()
    assert ann is not None
    add_seat(SYSTEM, served.site.space(meter.id), ann.id, Role.DEVELOPER, 1)
    assert roles(served, ANN) == ["developer:1"]


def test_no_group_gives_two_roles_at_a_meter(served: Served) -> None:
    found = roles(served, ANN, "dev", "label")
    assert found in (["developer:2"], ["labeler:0"])
    assert len(roles(served, ANN, "dev", "label")) == 1


def test_the_same_subject_is_the_same_account_whatever_its_name(served: Served) -> None:
    roles(served, ANN)
    roles(served, replace(ANN, name="ann married", email="else@example.org"))
    names = [user.name for user in users.list_users(SYSTEM, served.site)]
    assert names.count("ann") == 1
    assert "ann married" not in names


def test_a_name_or_address_of_somebody_else_is_no_way_into_their_account(served: Served) -> None:
    """Whoever can choose their name at the provider must not become an admin here."""
    for name in ("admin", "Admin", "ADMIN "):
        taken = replace(ANN, subject="9", name=name.strip())
        with pytest.raises(Unauthenticated, match="is here already"):
            roles(served, taken)
    roles(served, ANN)
    other_issuer = replace(ANN, issuer="https://elsewhere.example")
    with pytest.raises(Unauthenticated, match="is here already"):
        roles(served, other_issuer)


def test_a_disabled_account_stays_outside(served: Served) -> None:
    roles(served, ANN)
    with served.site.reading() as books:
        ann = books.users.named("ann")
    assert ann is not None
    users.change_user(SYSTEM, served.site, ann.id, disabled=True)
    with pytest.raises(Unauthenticated, match="disabled"):
        roles(served, ANN, "dev")


def test_an_account_disabled_during_a_sign_in_gets_no_session(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It got one that nothing ended: disabling ends the sessions that there are at that moment."""
    roles(served, ANN)
    with served.site.reading() as books:
        ann = books.users.named("ann")
    assert ann is not None
    follow = identities._follow

    def disabled_meanwhile(*given: Any) -> None:
        follow(*given)
        users.change_user(SYSTEM, served.site, ann.id, disabled=True)

    monkeypatch.setattr(identities, "_follow", disabled_meanwhile)
    with pytest.raises(Unauthenticated, match="disabled"):
        roles(served, ANN)
    with served.site.reading() as books:
        assert all(token.revoked_at is not None for token in books.tokens.of(ann.id))


def test_an_account_disconnected_during_a_sign_in_gets_no_session(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It got one after disconnecting had revoked those that there were."""
    user = served.users["stranger"]
    identities.connect(signed_in(served, user), served.site, ANN)
    follow = identities._follow

    def disconnected_meanwhile(*given: Any) -> None:
        follow(*given)
        identities.disconnect(SYSTEM, served.site, user.id)

    monkeypatch.setattr(identities, "_follow", disconnected_meanwhile)
    with pytest.raises(Unauthenticated, match="disconnected"):
        roles(served, ANN)
    with served.site.reading() as books:
        assert all(token.revoked_at is not None for token in books.tokens.of(user.id))


def test_the_last_admin_stays_one(served: Served) -> None:
    """A rule about admins must not lock everybody out."""
    roles(served, ANN, "boss")
    users.change_user(SYSTEM, served.site, served.users["admin"].id, admin=False)
    assert roles(served, ANN) == ["admin"]


def signed_in(served: Served, user: User, days: float = 1) -> Actor:
    """Return a user as an actor with a session."""
    token, _ = issue(served.site, user.id, "test", days=days, kind="session")
    return replace(actor_of(user.id), token=token.id)


def test_an_account_is_connected_once(served: Served) -> None:
    admin, other = (signed_in(served, served.users[name]) for name in ("admin", "stranger"))
    identities.connect(admin, served.site, ANN)
    identities.connect(admin, served.site, ANN)
    with pytest.raises(MeterError, match="belongs to another account here"):
        identities.connect(other, served.site, ANN)
    with pytest.raises(MeterError, match="another one at the provider"):
        identities.connect(admin, served.site, replace(ANN, subject="2"))
    _, secret = identities.sign_in(ANYONE, served.site, ANN, (), days=1, purpose="test")
    assert recognize(ANYONE, served.site, secret).user == served.users["admin"]


def test_a_session_that_has_ended_connects_nobody(served: Served) -> None:
    """It did: a thief of a session kept a way in that no new password closed."""
    user, site = served.users["stranger"], served.site
    stolen = signed_in(served, user)
    users.reset_password(SYSTEM, site, user.id)
    for actor in (stolen, actor_of(user.id)):
        with pytest.raises(Unauthenticated, match="revoked"):
            identities.connect(actor, site, ANN)
    with pytest.raises(Unauthenticated, match="expired"):
        identities.connect(signed_in(served, user, days=1e-9), site, ANN)
    users.change_user(SYSTEM, site, user.id, disabled=True)
    with pytest.raises(Unauthenticated, match="disabled"):
        identities.connect(signed_in(served, user), site, ANN)
    with site.reading() as books:
        assert books.users.known_as(ANN.issuer, ANN.subject) is None


def test_an_admin_disconnects_an_account(served: Served) -> None:
    user, site = served.users["stranger"], served.site
    with pytest.raises(MeterError, match="'stranger': nobody signs in to it by a provider"):
        identities.disconnect(SYSTEM, site, user.id)
    identities.connect(signed_in(served, user), site, ANN)
    _, secret = identities.sign_in(ANYONE, site, ANN, (), days=1, purpose="test")
    identities.disconnect(SYSTEM, site, user.id)
    with pytest.raises(Unauthenticated, match="revoked"):
        recognize(ANYONE, site, secret)
    _, secret = identities.sign_in(ANYONE, site, ANN, (), days=1, purpose="test")
    assert recognize(ANYONE, site, secret).user.name == "ann"
    identities.connect(signed_in(served, user), site, replace(ANN, subject="2"))


def test_odd_names_and_addresses(served: Served) -> None:
    roles(served, replace(ANN, email="no address"))
    with served.site.reading() as books:
        ann = books.users.named("ann")
    assert ann is not None
    assert ann.email is None
    with pytest.raises(Unauthenticated, match="cannot be used here"):
        roles(served, replace(ANN, subject="2", name="a\nb"))


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("a=b=admin", GroupSeat("a=b", Role.ADMIN)),
        ("g=labeler:spam", GroupSeat("g", Role.LABELER, "spam")),
        ("g=runner:a:b:2", GroupSeat("g", Role.RUNNER, "a:b", 2)),
    ],
)
def test_rules_are_read(text: str, rule: GroupSeat) -> None:
    assert GroupSeat.parse(text) == rule


@pytest.mark.parametrize(
    "text", ["", "admin", "=admin", "g=owner:spam", "g=developer", "g=developer:"]
)
def test_other_rules_are_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="oidc_seat"):
        GroupSeat.parse(text)
