"""`meter user`: accounts closed and opened again."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.cli.office import Admins
from tests.service.helpers import actor_of

from easeml_meter.core.people import Person
from easeml_meter.service import identities, tokens
from easeml_meter.service.actor import ANYONE
from easeml_meter.service.invitations import redeem
from easeml_meter.service.users import check_password

PASSWORD = "a secret of some length"  # noqa: S105 - of a made-up account


@pytest.fixture
def office(admins: Admins) -> Admins:
    return admins


def test_an_account_is_disabled_and_enabled(office: Admins) -> None:
    name = office.user("developer")
    assert office.acting("developer").run("meters").code == 0
    told = office.acting("admin").ok("user", "disable", name)
    assert told == f"account {name} is disabled, its tokens are revoked\n"
    assert f"{name} (disabled), id " in office.ok("user", "list")
    office.acting("developer").refused(5, "meters")

    told = office.acting("admin").ok("user", "enable", name)
    assert told == f"account {name} can sign in again\n"
    assert f"{name}, id " in office.ok("user", "list")
    assert "revoked" in office.acting("developer").refused(5, "meters")
    user = office.site.served.users[name].id
    fresh = tokens.make_token(actor_of(user), office.site.served.site, "fresh")[1]
    assert office.using(fresh).json("meters")[0]["name"] == office.name

    office.acting("admin")
    for verb, disabled in (("disable", True), ("enable", False)):
        changed = office.json("user", verb, user)
        assert (changed["name"], changed["disabled"]) == (name, disabled)


def test_whoever_opens_the_link_chooses_the_password(office: Admins) -> None:
    name = office.user("developer")
    first = office.acting("admin").ok("user", "invite", name).strip()
    link = office.json("user", "invite", name)["link"]
    assert link.partition("/join#")[0] == first.partition("/join#")[0]
    site, secret = office.site.served.site, link.partition("#")[2]
    redeem(ANYONE, site, secret, PASSWORD, days=1, purpose="browser")
    assert check_password(site, name, PASSWORD).name == name
    assert "no account has that name" in office.refused(2, "user", "invite", "nobody")


def test_an_account_is_disconnected_from_the_provider(office: Admins) -> None:
    site, name = office.site.served.site, office.user("developer")
    user = office.site.served.users[name].id
    person = Person("https://login.example.org", "1", "x", None, frozenset())

    def connect() -> None:
        token, _ = tokens.issue(site, user, "browser", days=1, kind="session")
        identities.connect(replace(actor_of(user), token=token.id), site, person)

    connect()
    told = office.acting("admin").ok("user", "disconnect", name)
    assert told == f"account {name} is disconnected, its tokens are revoked\n"
    office.acting("developer").refused(5, "meters")
    connect()
    office.acting("admin")
    assert office.json("user", "disconnect", name) == {"id": user, "disconnected": True}
    refused = office.refused(1, "user", "disconnect", name)
    assert f"user '{name}': nobody signs in to it by a provider" in refused


def test_accounts_that_cannot_be_disabled(office: Admins) -> None:
    for verb in ("disable", "enable"):
        refused = office.refused(2, "user", verb, "nobody")
        assert "no account has that name: see meter user list" in refused
    refused = office.refused(1, "user", "disable", "admin")
    assert "cannot remove the last admin: make someone else an admin first" in refused
    office.acting("developer")
    for verb in ("disable", "enable"):
        for name in (office.user("labeler"), office.user("developer")):
            assert "only an admin may do this" in office.refused(5, "user", verb, name)
