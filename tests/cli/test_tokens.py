"""`meter login`, `meter logout` and `meter token`, at a server."""

from __future__ import annotations

import contextlib
import io
import json
import logging
from pathlib import Path

import pytest
from tests.cli.office import NOTHING, PASSWORD, Admins
from tests.cli.workbench import (
    Shown,
    Workbench,
)
from tests.live import Live, live

from easeml_meter.cli.tokens import ask_password
from easeml_meter.client.connection import Connection
from easeml_meter.client.credentials import Credential, credentials_file, find, store
from easeml_meter.errors import MeterError, Unauthenticated
from easeml_meter.service import tokens, users
from easeml_meter.service.actor import ANYONE, SYSTEM


@pytest.fixture
def office(admins: Admins) -> Admins:
    return admins


def logged_in(desk: Workbench, site: Live, monkeypatch: pytest.MonkeyPatch, password: str) -> Shown:
    monkeypatch.setattr("sys.stdin", io.StringIO(password + "\n"))
    return desk.run("login", "--server", site.address, "--name", f"ann of {desk.folder.name}")


def test_login_and_logout(site: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Workbench(tmp_path)
    name = f"ann of {tmp_path.name}"
    users.add_user(SYSTEM, site.served.site, name, password=PASSWORD)
    refused = logged_in(desk, site, monkeypatch, "wrong password")
    assert (refused.code, refused.out) == (5, "")
    assert refused.err.startswith("meter: name or password is wrong")
    assert not credentials_file().exists()

    shown = logged_in(desk, site, monkeypatch, PASSWORD)
    assert shown.out.startswith(f"logged in to {site.address} as {name} until 20")
    assert credentials_file().stat().st_mode & 0o777 == 0o600
    kept = find(site.address)
    assert kept is not None
    assert kept.token not in shown.out + repr(kept)
    assert PASSWORD not in credentials_file().read_text()
    at_server = ("meters", "--server", f"{site.address}/")
    assert desk.run(*at_server).out == "you have no seat at any meter\n"

    credentials_file().chmod(0o640)
    assert "others can read it: run chmod 600" in desk.run(*at_server).err
    credentials_file().chmod(0o600)

    assert desk.run("logout", "--server", site.address).out == f"logged out of {site.address}\n"
    with pytest.raises(Unauthenticated, match="revoked"):
        tokens.recognize(ANYONE, site.served.site, kept.token)
    assert desk.run(*at_server).code == 5
    assert "you are not logged in there" in desk.run("logout", "--server", site.address).err


def test_login_with_a_token(site: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Workbench(tmp_path)
    token = site.served.tokens["stranger"]
    assert desk.run("login", "--server", site.address, "--token", "emt_wrong").code == 5
    assert find(site.address) is None
    monkeypatch.setenv("METER_TOKEN", token)
    assert "as stranger until" in desk.run("login", "--server", site.address).out
    kept = find(site.address)
    assert kept is not None
    assert kept.token == token
    monkeypatch.delenv("METER_TOKEN")
    assert "give --name" in desk.run("login", "--server", site.address).err


def test_an_admin_who_logs_in_is_not_sent_to_an_admin(site: Live, tmp_path: Path) -> None:
    """It is how every new server begins: its first admin has no seat anywhere."""
    token = site.served.tokens["admin"]
    shown = Workbench(tmp_path).run("login", "--server", site.address, "--token", token).out
    assert "an admin gives them" not in shown
    assert shown.endswith(f"Next: meter user add NAME --server {site.address}\n")


@pytest.mark.parametrize("given", ["{} ", " {}", "{}\n", "\t{}", "{} {}", "{}\N{NO-BREAK SPACE}"])
def test_a_token_with_more_around_it_is_refused_and_not_shown(
    given: str, site: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, the line that refused one with a space at its end showed it."""
    token = site.served.tokens["stranger"]
    desk = Workbench(tmp_path)
    monkeypatch.setenv("METER_TOKEN", given.format(token, token))
    shown = desk.run("meters", "--server", site.address)
    assert (shown.code, shown.out) == (2, "")
    assert "letters and digits only" in shown.err
    assert token[4:] not in shown.err
    typed = desk.run("login", "--server", site.address, "--token", given.format(token, token))
    assert (typed.code, typed.err) == (2, shown.err)


def test_an_empty_token_is_none_and_takes_no_place(
    site: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, a login with it stored it in the place of the token that was there."""
    desk = Workbench(tmp_path)
    token = site.served.tokens["stranger"]
    assert desk.run("login", "--server", site.address, "--token", token).code == 0
    monkeypatch.setenv("METER_TOKEN", "")
    for typed in ([], ["--token", ""]):
        shown = desk.run("login", "--server", site.address, *typed)
        assert (shown.code, shown.out) == (2, "")
        assert "give --name" in shown.err
    kept = find(site.address)
    assert kept is not None
    assert kept.token == token
    assert desk.run("meters", "--server", site.address).code == 0


def test_logout_from_a_server_that_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with live(tmp_path / "server") as site:
        monkeypatch.setenv("METER_TOKEN", site.served.tokens["stranger"])
        assert Workbench(tmp_path).run("login", "--server", site.address).code == 0
        monkeypatch.delenv("METER_TOKEN")
    shown = Workbench(tmp_path).run("logout", "--server", site.address, "--json")
    assert json.loads(shown.out) == {"server": site.address, "revoked": False}
    assert shown.err.startswith("warning: the token was not revoked: ")
    assert find(site.address) is None


def test_logout_from_a_server_that_is_another_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, whatever answered there kept the token in the file."""

    def refuse(*_: object, **__: object) -> None:
        raise MeterError("404 answered, and not by a meter's server")

    store("https://a", Credential("emt_x"))
    monkeypatch.setattr(Connection, "call", refuse)
    shown = Workbench(tmp_path).run("logout", "--server", "https://a", "--json")
    assert json.loads(shown.out) == {"server": "https://a", "revoked": False}
    assert shown.err.startswith("warning: the token was not revoked: 404 answered")
    assert find("https://a") is None


def test_a_password_is_not_shown_where_only_the_output_goes_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, meter login > FILE read it from the terminal, without a word and in full view."""
    asked: list[str] = []

    def unseen(question: str) -> str:
        asked.append(question)
        return PASSWORD

    monkeypatch.setattr("sys.stdin", Terminal())
    monkeypatch.setattr("click.termui.hidden_prompt_func", unseen)
    with contextlib.redirect_stdout(out := io.StringIO()):
        assert ask_password() == PASSWORD
    assert (len(asked), out.getvalue()) == (1, "")


class Terminal(io.StringIO):
    """A person at a keyboard, who types nothing by themselves."""

    def isatty(self) -> bool:
        return True


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
    assert "a token with scopes or a pace may not do this: log in" in refused
    office.acting("developer")
    other = office.new_token("--scope", "labeler")
    assert office.using(other["token"]).ok("meters") == "you have no seat at any meter\n"


def test_pace_of_a_token(office: Admins) -> None:
    office.acting("developer")
    made = office.new_token("--scope", "developer", "--pace", "5/day")
    assert (made["pace"], office.new_token()["pace"]) == (5, None)
    assert "ci (developer, 5/day), until 20" in office.ok("token", "list")
    for pace in ("5", "5/hour", "/day", "-1/day", "1.5/day", "²/day", "5/day "):
        refused = office.refused(2, "token", "new", "--name", "ci", "--pace", pace)
        assert "given, a number of answers a day, such as 5/day" in refused
    for pace in ("0/day", "1000001/day"):
        refused = office.refused(2, "token", "new", "--name", "ci", "--pace", pace)
        assert "a whole number from 1 to 1,000,000" in refused


@pytest.mark.parametrize(
    ("scope", "why"),
    [
        ("boss", "scope: 'boss' given, admin, metrics, or one of developer, labeler,"),
        ("boss:METER", "scope: 'boss' given, admin, metrics, or one of developer, labeler,"),
        ("owner", "scope: 'owner' given, admin, metrics, or one of developer"),
        (":METER", "scope: '' given, admin, metrics, or one of developer"),
        ("", "scope: '' given, admin, metrics, or one of developer"),
        ("developer:", "meter '': none of that name that you have a seat at"),
        ("developer:nothing", "meter 'nothing': none of that name that you have a seat at"),
    ],
)
def test_bad_scopes(scope: str, why: str, office: Admins) -> None:
    given = scope.replace("METER", office.name)
    office.acting("developer")
    assert why in office.refused(2, "token", "new", "--name", "ci", "--scope", given)


def test_a_token_for_metrics_is_made_by_admins(office: Admins) -> None:
    office.acting("developer")
    asked = ("token", "new", "--name", "prometheus", "--scope", "metrics")
    assert "only an admin may make a token with the scope metrics" in office.refused(5, *asked)
    office.acting("admin")
    assert office.new_token("--scope", "metrics")["scopes"] == ["metrics"]


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


@pytest.mark.parametrize(
    "command",
    [
        "token new --name ci",
        "token list",
        f"token revoke {NOTHING}",
        "user disable ann",
        "user enable ann",
    ],
)
def test_a_server_is_needed(command: str, office: Admins) -> None:
    office.environment.delenv("METER_SERVER")
    shown = office.run(*command.split())
    line = "meter: server: nothing given, name one with --server, or in METER_SERVER\n"
    assert shown == Shown(2, "", line)
