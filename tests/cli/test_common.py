"""What all commands share: where the meter is, how a server is reached, and exit codes."""

from __future__ import annotations

import http.server
import io
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.office import Office
from tests.cli.running import Captured
from tests.cli.workbench import (
    VALIDATION,
    Shown,
    Workbench,
    animal_spec,
    animals,
    ready,
    rows,
)
from tests.live import Live

from easeml_meter.cli.common import MeterPlace, next_step
from easeml_meter.client.connection import Connection
from easeml_meter.client.credentials import server_address
from easeml_meter.errors import Unreachable


@pytest.mark.parametrize("verb", ["status", "history", "audit", "release", "submit"])
def test_a_folder_without_a_meter(tmp_path: Path, verb: str) -> None:
    desk = Workbench(tmp_path)
    files = ["--test", "t.csv", "--validation", "v.csv"] if verb == "submit" else []
    assert "holds no meter" in desk.refused(2, verb, *files)
    (tmp_path / "meter").mkdir()
    assert "holds no meter" in desk.refused(2, verb, *files)
    assert list((tmp_path / "meter").iterdir()) == []


def test_the_folder_may_come_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Workbench(tmp_path).init()
    monkeypatch.setenv("METER_FOLDER", "meter")
    assert "test set 1: requested" in Workbench(tmp_path).run("status").out


def test_exit_code_4_not_the_time_for_it(tmp_path: Path) -> None:
    desk = Workbench(tmp_path)
    labels = animals(desk.init())
    files = desk.predictions(labels, VALIDATION)
    assert "no test set yet" in desk.refused(4, "submit", *files)
    assert "no test set yet" in desk.refused(4, "testset", "inputs", "--out", "i.parquet")
    assert "only a spent one" in desk.refused(4, "release")
    validation = desk.write("validation", rows(VALIDATION, seed=1))
    assert "no validation set yet" in desk.refused(4, "validation", "replace", validation, "--yes")
    desk.deliver(labels)
    assert "no validation set yet" in desk.refused(4, "submit", *files)
    again = ["seal", "test-0.csv", "--label", "label", "--out", "again.sealed"]
    assert "no other one is needed" in desk.refused(4, *again)
    desk.validate(VALIDATION)
    given = ["validation", "set", validation, "--label", "label"]
    assert "meter validation replace" in desk.refused(4, *given)


def test_exit_code_5_not_allowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Workbench(tmp_path)
    labels = ready(desk, inputs="hidden")
    monkeypatch.setenv("METER_ROLE", "developer")
    assert "developers may not release" in desk.refused(5, "release")
    for verb in (
        ["testset", "add", "test-0.sealed"],
        ["testset", "notices"],
        ["testset", "inputs", "--out", "inputs.parquet"],
        ["seal", "test-0.csv", "--label", "label", "--out", "z.sealed"],
    ):
        desk.refused(5, *verb)
    assert not (tmp_path / "inputs.parquet").exists()
    assert desk.submit(labels, VALIDATION)["step"] == 1
    monkeypatch.setenv("METER_ROLE", "labeler")
    desk.refused(5, "submit", *desk.predictions(labels, VALIDATION, name="b"))
    monkeypatch.setenv("METER_ROLE", "king")
    assert "one of developer, labeler, runner, admin, owner" in desk.refused(2, "status")


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


def test_a_token_is_not_sent_in_the_clear(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("METER_TOKEN", "emt_x")
    shown = Workbench(tmp_path).run("status", "--server", "http://192.0.2.1:8080")
    assert shown.code == 2
    assert "https is needed" in shown.err
    monkeypatch.setenv("METER_INSECURE", "1")
    assert server_address("http://192.0.2.1:8080") == "http://192.0.2.1:8080"


def test_a_server_or_a_folder(site: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Workbench(tmp_path)
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
    assert "labels have arrived" in desk.run("testset", "requests").out


def test_without_httpx_one_line_says_what_to_install(
    site: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "httpx", None)
    monkeypatch.setenv("METER_TOKEN", "emt_x")
    shown = Workbench(tmp_path).run("status", "--server", site.address)
    assert shown == Shown(
        1, "", "meter: the client needs httpx; run: pip install 'easeml-meter[client]'\n"
    )


def test_own_authority(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.server.process import started

    command = (
        "openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=localhost -days 1 "
        "-addext subjectAltName=IP:127.0.0.1 -keyout key.pem -out cert.pem"
    )
    subprocess.run(command.split(), cwd=tmp_path, check=True, capture_output=True)
    tls = ("--tls-certificate", str(tmp_path / "cert.pem"), "--tls-key", str(tmp_path / "key.pem"))
    desk = Workbench(tmp_path)
    with started(tmp_path / "site", *tls) as server:
        assert server.token is not None
        monkeypatch.setenv("METER_TOKEN", server.token)
        shown = desk.run("meters", "--server", server.address)
        assert shown.code == 1
        assert "its certificate is not trusted here: give its authority with --ca" in shown.err
        trusted = desk.run("meters", "--server", server.address, "--ca", "cert.pem")
        assert trusted == Shown(0, "you have no seat at any meter\n", "")
        wrong_file = desk.run("meters", "--server", server.address, "--ca", "key.pem")
        assert "no certificates (PEM) in it" in wrong_file.err


class Stranger(http.server.BaseHTTPRequestHandler):
    """A server that is no meter's."""

    status = 404
    body = b"<html>no such page</html>"

    def do_GET(self) -> None:
        self.send_response(self.status)
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def stranger(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of a server that is no meter's."""
    monkeypatch.setenv("METER_TOKEN", "emt_x")
    with http.server.HTTPServer(("127.0.0.1", 0), Stranger) as found:
        thread = threading.Thread(target=found.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{found.server_port}"
        found.shutdown()
        thread.join()


@pytest.mark.parametrize("status", [200, 302, 404])
def test_a_server_that_is_no_meters(
    status: int, stranger: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Stranger, "status", status)
    shown = Workbench(tmp_path).run("meters", "--server", stranger)
    assert shown.code == 1
    assert f"{status} answered, and not by a meter's server" in shown.err


@pytest.mark.parametrize("body", ["", "null", "[]", "{}", '"ok"', '{"items": [{}], "next": null}'])
@pytest.mark.parametrize("command", ["meters", "login", f"status --meter {'0' * 32}"])
def test_a_server_that_speaks_json_and_is_no_meters(
    command: str, body: str, stranger: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, these ended in a KeyError or TypeError."""
    monkeypatch.setattr(Stranger, "status", 200)
    monkeypatch.setattr(Stranger, "body", body.encode())
    shown = Workbench(tmp_path).run(*command.split(), "--server", stranger)
    assert (shown.code, shown.out, shown.err.count("\n")) == (1, "", 1)
    assert f"meter: {stranger}: " in shown.err
    assert "a meter's server" in shown.err


@pytest.mark.parametrize(
    ("server", "proxy"),
    [
        ("https://a..b", ""),
        (f"https://{'a' * 70}.example", ""),
        ("https://meter.example.org", "socks5://127.0.0.1:9"),
        ("https://meter.example.org", "socks://127.0.0.1:9"),
        ("https://meter.example.org", "http://127.0.0.1:nine"),
    ],
)
def test_addresses_and_proxies_that_cannot_be_used(
    server: str, proxy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, these ended in a traceback."""
    monkeypatch.setenv("METER_TOKEN", "emt_x")
    monkeypatch.setenv("ALL_PROXY", proxy)
    shown = Workbench(tmp_path).run("meters", "--server", server)
    assert (shown.out, shown.err.count("\n")) == ("", 1)
    if proxy:
        assert shown.code == 1
        assert "the proxy that the environment names (HTTPS_PROXY, ALL_PROXY)" in shown.err
    else:
        assert shown.code == 2
        assert shown.err.startswith("meter: server: ")


@pytest.mark.parametrize(
    "typed",
    [
        "login --name {}",
        "user add {}",
        "promote {}",
        "submit --test a.csv --validation a.csv --id {}",
    ],
)
def test_words_that_are_no_text_are_refused(
    typed: str, office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bytes of a command line that are no UTF-8; before, these ended in a UnicodeEncodeError."""
    office.make()
    office.acting("admin" if typed.startswith("user") else "developer")
    office.write("a", {"id": [1], "prediction": ["cat"]})
    monkeypatch.setattr("sys.stdin", io.StringIO("correct horse battery\n"))
    shown = office.run(*typed.format("caf\udce9").split())
    assert (shown.code, shown.out, shown.err.count("\n")) == (2, "", 1)
    assert "UTF-8" in shown.err


def test_every_command_that_leaves_a_next_step_says_it(tmp_path: Path) -> None:
    desk = Workbench(tmp_path)
    animal_spec(steps=1, inputs="public").write(tmp_path / "spec.toml")
    made = desk.ok("init", "--spec", "spec.toml", "--name", "small")
    assert made.endswith("\nNext: meter seal DATA --label COLUMN --out testset.sealed -C meter\n")
    labels = animals(desk.json("status")["labels_needed"])
    name = desk.write("hidden", rows(labels, seed=0))
    sealed = desk.ok("seal", name, "--label", "label", "--id", "id", "--out", "a test.sealed")
    assert sealed.endswith("\nNext: meter testset add 'a test.sealed' -C meter\n")
    added = desk.ok("testset", "add", "a test.sealed")
    wanted = "Next, for developers: meter validation set DATA --label COLUMN -C meter\n"
    assert added.endswith(wanted)
    inputs = "\nNext: meter testset inputs --out inputs.parquet -C meter\n"
    submit = "meter submit --test PREDICTIONS --validation PREDICTIONS --model NAME -C meter\n"
    first = desk.validate(VALIDATION)
    assert first.endswith(inputs)
    assert desk.ok("testset", "inputs", "--out", "inputs.parquet").endswith(f"\nNext: {submit}")
    assert desk.validate(VALIDATION, verb="replace", seed=7).endswith(f"\nNext: {submit}")
    told = desk.ok("submit", *desk.predictions(labels, VALIDATION))
    assert told.endswith("\nNext, for labelers: meter release -C meter\n")
    released = desk.ok("release")
    assert released.endswith("--out testset.sealed -C meter\n")
    assert "\nNext, for labelers: meter seal DATA" in released


@pytest.mark.parametrize(
    ("place", "options"),
    [
        (MeterPlace(), " -C ."),
        (MeterPlace(Path("a b")), " -C 'a b'"),
        (MeterPlace(server="https://a", meter="m", ca=Path("a.pem")), ""),
        (MeterPlace(server="https://b", meter="m", ca=Path("a.pem")), " --server https://b"),
        (MeterPlace(server="https://a", meter="n", ca=Path("a.pem")), " --meter n"),
        (MeterPlace(server="https://a", meter="m", ca=Path("b.pem")), " --ca b.pem"),
    ],
)
def test_a_next_step_leads_to_the_same_meter_whatever_the_environment_names(
    place: MeterPlace, options: str, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, it led to the server and meter of the environment, and lacked --ca."""
    for name, value in {"SERVER": "https://a", "NAME": "m", "CA": "a.pem"}.items():
        monkeypatch.setenv(f"METER_{name}", value)
    next_step(place, "status")
    assert capsys.readouterr().out == f"Next: meter status{options}\n"


@pytest.mark.parametrize(
    ("place", "options"),
    [(MeterPlace(), " -C ."), (MeterPlace(server="https://a"), " --server https://a")],
)
def test_a_next_step_leads_past_the_folder_of_the_environment(
    place: MeterPlace, options: str, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It led to that folder, or was refused for naming a folder and a server."""
    monkeypatch.setenv("METER_FOLDER", "other")
    if place.server is not None:
        monkeypatch.setenv("METER_SERVER", place.server)
    next_step(place, "status")
    assert capsys.readouterr().out == f"Next: meter status{options}\n"


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ("plan", "labels: nothing given, say how many can stay hidden: meter plan --labels 500"),
        ("plan --steps 0 --tolerance 0.1", "steps: 0 given, it must be a whole number, 1 or more"),
        (
            "plan --steps 9 --tolerance 0.01 --loss f1",
            "'f1' given, say which class is the positive",
        ),
        ("submit a.csv b.csv", "a.csv b.csv: say what they are: meter submit --test PREDICTIONS"),
        ("submit", "nothing to submit: meter submit --test PREDICTIONS --validation PREDICTIONS"),
        ("submit --onnx a.onnx --command ls", "--onnx and --command' given, one of them: meter"),
        ("plan --steps 9 --tolerance 0.01 --edges 0.2,0.1", "they must rise, as 0.1,0.2 do"),
        ("report --svg x.html", "svg: 'x.html' given, a file name that ends in .svg"),
        ("worker", "database: nothing given, name the server's with --database postgresql://"),
    ],
)
def test_natural_mistakes_are_told_what_to_type(tmp_path: Path, typed: str, words: str) -> None:
    assert words in Workbench(tmp_path).run(*typed.split()).err


def test_a_missing_key_is_brought_back_from_a_backup(tmp_path: Path) -> None:
    desk = Workbench(tmp_path)
    labels = ready(desk)
    (tmp_path / "meter" / ".meter" / "keys" / "meter.key").unlink()
    files = desk.predictions(labels, VALIDATION)
    refused = desk.refused(2, "submit", *files)
    assert "meter.key: there is no key file" in refused
    assert "bring it back from a backup" in refused


def test_a_column_that_was_nearly_named_is_proposed(tmp_path: Path) -> None:
    """Before, only the first five columns were listed, and labels usually come last."""
    desk = Workbench(tmp_path)
    labels = animals(desk.init())
    many = {f"c{i}": [0] * len(labels) for i in range(6)}
    name = desk.write("wide", many | rows(labels, seed=0))
    for given in ("Label", "labels"):
        seal = ["seal", name, "--label", given, "--out", "x.sealed"]
        assert f"no column '{given}' (did you mean 'label'? there" in desk.refused(2, *seal)


def test_where_the_classes_are_not_known_the_validation_set_comes_first(tmp_path: Path) -> None:
    """Before, nothing said so, and sealing ended in "the classes are not known yet"."""
    animal_spec(classes=()).write(tmp_path / "spec.toml")
    made = Workbench(tmp_path).ok("init", "--spec", "spec.toml", "--name", "small")
    assert made.endswith("\nNext: meter validation set DATA --label COLUMN -C meter\n")


def test_after_an_answer_status_says_what_to_do_unless_a_gate_judges(tmp_path: Path) -> None:
    desk = Workbench(tmp_path)
    labels = ready(desk)
    files = desk.predictions(labels, VALIDATION)
    assert desk.ok("submit", *files).endswith(
        "\nNext, for what this rests on: meter status -C meter\n"
    )
    assert "Next" not in desk.ok("submit", *files, "--fail-above", "2")


def test_where_inputs_are_hidden_a_model_is_the_next_submission(tmp_path: Path) -> None:
    desk = Workbench(tmp_path)
    desk.init(inputs="hidden", models=True)
    desk.deliver(animals(desk.json("status")["labels_needed"]))
    assert desk.validate(VALIDATION).endswith("\nNext: meter submit --onnx MODEL -C meter\n")


def test_what_is_said_of_a_proxy_helps(monkeypatch: pytest.MonkeyPatch) -> None:
    """The advice was to name the server in NO_PROXY, but all proxies are made ready even so."""
    monkeypatch.setenv("ALL_PROXY", "socks5://127.0.0.1:9")
    server = "https://meter.example.org"
    with pytest.raises(Unreachable) as refused:
        Connection(server)
    advice = re.search(r"NO_PROXY='(.+)'$", str(refused.value))
    assert advice
    monkeypatch.setenv("NO_PROXY", advice[1])
    Connection(server).close()


def test_a_folder_holds_the_meter_that_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name beside a folder was ignored."""
    desk = Workbench(tmp_path)
    desk.init()
    monkeypatch.setenv("METER_NAME", "of-a-server")
    desk.ok("status", "--meter", "small")
    assert "the one in this folder is 'small'" in desk.refused(2, "status", "--meter", "foo")
    desk.ok("status")
    desk.ok("report", "out.html")
    assert (tmp_path / "out.html").read_text().startswith("<!")
