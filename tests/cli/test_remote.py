"""The command line against a server: log in, and every command of a meter."""

from __future__ import annotations

import http.server
import io
import itertools
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from tests.live import Live, live
from tests.scoring.onnx_models import classifier

from easeml_meter.client import connection
from easeml_meter.client.credentials import credentials_file, find, server_address
from easeml_meter.errors import InvalidInput, Unauthenticated
from easeml_meter.service import tokens, users
from easeml_meter.service.actor import ANYONE, SYSTEM
from easeml_meter.spec import MeterSpec

from .desk import SMALL, Desk, Shown, animals, rows, wrong

VALIDATION = animals(20, seed=99)
PASSWORD = "correct horse battery"  # noqa: S105


ROLES = ("labeler", "developer", "runner")
SEEDS = itertools.count()


class Office(Desk):
    """Run commands as users of a server, at a meter with one user for each role."""

    def __init__(self, site: Live, folder: Path, environment: pytest.MonkeyPatch) -> None:
        super().__init__(folder)
        self.site = site
        self.name = folder.name
        self.environment = environment
        for role in ROLES:
            site.served.add_user(self.user(role))
        environment.setenv("METER_SERVER", site.address)
        environment.setenv("METER_NAME", self.name)

    def user(self, role: str) -> str:
        return "admin" if role == "admin" else f"{role} of {self.name}"

    def acting(self, role: str) -> Office:
        self.environment.setenv("METER_TOKEN", self.site.served.tokens[self.user(role)])
        return self

    def run(self, *arguments: object) -> Shown:
        return super().run(*[each for each in arguments if each not in ("-C", "meter")])

    def snapshot(self) -> dict[str, Any]:
        with self.site.served.site.reading() as books:
            return {"told": books.connection.exec_driver_sql("SELECT * FROM entries").all()}

    def make(self, **options: Any) -> int:
        """Make the meter and give the seats; give the labels it needs."""
        self.acting("admin")
        labels = self.init(**options)
        for role in ROLES:
            self.ok("seat", "give", self.user(role), role)
        return labels

    def init(self, **options: Any) -> int:
        MeterSpec.uniform(**(SMALL | options)).write(self.folder / "spec.toml")
        labels = self.json("init", "--spec", "spec.toml", "--name", self.name)["labels"]
        assert isinstance(labels, int)
        return labels

    def ready(self, **options: Any) -> list[str]:
        """Make the meter, deliver both sets; give the hidden labels."""
        labels = animals(self.make(**options))
        self.acting("developer").validate(VALIDATION)
        self.acting("labeler").deliver(labels, seed=next(SEEDS))
        self.acting("developer")
        return labels


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with live(tmp_path_factory.mktemp("site") / "server", logins_per_minute=0) as found:
        yield found


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(connection, "FIRST_PAUSE", 0.001)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for name in ("METER_SERVER", "METER_TOKEN", "METER_NAME", "METER_FOLDER", "METER_INSECURE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def office(site: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Office:
    return Office(site, tmp_path, monkeypatch)


def test_the_whole_loop(office: Office) -> None:
    labels = office.ready()
    n = len(labels)
    assert f"{n} rows" in office.ok("testset", "inputs", "--out", "inputs.parquet")
    first = office.ok("submit", *office.predictions(wrong(labels, 1), VALIDATION, name="a"))
    assert first.startswith("Step 1: band 1 of 3, model a-on-test\n")
    second = office.submit(wrong(labels, n // 5), VALIDATION, name="b")
    assert (second["answer"], second["band"], second["steps_left"]) == ("2", 2, 2)
    assert office.left() == 2
    assert len(office.json("history")[0]["signals"]) == 2
    assert "wrote page.html" in office.ok("report", "--html", "page.html")
    assert "20 rows, in force" in office.validate(VALIDATION, verb="replace", seed=5)

    files = office.predictions(wrong(labels, 2), VALIDATION, name="r")
    told = office.acting("runner").ok("submit", *files)
    assert told == (
        "submitted as step 3 of test set 1: the signal is shown to the developers of tenant 1\n"
    )
    again = office.json("submit", *files)
    assert (again["signal"], again["state"]) == (None, "done")
    assert "may not see signals" in office.refused(5, "status")

    office.acting("developer").submit(labels, VALIDATION, name="d")
    files = office.predictions(wrong(labels, 3), VALIDATION, name="e")
    assert "test set 1 is spent" in office.refused(3, "submit", *files)
    assert "developers may not release" in office.refused(5, "release")
    released = office.acting("labeler").ok("release")
    assert released.startswith("released to released/1: report.html, retrospective.json, testset")
    assert pq.read_table(office.folder / "released/1/testset.parquet").num_rows == n
    assert "only a spent one is released" in office.refused(4, "release")
    assert (
        office.acting("developer").ok("testset", "fetch", 1, "--out", "mine").startswith("fetched")
    )
    assert office.ok("audit").endswith("the chain is sound\n")
    assert office.acting("labeler").json("testset", "requests")[0]["generation"] == 2


def test_labels_in_parts(office: Office) -> None:
    needed = office.make()
    labels = animals(needed, seed=3)
    office.acting("developer").validate(VALIDATION)
    office.acting("labeler")
    table = rows(labels, seed=next(SEEDS))
    for number, part in enumerate((slice(0, 10), slice(10, None)), 1):
        source = office.write(f"part-{number}", {name: each[part] for name, each in table.items()})
        sealed = f"part-{number}.sealed"
        office.ok("seal", source, "--label", "label", "--id", "id", "--out", sealed)
    shown = office.ok("testset", "add", "--part", "part-1.sealed")
    assert shown == f"part taken in: 10 of {needed} labels of test set 1 are here\n"
    asked = office.ok("testset", "requests")
    assert asked.startswith(f"test set 1: 10 of {needed} labels are here\n  part 1: 10 rows")
    assert f"test set 1 is active: {needed} rows" in office.ok("testset", "add", "part-2.sealed")
    assert office.ok("testset", "requests") == "no labels are asked for\n"
    assert "may not see requests" in office.acting("developer").refused(5, "testset", "requests")


def test_seats_and_users(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    name = office.name
    office.make()
    monkeypatch.setattr("sys.stdin", io.StringIO(PASSWORD + "\n"))
    assert office.ok("user", "add", f"eve of {name}").startswith(f"account eve of {name} opened")
    assert f"eve of {name}, id " in office.ok("user", "list")
    assert "admin (admin), id " in office.ok("user", "list")
    office.ok("seat", "give", f"eve of {name}", "runner")
    assert f"eve of {name}: runner of tenant 1" in office.ok("seat", "list")
    office.ok("seat", "take", f"eve of {name}", "runner")
    assert f"eve of {name}" not in office.ok("seat", "list")
    assert "no account" in office.refused(2, "seat", "give", "nobody", "labeler")
    assert "only an admin" in office.acting("developer").refused(5, "user", "list")
    assert office.ok("meters").startswith(f"{name} (developer), id ")


def test_a_meter_has_to_be_chosen_among_several(office: Office) -> None:
    name = office.name
    office.make()
    other = office.json("init", "--spec", "spec.toml", "--name", f"{name}-2")
    office.ok("--meter", f"{name}-2", "seat", "give", office.user("developer"), "developer")
    office.environment.delenv("METER_NAME")
    office.acting("developer")
    assert f"--meter: {name}, {name}-2" in office.refused(2, "status")
    assert office.json("status", "--meter", f"{name}-2")["meter"] == f"{name}-2"
    assert office.json("--meter", other["meter"], "status")["meter"] == f"{name}-2"
    assert "none of that name" in office.refused(2, "status", "--meter", "nothing")


def logged_in(desk: Desk, site: Live, monkeypatch: pytest.MonkeyPatch, password: str) -> Shown:
    monkeypatch.setattr("sys.stdin", io.StringIO(password + "\n"))
    return desk.run("login", "--server", site.address, "--name", f"ann of {desk.folder.name}")


def test_login_and_logout(site: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Desk(tmp_path)
    name = f"ann of {tmp_path.name}"
    users.add_user(SYSTEM, site.served.site, name, password=PASSWORD)
    refused = logged_in(desk, site, monkeypatch, "wrong password")
    assert (refused.code, refused.out) == (5, "")
    assert refused.err.startswith("meter: name or password is wrong")
    assert not credentials_file().exists()

    shown = logged_in(desk, site, monkeypatch, PASSWORD)
    assert shown.out.startswith(f"logged in at {site.address} as {name} until 20")
    assert credentials_file().stat().st_mode & 0o777 == 0o600
    kept = find(site.address)
    assert kept is not None
    assert kept.token not in shown.out + repr(kept)
    assert PASSWORD not in credentials_file().read_text()
    at_server = ("meters", "--server", f"{site.address}/")
    assert desk.run(*at_server).out == "no meter at which you have a seat\n"

    credentials_file().chmod(0o640)
    assert "others can read it: run chmod 600" in desk.run(*at_server).err
    credentials_file().chmod(0o600)

    assert desk.run("logout", "--server", site.address).out == f"logged out from {site.address}\n"
    with pytest.raises(Unauthenticated, match="revoked"):
        tokens.recognize(ANYONE, site.served.site, kept.token)
    assert desk.run(*at_server).code == 5
    assert "you are not logged in there" in desk.run("logout", "--server", site.address).err


def test_login_with_a_token(site: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Desk(tmp_path)
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


def test_logout_from_a_server_that_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with live(tmp_path / "server") as site:
        monkeypatch.setenv("METER_TOKEN", site.served.tokens["stranger"])
        assert Desk(tmp_path).run("login", "--server", site.address).code == 0
        monkeypatch.delenv("METER_TOKEN")
    shown = Desk(tmp_path).run("logout", "--server", site.address)
    assert shown.out == f"logged out from {site.address}\n"
    assert shown.err.startswith("warning: the token was not revoked: ")
    assert find(site.address) is None


@pytest.mark.parametrize(
    ("given", "address"),
    [
        ("https://Meter.Example.org/", "https://meter.example.org"),
        ("https://meter.example.org:8443/team/", "https://meter.example.org:8443/team"),
        ("http://localhost:8080", "http://localhost:8080"),
        ("http://[::1]:8080", "http://[::1]:8080"),
    ],
)
def test_addresses(given: str, address: str) -> None:
    assert server_address(given) == address


@pytest.mark.parametrize(
    "given", ["meter.example.org", "ftp://a", "https://", "https://a:b:c", "https://ann:pw@a"]
)
def test_no_addresses(given: str) -> None:
    with pytest.raises(InvalidInput, match="server: ") as refused:
        server_address(given)
    assert "pw" not in str(refused.value)


def test_a_token_is_not_sent_in_the_clear(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("METER_TOKEN", "emt_x")
    shown = Desk(tmp_path).run("status", "--server", "http://192.0.2.1:8080")
    assert shown.code == 2
    assert "https is needed" in shown.err
    monkeypatch.setenv("METER_INSECURE", "1")
    assert server_address("http://192.0.2.1:8080") == "http://192.0.2.1:8080"


def test_a_server_or_a_folder(site: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Desk(tmp_path)
    desk.init()
    both = desk.run("status", "-C", "meter", "--server", site.address)
    assert "give -C FOLDER or --server URL" in both.err
    monkeypatch.setenv("METER_SERVER", site.address)
    assert desk.json("status")["meter"] == "small"  # -C was typed
    monkeypatch.setenv("METER_FOLDER", "meter")
    assert "give -C FOLDER or --server URL" in desk.run("status").err
    assert "no token for it" in desk.run("--server", site.address, "status").err
    monkeypatch.delenv("METER_SERVER")
    assert "small" in desk.run("status", "--json").out
    assert "labels are here" in desk.run("testset", "requests").out


def test_without_httpx_one_line_says_what_to_install(
    site: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "httpx", None)
    monkeypatch.setenv("METER_TOKEN", "emt_x")
    shown = Desk(tmp_path).run("status", "--server", site.address)
    assert shown == Shown(
        1, "", "meter: the client needs httpx; run: pip install 'easeml-meter[client]'\n"
    )


def test_help_does_not_load_the_client() -> None:
    code = (
        "import sys; from easeml_meter.cli import meter; "
        "meter.main(['status', '--help'], standalone_mode=False); "
        "assert not {'httpx', 'easeml_meter.client', 'sqlalchemy'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)


def test_own_authority(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.server.process import started

    command = (
        "openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=localhost -days 1 "
        "-addext subjectAltName=IP:127.0.0.1 -keyout key.pem -out cert.pem"
    )
    subprocess.run(command.split(), cwd=tmp_path, check=True, capture_output=True)
    tls = ("--tls-certificate", str(tmp_path / "cert.pem"), "--tls-key", str(tmp_path / "key.pem"))
    desk = Desk(tmp_path)
    with started(tmp_path / "site", *tls) as server:
        assert server.token is not None
        monkeypatch.setenv("METER_TOKEN", server.token)
        shown = desk.run("meters", "--server", server.address)
        assert shown.code == 1
        assert "its certificate is not trusted here: give its authority with --ca" in shown.err
        trusted = desk.run("meters", "--server", server.address, "--ca", "cert.pem")
        assert trusted == Shown(0, "no meter at which you have a seat\n", "")
        wrong_file = desk.run("meters", "--server", server.address, "--ca", "key.pem")
        assert "no certificates (PEM) in it" in wrong_file.err


def test_ctrl_c_takes_a_waiting_model_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with live(tmp_path / "server", working=False) as site:
        office = Office(site, tmp_path, monkeypatch)
        office.ready(models=True)
        (tmp_path / "net.onnx").write_bytes(classifier(np.eye(2)))
        submit = "from easeml_meter.cli import main; main(['submit', '--onnx', 'net.onnx'])"
        popen = subprocess.Popen(
            [sys.executable, "-c", submit], cwd=tmp_path, stderr=subprocess.PIPE, text=True
        )
        developer = site.served.client(office.user("developer"))
        path = f"/meters/{office.json('meters')[0]['id']}/submissions"
        while not developer.get(path).json()["items"]:
            assert popen.poll() is None
        popen.send_signal(signal.SIGINT)
        _, err = popen.communicate(timeout=60)
        assert popen.returncode == 130
        assert err == "meter: interrupted: the submission was taken back, it cost nothing\n"
        assert developer.get(path).json()["items"] == []


class Stranger(http.server.BaseHTTPRequestHandler):
    """A server that is no meter's."""

    status = 404

    def do_GET(self) -> None:
        self.send_response(self.status)
        self.end_headers()
        self.wfile.write(b"<html>no such page</html>")

    def log_message(self, *_: object) -> None:
        pass


@pytest.mark.parametrize("status", [200, 302, 404])
def test_a_server_that_is_no_meters(
    status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("METER_TOKEN", "emt_x")
    monkeypatch.setattr(Stranger, "status", status)
    with http.server.HTTPServer(("127.0.0.1", 0), Stranger) as stranger:
        thread = threading.Thread(target=stranger.serve_forever)
        thread.start()
        shown = Desk(tmp_path).run("meters", "--server", f"http://127.0.0.1:{stranger.server_port}")
        stranger.shutdown()
        thread.join()
    assert shown.code == 1
    assert f"{status} answered, and not by a meter's server" in shown.err
