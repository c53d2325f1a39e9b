"""Passwords of accounts, and what others do to an account while its owner changes one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from tests.service.helpers import actor_of

from easeml_meter.core.people import User
from easeml_meter.errors import Unauthenticated
from easeml_meter.service import tokens, users
from easeml_meter.service.actor import SYSTEM
from easeml_meter.service.place import Site

OLD, NEW, ADMINS = "an old password", "a new password", "the password of an admin"


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    database = f"sqlite:///{tmp_path / 'meter.db'}"
    with closing(Site.open(database, tmp_path / "files", tmp_path / "key")) as site:
        users.add_user(SYSTEM, site, "ada", admin=True)
        yield site


@pytest.fixture
def anna(site: Site) -> User:
    return users.add_user(SYSTEM, site, "anna", password=OLD)


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], None]:
    """Return what does something while the next new password is hashed."""
    hashed = users.hash_password

    def plan(act: Callable[[], object]) -> None:
        def slow(password: str) -> str:
            monkeypatch.setattr(users, "hash_password", hashed)
            act()
            return hashed(password)

        monkeypatch.setattr(users, "hash_password", slow)

    return plan


def by_page(site: Site, user: User) -> None:
    users.change_password(actor_of(user.id), site, OLD, NEW)


def by_request(site: Site, user: User) -> None:
    users.change_user(actor_of(user.id), site, user.id, password=NEW, current_password=OLD)


@pytest.mark.parametrize("change", [by_page, by_request])
def test_a_change_under_way_does_not_undo_an_admins_reset(
    site: Site,
    anna: User,
    meanwhile: Callable[[Callable[[], object]], None],
    change: Callable[[Site, User], None],
) -> None:
    """It did: whoever had learned the old password kept the account."""
    meanwhile(lambda: users.change_user(SYSTEM, site, anna.id, password=ADMINS))
    with pytest.raises(Unauthenticated, match="changed meanwhile"):
        change(site, anna)
    assert users.check_password(site, "anna", ADMINS) == anna
    with pytest.raises(Unauthenticated):
        users.check_password(site, "anna", NEW)


def test_a_token_that_was_revoked_meanwhile_changes_nothing(
    site: Site, anna: User, meanwhile: Callable[[Callable[[], object]], None]
) -> None:
    token, _ = tokens.issue(site, anna.id, "browser", days=1, kind="session")
    actor = replace(actor_of(anna.id), token=token.id)
    meanwhile(lambda: tokens.revoke_token(SYSTEM, site, token.id))
    with pytest.raises(Unauthenticated, match="revoked"):
        users.change_password(actor, site, OLD, NEW)
    with pytest.raises(Unauthenticated, match="revoked"):
        users.change_user(actor, site, anna.id, email="else@example.org")
    assert users.check_password(site, "anna", OLD) == anna
