"""The command line against a server: tokens, webhooks, and closing accounts."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.live import Live, live
from tests.service.helpers import actor_of

from easeml_meter.service import tokens
from easeml_meter.service.notifications.events import EVENTS
from easeml_meter.storage import schema

from .desk import Shown
from .test_remote import Office

URL = "https://hooks.example/in"
NOTHING = "0" * 32


class Admins(Office):
    """An office where what is refused must leave accounts, tokens and webhooks as they were."""

    def snapshot(self) -> dict[str, Any]:
        with self.site.served.site.reading() as books:
            tables = (schema.users, schema.tokens, schema.webhooks, schema.audit)
            return {each.name: books.select(each) for each in tables}

    def new_token(self, *options: object) -> Any:
        return self.json("token", "new", "--name", "ci", *options)

    def using(self, token: str) -> Admins:
        self.environment.setenv("METER_TOKEN", token)
        return self


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with live(tmp_path_factory.mktemp("site") / "server") as found:
        yield found


@pytest.fixture
def office(site: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Admins:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("METER_FOLDER", raising=False)
    found = Admins(site, tmp_path, monkeypatch)
    found.make()
    return found


def test_a_token_is_shown_once_and_works_until_revoked(
    office: Admins, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    office.acting("developer")
    shown = office.run("token", "new", "--name", "nightly", "--days", "7")
    assert shown.code == 0
    secret = shown.out.removesuffix("\n")
    assert secret.startswith("emt_")
    assert len(secret.split()) == 1
    assert shown.err.startswith("valid until 20")
    assert secret not in shown.err + caplog.text
    identifier = shown.err.split()[-1]

    listed = office.json("token", "list")
    assert [each["name"] for each in listed] == ["nightly", "test"]
    assert listed[0]["id"] == identifier
    assert secret not in json.dumps(listed)
    until = listed[0]["expires_at"][:10]
    assert office.ok("token", "list").startswith(f"nightly, until {until}, id {identifier}\ntest, ")

    assert office.using(secret).json("meters")[0]["name"] == office.name
    told = office.acting("developer").ok("token", "revoke", identifier)
    assert told == f"token {identifier} is revoked\n"
    assert "nightly" not in office.ok("token", "list")
    assert office.json("token", "list")[0]["revoked_at"] is not None
    assert "revoked" in office.using(secret).refused(5, "meters")


def test_days_of_a_token(office: Admins) -> None:
    office.acting("developer")
    dates = [office.new_token(*days)["expires_at"] for days in ((), ("--days", "0.5"))]
    assert dates[0] > dates[1]
    for days in ("0", "-1", "3661", "nan", "inf"):
        refused = office.refused(2, "token", "new", "--name", "ci", "--days", days)
        assert "a number above 0, at most 3660" in refused
    assert "1 to 200 printable" in office.refused(2, "token", "new", "--name", "")
    assert "--name" in office.refused(2, "token", "new")


def test_scopes_of_a_token(office: Admins) -> None:
    name = office.name
    meter = next(each["id"] for each in office.json("meters") if each["name"] == name)
    office.acting("developer")
    made = office.new_token("--scope", f"developer:{name}", "--scope", "labeler")
    assert made["scopes"] == [f"developer:{meter}", "labeler"]
    assert office.new_token("--scope", f"runner:{meter}")["scopes"] == [f"runner:{meter}"]
    assert f"ci (developer:{meter}, labeler), until 20" in office.ok("token", "list")

    office.using(made["token"])
    assert office.json("meters")[0]["roles"] == ["developer"]
    refused = office.refused(5, "token", "new", "--name", "more")
    assert "a token with scopes may not do this: log in" in refused
    office.acting("developer")
    other = office.new_token("--scope", "labeler")
    assert office.using(other["token"]).ok("meters") == "no meter at which you have a seat\n"


@pytest.mark.parametrize(
    ("scope", "why"),
    [
        ("boss", "scope: 'boss' given, admin, or one of developer, labeler,"),
        ("boss:METER", "scope: 'boss' given, admin, or one of developer, labeler,"),
        ("owner", "scope: 'owner' given, admin, or one of developer"),
        (":METER", "scope: '' given, admin, or one of developer"),
        ("", "scope: '' given, admin, or one of developer"),
        ("developer:", "meter '': none of that name that you have a seat at"),
        ("developer:nothing", "meter 'nothing': none of that name that you have a seat at"),
    ],
)
def test_bad_scopes(scope: str, why: str, office: Admins) -> None:
    given = scope.replace("METER", office.name)
    office.acting("developer")
    assert why in office.refused(2, "token", "new", "--name", "ci", "--scope", given)


def test_whose_tokens_are_revoked(office: Admins) -> None:
    office.acting("developer")
    made = office.new_token()
    office.acting("labeler")
    for identifier in (NOTHING, made["id"]):  # that it is another's is not said
        refused = office.refused(2, "token", "revoke", identifier)
        assert refused == f"meter: token '{identifier}': none with that id: see meter token list\n"
    for wrong in (made["token"], "../logout", made["id"].upper() + "0"):
        refused = office.refused(2, "token", "revoke", wrong)
        assert "the id of one, not the token: see meter token list" in refused
        assert wrong not in refused
    office.acting("admin").ok("token", "revoke", made["id"])
    assert "revoked" in office.using(made["token"]).refused(5, "meters")


def test_a_webhook_is_added_listed_and_removed(
    office: Admins, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    assert office.ok("webhook", "list") == "no webhooks\n"
    shown = office.run("webhook", "add", URL)
    assert shown.code == 0
    secret = shown.out.removesuffix("\n")
    assert secret.startswith("whsec_")
    assert len(secret.split()) == 1
    assert shown.err.startswith("shown this once: ")
    assert secret not in shown.err + caplog.text
    identifier = shown.err.split()[-1]
    assert office.ok("webhook", "list") == (
        f"{URL}, id {identifier}\n"
        f"  told: {', '.join(EVENTS)}\n"
        "  messages: 0 sent, 0 waiting, 0 given up\n"
    )

    some = ("--event", "told:1", "--event", "spent", "--meter", office.name)
    made = office.json("webhook", "add", f"{URL}/2", *some)
    assert made.pop("secret").startswith("whsec_")
    assert made["events"] == ["spent", "told:1"]
    listed = office.json("webhook", "list")
    assert [each["id"] for each in listed] == [identifier, made["id"]]
    assert listed[1] == made

    told = office.ok("webhook", "remove", identifier)
    assert told == f"webhook {identifier} is removed\n"
    assert office.json("webhook", "list") == [made]
    refused = office.refused(2, "webhook", "remove", identifier)
    assert f"'{identifier}' given, no webhook of this meter has that id" in refused


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("hooks.example/in", "'hooks.example/in' given, http(s)://HOST/..."),
        ("ftp://hooks.example", "'ftp://hooks.example' given, http(s)://HOST/..."),
        ("https://", "'https://' given, http(s)://HOST/..."),
        ("https://hooks.example/" + "a" * 500, "at most 500 characters"),
        ("https://ann:open-sesame@hooks.example", "no user, password, fragment or blank in it"),
    ],
)
def test_bad_urls(url: str, why: str, office: Admins) -> None:
    refused = office.refused(2, "webhook", "add", url)
    assert why in refused
    assert "open-sesame" not in refused


def test_webhooks_that_are_refused(office: Admins) -> None:
    refused = office.refused(2, "webhook", "add", URL, "--event", "told:2")
    assert "event: 'told:2' given, one of labels requested," in refused
    made = office.json("webhook", "add", URL)
    office.json("init", "--spec", "spec.toml", "--name", f"{office.name}-2")
    elsewhere = ("--meter", f"{office.name}-2")
    assert office.json("webhook", "list", *elsewhere) == []
    for identifier, place in ((made["id"], elsewhere), (NOTHING, ()), ("../x", ())):
        refused = office.refused(2, "webhook", "remove", identifier, *place)
        assert "see meter webhook list" in refused
    nowhere = office.refused(2, "webhook", "list", "--meter", "nothing")
    assert "none of that name" in nowhere
    for role in ("developer", "labeler", "runner"):
        office.acting(role)
        for command in (("add", URL), ("list",), ("remove", made["id"])):
            assert "only an admin may" in office.refused(5, "webhook", *command)


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


@pytest.mark.parametrize(
    "command",
    [
        "token new --name ci",
        "token list",
        f"token revoke {NOTHING}",
        f"webhook add {URL}",
        "webhook list",
        f"webhook remove {NOTHING}",
        "user disable ann",
        "user enable ann",
    ],
)
def test_a_server_is_needed(command: str, office: Admins) -> None:
    office.environment.delenv("METER_SERVER")
    shown = office.run(*command.split())
    line = "meter: server: None given, name one with --server, or in METER_SERVER\n"
    assert shown == Shown(2, "", line)


def test_help_does_not_load_the_client() -> None:
    code = (
        "import sys; from easeml_meter.cli import meter\n"
        "for group, verb in (('token', 'new'), ('webhook', 'add'), ('user', 'disable')):\n"
        "    meter.main([group, verb, '--help'], standalone_mode=False)\n"
        "assert not {'httpx', 'easeml_meter.client', 'sqlalchemy'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)
