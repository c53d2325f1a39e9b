"""`meter user`: accounts closed and opened again."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from tests.cli.office import Admins, Office
from tests.service.helpers import actor_of

from easeml_meter.core.people import Person
from easeml_meter.service import identities, tokens
from easeml_meter.service.actor import ANYONE
from easeml_meter.service.tokens import redeem
from easeml_meter.service.users import check_password

PASSWORD = "a secret of some length"  # noqa: S105 - of a made-up account


def test_an_account_is_disabled_and_enabled(admins: Admins) -> None:
    name = admins.user("developer")
    assert admins.acting("developer").run("meters").code == 0
    told = admins.acting("admin").ok("user", "disable", name)
    assert told == f"account {name} is disabled, its tokens are revoked\n"
    assert f"{name} (disabled), id " in admins.ok("user", "list")
    admins.acting("developer").refused(5, "meters")

    told = admins.acting("admin").ok("user", "enable", name)
    assert told == f"account {name} can sign in again\n"
    assert f"{name}, id " in admins.ok("user", "list")
    assert "revoked" in admins.acting("developer").refused(5, "meters")
    user = admins.site.served.users[name].id
    fresh = tokens.make_token(actor_of(user), admins.site.served.site, "fresh")[1]
    assert admins.using(fresh).json("meters")[0]["name"] == admins.name

    admins.acting("admin")
    for verb, disabled in (("disable", True), ("enable", False)):
        changed = admins.json("user", verb, user)
        assert (changed["name"], changed["disabled"]) == (name, disabled)


def test_whoever_opens_the_link_chooses_the_password(admins: Admins) -> None:
    name = admins.user("developer")
    first = admins.acting("admin").ok("user", "invite", name).strip()
    link = admins.json("user", "invite", name)["link"]
    assert link.partition("/join#")[0] == first.partition("/join#")[0]
    site, secret = admins.site.served.site, link.partition("#")[2]
    redeem(ANYONE, site, secret, PASSWORD, days=1, purpose="browser")
    assert check_password(site, name, PASSWORD).name == name
    assert "no account has that name" in admins.refused(2, "user", "invite", "nobody")


def test_an_account_is_disconnected_from_the_provider(admins: Admins) -> None:
    site, name = admins.site.served.site, admins.user("developer")
    user = admins.site.served.users[name].id
    person = Person("https://login.example.org", "1", "x", None, frozenset())

    def connect() -> None:
        token, _ = tokens.issue(site, user, "browser", days=1, kind="session")
        identities.connect(replace(actor_of(user), token=token.id), site, person)

    connect()
    told = admins.acting("admin").ok("user", "disconnect", name)
    assert told == f"account {name} is disconnected, its tokens are revoked\n"
    admins.acting("developer").refused(5, "meters")
    connect()
    admins.acting("admin")
    assert admins.json("user", "disconnect", name) == {"id": user, "disconnected": True}
    refused = admins.refused(1, "user", "disconnect", name)
    assert f"user '{name}': nobody signs in to it by a provider" in refused


def test_accounts_that_cannot_be_disabled(admins: Admins) -> None:
    for verb in ("disable", "enable"):
        refused = admins.refused(2, "user", verb, "nobody")
        assert "no account has that name: see meter user list" in refused
    refused = admins.refused(1, "user", "disable", "admin")
    assert "cannot remove the last admin: make someone else an admin first" in refused
    admins.acting("developer")
    for verb in ("disable", "enable"):
        for name in (admins.user("labeler"), admins.user("developer")):
            assert "only an admin may do this" in admins.refused(5, "user", verb, name)


def test_seats_and_users(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    name = office.name
    office.make()
    monkeypatch.setattr("sys.stdin", io.StringIO(PASSWORD + "\n"))
    assert office.ok("user", "add", f"eve of {name}").startswith(f"account eve of {name} opened")
    assert f"eve of {name}, id " in office.ok("user", "list")
    assert "admin (admin), id " in office.ok("user", "list")
    office.ok("seat", "give", f"eve of {name}", "runner")
    assert f"eve of {name}: runner of team 1" in office.ok("seat", "list")
    taken = office.json("seat", "take", f"eve of {name}", "runner")
    assert (taken["name"], taken["role"], taken["tenant"]) == (f"eve of {name}", "runner", 1)
    assert f"eve of {name}" not in office.ok("seat", "list")
    assert "no account" in office.refused(2, "seat", "give", "nobody", "labeler")
    assert "only an admin" in office.acting("developer").refused(5, "user", "list")
    assert office.ok("meters").startswith(f"{name} (developer), id ")
