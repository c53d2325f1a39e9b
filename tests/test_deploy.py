"""What `deploy` says: settings that exist, probes that answer, a key that stays, hardened units."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml
from redteam.starting import NGINX, proxied
from tests.forking import shims
from tests.nodes import ROOT
from tests.service.sites import make_room, make_site

from easeml_meter.cli import meter
from easeml_meter.server.settings import ENVIRONMENT, Settings, read_settings
from easeml_meter.server.worker import prepare

DEPLOY = ROOT / "deploy"
PAGE = (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")
MANIFESTS = sorted(DEPLOY.glob("kubernetes/*.yaml"))
ACCOUNT = 10001


def compose() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
    return loaded


def objects(kind: str) -> dict[str, Any]:
    """Return the objects of one kind in all manifests, by name."""
    texts = [path.read_text(encoding="utf-8") for path in MANIFESTS]
    found = [each for text in texts for each in yaml.safe_load_all(text)]
    return {each["metadata"]["name"]: each for each in found if each["kind"] == kind}


def instructions() -> list[str]:
    text = (DEPLOY / "Containerfile").read_text(encoding="utf-8").replace("\\\n", "")
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def test_the_image_runs_unprivileged_and_starts_a_server() -> None:
    last = instructions()[[line.startswith("FROM") for line in instructions()].index(True) + 1 :]
    assert f"USER {ACCOUNT}:{ACCOUNT}" in last
    assert last[-2:] == ['ENTRYPOINT ["meter"]', 'CMD ["serve"]']
    installed = next(line for line in reversed(last) if "apt-get install" in line)
    for package in ("bubblewrap", "util-linux", "ca-certificates", "python3", "restic"):
        assert package in installed.split()


@pytest.mark.verify
def test_the_tools_that_read_these_files_take_them() -> None:
    """Kubernetes' schemas and promtool (a test for each alert), by `make manifests`."""
    done = subprocess.run(
        ["sh", "scripts/manifests.sh"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode == 77:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("passed for resource") == sum(
        len(list(yaml.safe_load_all(path.read_text(encoding="utf-8")))) for path in MANIFESTS
    )


HEAD = b"GET / HTTP/1.1\r\nHost: a\r\n"
BODY = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n{"
ARRIVED = threading.Semaphore(0)
"""Counts the heads of requests with bodies that came through the proxy."""
LITTLE = {
    **dict.fromkeys(("client_header_timeout", "client_body_timeout", "keepalive_timeout"), "1s"),
    "worker_connections": "64",
}


def test_nginx_takes_its_file(tmp_path: Path) -> None:
    made = ["-keyout", str(tmp_path / "tls.key"), "-out", str(tmp_path / "tls.pem")]
    key = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=meter", *made]
    subprocess.run(key, check=True, capture_output=True)
    text = (DEPLOY / "nginx.conf").read_text(encoding="utf-8")
    for place in ("/tmp/", "/run/secrets/"):  # noqa: S108 - a path in the container
        text = text.replace(place, f"{tmp_path}/")
    (tmp_path / "nginx.conf").write_text(text)
    words = [NGINX, "-t", "-q", "-e", "stderr", "-c", str(tmp_path / "nginx.conf")]
    assert subprocess.run(words, capture_output=True, text=True, check=False).stderr == ""


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """A server that answers what has a body when it has all of it."""

    class Server(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(204)
            self.end_headers()

        def do_POST(self) -> None:
            ARRIVED.release()
            self.rfile.read(int(self.headers["Content-Length"]))

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as it is called
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Server) as serving:
        threading.Thread(target=serving.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{serving.server_port}"
        serving.shutdown()


@pytest.fixture(scope="module")
def proxy(server: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The proxy before it, with little time and few places."""
    with proxied(tmp_path_factory.mktemp("proxy"), server, **LITTLE) as found:
        yield found


def connected(proxy: str, source: str = "127.0.0.1") -> socket.socket:
    place = ("127.0.0.1", int(proxy.rpartition(":")[2]))
    return socket.create_connection(place, 30, (source, 0))


@pytest.mark.slow
@pytest.mark.parametrize("sent", [b"", HEAD, HEAD + b"\r\n", BODY])
def test_the_proxy_ends_connections_that_say_nothing_more(proxy: str, sent: bytes) -> None:
    """Without a head, with half of one, after an answer, and in the middle of a body."""
    with connected(proxy) as wire:
        wire.sendall(sent)
        with suppress(ConnectionResetError):
            while wire.recv(1 << 16):
                pass


@pytest.mark.slow
def test_a_crowd_before_the_proxy_keeps_nobody_out(proxy: str) -> None:
    with ExitStack() as held:
        for number in range(200):
            held.enter_context(connected(proxy, f"127.1.0.{number + 1}"))
        with connected(proxy) as wire:
            wire.sendall(HEAD + b"\r\n")
            assert wire.recv(1 << 16).startswith(b"HTTP/1.1 204 ")


@pytest.mark.slow
def test_an_address_has_its_share_of_requests_under_way_and_all_have_theirs(
    server: str, tmp_path: Path
) -> None:
    few = {"limit_conn address": "3", "limit_conn all": "5"}
    while ARRIVED.acquire(blocking=False):  # of the tests before
        pass
    with proxied(tmp_path, server, **few) as proxy, ExitStack() as held:

        def hold(source: str, count: int) -> None:
            for _ in range(count):
                held.enter_context(connected(proxy, source)).sendall(BODY)
                assert ARRIVED.acquire(timeout=60)

        def refused(source: str) -> bool:
            with connected(proxy, source) as wire:
                wire.sendall(HEAD + b"\r\n")
                return wire.recv(1 << 16).startswith(b"HTTP/1.1 503 ")

        hold("127.0.0.1", 3)
        assert refused("127.0.0.1")
        hold("127.0.0.2", 2)
        assert refused("127.0.0.3")


@pytest.mark.parametrize("place", ["deploy/nginx.conf", "docs/server.md"])
def test_the_proxy_passes_on_no_id_of_a_request_that_its_sender_made_up(place: str) -> None:
    """The server believes a trusted proxy, and nginx passes on what it is not told to set."""
    text = (ROOT / place).read_text(encoding="utf-8")
    assert "proxy_set_header X-Request-Id $request_id;" in text


@pytest.mark.parametrize("place", ["deploy/nginx.conf", "docs/server.md"])
def test_the_proxy_logs_no_query(place: str) -> None:
    """The server keeps names of models and codes of sign-ins out of its log."""
    text = (ROOT / place).read_text(encoding="utf-8")
    (layout,) = re.findall(r"log_format short '(.*)';", text)
    assert not re.search(r"\$(request|request_uri|args|query_string|http_referer)\b", layout)
    assert re.search(r"access_log +\S+ short;", text)
    assert re.search(r"error_log +\S+ crit;", text)


def settings_in(environment: dict[str, str], tmp_path: Path) -> Any:
    """Read the settings as the server would; values that are filled in later get a stand-in."""
    filled = {name: re.sub(r"\$\{\w+:\?\}", "x", text) for name, text in environment.items()}
    named = {name for name in filled if name.startswith(ENVIRONMENT)}
    assert len(named) >= 5
    return read_settings(None, filled, {"folder": tmp_path})


def test_the_variables_of_compose_are_settings(tmp_path: Path) -> None:
    for name in ("api1", "worker2"):
        found = settings_in(compose()["services"][name]["environment"], tmp_path)
        assert found.database.startswith("postgresql://")
        assert found.files.startswith("s3://")
        network = compose()["networks"]["inside"]["ipam"]["config"][0]["subnet"]
        assert found.trusted_proxy == (network,)
        assert not found.in_the_clear


def test_the_variables_of_kubernetes_are_settings(tmp_path: Path) -> None:
    found = settings_in(objects("ConfigMap")["meter"]["data"], tmp_path)
    assert found.key_file == Path("/srv/key/server.key")
    assert "meter" in found.allowed_host  # the name in the probes


def pods() -> dict[str, Any]:
    """Return the specification of every pod, by what makes it."""
    made = {name: each["spec"] for name, each in objects("Deployment").items()}
    made |= {name: each["spec"]["jobTemplate"]["spec"] for name, each in objects("CronJob").items()}
    return {name: each["template"]["spec"] for name, each in made.items()}


@pytest.mark.parametrize("name", ["meter-api", "meter-worker", "meter-backup"])
def test_no_pod_can_write_the_key_that_it_runs_with(name: str) -> None:
    """A new key of `meter key rotate` would seal everything, and be lost with the pod."""
    pod = pods()[name]
    for container in pod["containers"]:
        (key,) = [each for each in container["volumeMounts"] if each["name"] == "key"]
        assert key.get("readOnly") is True
    (first,) = pod["initContainers"]
    assert {"name": "key", "mountPath": "/srv/key"} in first["volumeMounts"]  # it copies the key


RESTIC = """#!/bin/sh
echo "$@" >>restic.log
case "$*" in
  "cat config") test -e repository ;;
  init) : >repository ;;
  "backup "*) cat >repository ;;
  "dump "*) cat repository ;;
esac
"""


def test_a_backup_is_verified_as_restic_gives_it_back_before_old_ones_are_dropped(
    tmp_path: Path,
) -> None:
    """It was called sound, and the last good backup was dropped for it."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "restic").write_text(RESTIC)
    (tmp_path / "bin" / "restic").chmod(0o755)
    site = make_site(tmp_path / "site", f"sqlite:///{tmp_path}/site/meter.db")
    prepare(site)
    make_room(site, tmp_path / "room").submit(1, model="a")
    site.close()
    environment = os.environ | {
        "PATH": f"{tmp_path}/bin:{shims()}:/usr/bin:/bin",
        "TMPDIR": str(tmp_path),
        "METER_SERVER_FOLDER": str(tmp_path / "site"),
    }
    log = tmp_path / "restic.log"

    def backed_up() -> tuple[int, list[str]]:
        log.unlink(missing_ok=True)
        done = subprocess.run(
            [DEPLOY / "meter-backup"],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert not (tmp_path / "meter.tar").exists()
        return done.returncode, log.read_text().splitlines()

    added = "backup --host meter --stdin --stdin-filename meter.tar"
    dropped = "forget --host meter --keep-last 30 --prune"
    code, calls = backed_up()
    assert (code, calls[:2], calls[3], calls[-1]) == (0, ["cat config", "init"], added, dropped)
    noted = (tmp_path / "site" / "files" / "server.backup").read_text()
    (tmp_path / "site" / "files" / "meters").rename(tmp_path / "away")
    code, calls = backed_up()
    assert (code, added in calls, dropped in calls) == (1, True, False)
    assert calls[-1] == "forget --host meter latest"
    assert (tmp_path / "site" / "files" / "server.backup").read_text() == noted


def test_all_ways_make_backups_with_one_script() -> None:
    backup = compose()["services"]["backup"]
    assert "if meter-backup; then" in backup["command"][0]
    assert pods()["meter-backup"]["containers"][0]["command"] == ["meter-backup"]
    assert "COPY deploy/meter-backup /usr/bin/meter-backup" in instructions()
    # It is verified by restoring all of it, which may be more than the memory.
    assert backup["tmpfs"] == []
    assert "/tmp" in backup["volumes"]  # noqa: S108 - a path in the container


def test_compose_has_one_service_that_changes_the_key_and_it_never_starts_by_itself() -> None:
    services = compose()["services"]
    rotate = services["rotate"]
    assert (rotate["command"], rotate["restart"]) == (["key", "rotate"], "no")
    assert rotate["profiles"] == ["rotate"]
    writing = {name for name, each in services.items() if "key:/srv/key" in each.get("volumes", ())}
    assert writing == {"first", "rotate"}


def test_probes_ask_what_the_server_answers() -> None:
    api = objects("Deployment")["meter-api"]["spec"]["template"]["spec"]["containers"][0]
    paths = {
        name: api[f"{name}Probe"]["httpGet"]["path"]
        for name in ("startup", "liveness", "readiness")
    }
    assert paths == {"startup": "/healthz", "liveness": "/healthz", "readiness": "/readyz"}


UNITS = DEPLOY / "systemd"
SYSTEMD = "systemd-analyze"
"""`make for-work` installs it (SYSTEM_PACKAGES): without it, these tests fail rather than skip."""


def set_in(name: str, setting: str) -> list[str]:
    """Return what a unit sets a setting to, in its order."""
    text = (UNITS / name).read_text(encoding="utf-8")
    return re.findall(rf"^{setting}=(.*)$", text, re.MULTILINE)


def units_here(folder: Path) -> list[Path]:
    """Write the units into a folder, with a program that is on this machine."""
    for path in UNITS.iterdir():
        text = path.read_text(encoding="utf-8").replace("/opt/meter/bin/", "/bin/")
        (folder / path.name).write_text(re.sub("/bin/meter(-backup)? ", "/bin/true ", text))
    return sorted(folder.iterdir())


def problems(units: list[Path]) -> list[str]:
    """Return what systemd says of these units, and not of those of this machine."""
    words = [SYSTEMD, "verify", *map(str, units)]
    verified = subprocess.run(words, capture_output=True, text=True, check=False)
    names = [unit.name for unit in units]
    return [line for line in verified.stderr.splitlines() if any(name in line for name in names)]


def test_systemd_takes_the_units(tmp_path: Path) -> None:
    units = units_here(tmp_path)
    assert problems(units) == []
    backup = tmp_path / "meter-backup.service"
    backup.write_text(backup.read_text().replace("oneshot", "sometimes"))
    assert problems(units) != []


@pytest.mark.parametrize(
    ("name", "most"),
    [("meter.service", 1.5), ("meter-worker.service", 3.2), ("meter-backup.service", 1.5)],
)
def test_the_units_are_hardened(tmp_path: Path, name: str, most: float) -> None:
    """`most`: the most exposure that `systemd-analyze security` may find, of 10."""
    units_here(tmp_path)
    words = ("security", "--offline=true", "--no-pager", f"--threshold={10 * most:.0f}")
    judged = subprocess.run(
        [SYSTEMD, *words, str(tmp_path / name)], capture_output=True, text=True, check=False
    )
    assert judged.returncode == 0, judged.stdout.splitlines()[-1]


def test_only_the_unit_that_runs_models_may_make_namespaces() -> None:
    for name in ("meter.service", "meter-backup.service"):
        assert set_in(name, "RestrictNamespaces") == ["yes"]
    assert "user mnt pid" in set_in("meter-worker.service", "RestrictNamespaces")[0]
    for hiding in ("ProtectProc", "ProcSubset", "ProtectKernelTunables", "ProtectHostname"):
        assert set_in("meter-worker.service", hiding) == []


def test_units_run_commands_that_there_are_and_stop_only_the_program_itself() -> None:
    """A model that got SIGTERM would be answered "no reading", and charged."""
    for path in UNITS.glob("*.service"):
        for line in set_in(path.name, "ExecStart(?:Pre)?"):
            program, *words = line.removeprefix("-").split()
            if program == "/opt/meter/bin/meter-backup":
                words = ["backup", "out.tar", *words]
            else:
                assert program == "/opt/meter/bin/meter"
            name, *words = words
            context = meter.make_context("meter", ["plan"])
            command = meter.get_command(context, name)
            assert command is not None
            command.make_context(name, words, parent=context)  # refuses what it does not know
        # Those of S3 (AWS_...) are no settings of the program.
        assert set_in(path.name, "EnvironmentFile") == ["-/etc/meter.env"]
        if "oneshot" not in set_in(path.name, "Type"):
            assert set_in(path.name, "KillMode") == ["mixed"]
            assert int(set_in(path.name, "TimeoutStopSec")[0]) > Settings().shutdown_seconds
