"""What `deploy` and docs/deploy.md say: safe as promised, and of one mind with the program."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import socket
import ssl
import subprocess
import sys
import threading
import time
import tomllib
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml
from tests.nodes import ROOT

from easeml_meter.cli import meter
from easeml_meter.server.settings import ENVIRONMENT, Settings, read_settings
from easeml_meter.version import __version__

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
    for package in ("bubblewrap", "util-linux", "ca-certificates", "python3"):
        assert package in installed.split()


NOT_FOR_SERVERS = {"charts", "client", "lab", "mcp", "onnx", "test"}
"""Extras for people's own machines, and those that `server` brings along."""


def extras_for_servers() -> set[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return {*project["optional-dependencies"]} - NOT_FOR_SERVERS


def test_the_image_can_do_all_that_a_server_and_a_worker_can() -> None:
    (extras,) = re.findall(r"'/source\[(.*)\]'", "\n".join(instructions()))
    assert {*extras.split(",")} == extras_for_servers()


def test_the_page_names_every_extra_that_a_server_may_need() -> None:
    table = PAGE.partition("| extra | for |")[2].partition("\n\n")[0]
    assert {*re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)} == extras_for_servers()


def test_the_image_is_built_from_what_it_needs_and_nothing_else() -> None:
    ignored = (ROOT / ".containerignore").read_text(encoding="utf-8")
    assert ignored == (ROOT / ".dockerignore").read_text(encoding="utf-8")
    let_in = {line[1:] for line in ignored.splitlines() if line.startswith("!")}
    copied = [
        line.split()[1:-1]
        for line in instructions()
        if line.startswith("COPY") and "--" not in line
    ]
    assert {name for names in copied for name in names} == let_in
    assert [name for name in let_in if not (ROOT / name).exists()] == []


def test_compose_starts_two_apis_behind_a_proxy_and_two_workers() -> None:
    services = compose()["services"]
    assert set(services) == {
        *("postgres", "store", "first", "bucket", "proxy", "rotate"),
        *("api1", "api2", "worker1", "worker2", "backup"),
    }
    proxy = (DEPLOY / "nginx.conf").read_text(encoding="utf-8")
    (alias,) = re.findall(r"set \$api (\w+);", proxy)
    assert "proxy_pass http://$api:8080;" in proxy
    named = [
        name
        for name, each in services.items()
        if isinstance(each["networks"], dict)
        and alias in (each["networks"]["inside"] or {}).get("aliases", ())
    ]
    assert named == ["api1", "api2"]
    for name in ("api1", "api2", "worker1", "worker2", "backup"):
        assert services[name]["read_only"]
        assert services[name]["cap_drop"] == ["ALL"]
        assert "no-new-privileges:true" in services[name]["security_opt"]
        assert "key:/srv/key:ro" in services[name]["volumes"]
    assert [name for name, each in services.items() if "ports" in each] == ["proxy"]


def test_compose_restores_a_backup_to_disk_and_not_to_memory() -> None:
    """A backup is verified by restoring all of it, which may be more than the memory."""
    backup = compose()["services"]["backup"]
    assert backup["tmpfs"] == []
    assert "/tmp" in backup["volumes"]  # noqa: S108 - a path in the container


def mounted(service: dict[str, Any], place: str) -> str:
    """Return the volume that a path of a service lies on."""
    pairs = [re.findall(r"(\$\{.*?\}|[^:]+)", each) for each in service["volumes"]]
    (found,) = [each[0] for each in pairs if each[1:] and place.startswith(f"{each[1]}/")]
    return str(found)


def test_the_store_of_compose_lets_in_only_who_has_the_secret(tmp_path: Path) -> None:
    """SeaweedFS lets everyone in without identities, which this release takes from a file alone."""
    services = compose()["services"]
    store, first = services["store"], services["first"]
    (config,) = [word for word in store["command"] if word.startswith("-s3.config=")]
    place = config.partition("=")[2]
    # /etc/seaweedfs has a file of the image, and a volume would hide it.
    assert not place.startswith("/etc/seaweedfs/")
    assert mounted(store, place) == mounted(first, place)
    assert f"{mounted(store, place)}:{Path(place).parent}:ro" in store["volumes"]
    # It does not start without the file, so what makes the file cannot wait for it.
    assert store["depends_on"] == {"first": {"condition": "service_completed_successfully"}}
    assert not first["depends_on"]

    for folder in ("key", "backups", "identities"):
        (tmp_path / folder).mkdir()
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "chown").write_text("#!/bin/sh\n")  # the account of the image need not exist here
    (tools / "chown").chmod(0o755)
    given = 'with "quotes" and \\'
    environment = {
        "PATH": f"{tools}:{Path(sys.executable).parent}:/usr/bin:/bin",
        "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
        "AWS_ACCESS_KEY_ID": first["environment"]["AWS_ACCESS_KEY_ID"],
        "AWS_SECRET_ACCESS_KEY": given,
    }
    (script,) = first["command"]
    assert "$" not in script  # compose would take it for a variable of its own
    for _ in range(2):  # at every start
        subprocess.run(
            [*first["entrypoint"], script.replace("/srv/", f"{tmp_path}/")],
            env=environment,
            check=True,
        )
    made = tmp_path / Path(place).relative_to("/srv")
    assert made.stat().st_mode & 0o777 == 0o600
    (identity,) = json.loads(made.read_text())["identities"]
    assert identity["credentials"] == [{"accessKey": "meter", "secretKey": given}]
    assert {*identity["actions"]} == {"Admin", "Read", "Write", "List"}


def test_only_who_has_the_secret_reaches_the_store_of_compose() -> None:
    """Its S3 asks for the secret; its other ports, such as that of its filer, ask for nothing."""
    services = compose()["services"]
    (network,) = services["store"]["networks"]
    beside = {name for name, each in services.items() if network in each["networks"]} - {"store"}
    assert beside == {"bucket", "api1", "api2", "worker1", "worker2", "backup", "rotate"}
    for name in beside:
        assert "S3_SECRET" in services[name]["environment"]["AWS_SECRET_ACCESS_KEY"]


class Strict(yaml.SafeLoader):  # type: ignore[misc]
    """Refuses what YAML lets the last one win of: a key that comes twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [each.value for each, _ in node.value if each.tag.endswith(":str")]
        assert sorted({*keys}) == sorted(keys), keys
        made: dict[Any, Any] = super().construct_mapping(node, deep)
        return made


SERVICE = {
    *("image", "build", "command", "entrypoint", "environment", "user", "init", "read_only"),
    *("tmpfs", "volumes", "ports", "networks", "depends_on", "healthcheck", "restart"),
    *("cap_add", "cap_drop", "security_opt", "profiles", "stop_grace_period"),
}
"""What compose knows of a service, as far as it is used here."""


def test_compose_names_nothing_that_is_not_there() -> None:
    text = (DEPLOY / "compose.yaml").read_text(encoding="utf-8")
    found = yaml.load(text, Strict)  # noqa: S506 - a safe loader
    services, inside = found["services"], {"x-meter", "x-worker"}
    assert found.keys() == {"services", "networks", "volumes"} | inside
    for name, each in services.items():
        assert each.keys() <= SERVICE, name
        assert {*each.get("depends_on", ())} <= services.keys(), name
        assert {*each["networks"]} <= found["networks"].keys(), name
        for volume in each.get("volumes", ()):
            source = re.sub(r"^\$\{\w+:-(\w+)\}", r"\1", volume).partition(":")[0]
            if source[0] not in "./":
                assert source in found["volumes"], volume
    # Every variable without a default is one that the page tells to set.
    needed = {*re.findall(r"\$\{(\w+):\?\}", text)}
    assert needed == {*re.findall(r"([A-Z]\w+)=%s", PAGE)} | {"METER_HOST"}
    assert {*re.findall(r"\$\{?(\w+)", text)} - needed == {"BACKUPS"}


def test_every_alert_is_tried() -> None:
    """By `make manifests`, with promtool: once when it is to fire, and once when it is not."""
    rules = yaml.safe_load((DEPLOY / "alerts.yml").read_text(encoding="utf-8"))
    alerts = {rule["alert"] for group in rules["groups"] for rule in group["rules"]}
    tests = yaml.safe_load((DEPLOY / "alerts-test.yml").read_text(encoding="utf-8"))["tests"]
    tried = [each for test in tests for each in test["alert_rule_test"]]
    assert {each["alertname"] for each in tried if each.get("exp_alerts")} == alerts
    quiet = {each["alertname"] for each in tried if not each.get("exp_alerts")}
    assert alerts - quiet <= {"MeterSlow"}  # its test has a series that must not fire


@pytest.fixture(scope="module")
def manifests() -> subprocess.CompletedProcess[str]:
    """Return what `make manifests` said; it also fetches nginx."""
    done = subprocess.run(
        ["sh", "scripts/manifests.sh"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode == 77:
        pytest.skip(done.stderr.strip())
    return done


@pytest.mark.verify
def test_the_tools_that_read_these_files_take_them(
    manifests: subprocess.CompletedProcess[str],
) -> None:
    """Kubernetes' schemas, promtool (a test for each alert) and nginx, by `make manifests`."""
    done = manifests
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("passed for resource") == sum(
        len(list(yaml.safe_load_all(path.read_text(encoding="utf-8")))) for path in MANIFESTS
    )
    assert "nginx takes it" in done.stdout


class Names(threading.Thread):
    """A name server that gives the same addresses for every name, like Docker's for an alias."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.addresses: list[str] = []
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 0))
        self.port: int = self.socket.getsockname()[1]

    def run(self) -> None:
        while True:
            asked, sender = self.socket.recvfrom(512)
            answers = [
                b"\xc0\x0c\0\1\0\1" + (600).to_bytes(4) + b"\0\4" + socket.inet_aton(each)
                for each in self.addresses
            ]
            head = asked[:2] + b"\x81\x80\0\1" + len(answers).to_bytes(2) + bytes(4)
            question = asked[12 : asked.index(b"\0", 12) + 5]
            self.socket.sendto(head + question + b"".join(answers), sender)


class Api(BaseHTTPRequestHandler):
    """Answers with its own address, and with what it was asked."""

    def do_GET(self) -> None:
        text = f"{self.connection.getsockname()[0]} {self.path}".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as it is called
        pass


@contextmanager
def api_at(address: str, port: int) -> Iterator[None]:
    with ThreadingHTTPServer((address, port), Api) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield
        finally:
            server.shutdown()


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("", 0))
        return int(found.getsockname()[1])


@pytest.mark.verify
def test_the_proxy_finds_a_container_that_was_made_anew_at_another_address(
    tmp_path: Path, manifests: subprocess.CompletedProcess[str]
) -> None:
    del manifests  # it has fetched nginx
    nginx = shutil.which("nginx") or str(ROOT / ".cache/manifests/nginx/usr/sbin/nginx")
    made = ["-keyout", str(tmp_path / "tls.key"), "-out", str(tmp_path / "tls.pem")]
    key = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=meter", *made]
    subprocess.run(key, check=True, capture_output=True)
    names, port, inside = Names(), free_port(), free_port()
    names.start()
    text = (DEPLOY / "nginx.conf").read_text(encoding="utf-8")
    for old, new in (
        ("/tmp/", f"{tmp_path}/"),  # noqa: S108 - a path in the container
        ("/run/secrets/", f"{tmp_path}/"),
        ("127.0.0.11 ", f"127.0.0.1:{names.port} "),
        ("listen 8443 ssl", f"listen 127.0.0.1:{port} ssl"),
        (":8080", f":{inside}"),
        ("worker_processes auto", "worker_processes 1"),  # each remembers names for itself
    ):
        assert old in text
        text = text.replace(old, new)
    (tmp_path / "nginx.conf").write_text(text)
    trusting = ssl.create_default_context()
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE

    def answer() -> str:
        url = f"https://127.0.0.1:{port}/a%20b?c=d"
        with urllib.request.urlopen(url, context=trusting, timeout=10) as found:
            return str(found.read().decode())

    def soon(address: str) -> bool:
        """Whether an address answers within a few seconds: names are kept for two."""
        until = time.monotonic() + 10
        while time.monotonic() < until:
            if answer() == f"{address} /a%20b?c=d":
                return True
            time.sleep(0.05)
        return False

    words = [nginx, "-e", "stderr", "-c", str(tmp_path / "nginx.conf"), "-g", "daemon off;"]
    with ExitStack() as stack:
        first = stack.enter_context(ExitStack())
        first.enter_context(api_at("127.0.0.2", inside))
        stack.enter_context(api_at("127.0.0.4", inside))
        names.addresses = ["127.0.0.2"]
        running = stack.enter_context(
            subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        )
        stack.callback(running.terminate)
        for _ in range(100):
            with socket.socket() as asked:
                if asked.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        assert soon("127.0.0.2")
        names.addresses = ["127.0.0.4"]
        assert soon("127.0.0.4")
        # Both are asked; and when one of them is gone, the other answers every request.
        names.addresses = ["127.0.0.2", "127.0.0.4"]
        assert soon("127.0.0.2")
        assert soon("127.0.0.4")
        first.close()
        assert {answer() for _ in range(20)} == {"127.0.0.4 /a%20b?c=d"}


@pytest.mark.parametrize("place", ["deploy/nginx.conf", "docs/server.md"])
def test_the_proxy_passes_on_no_id_of_a_request_that_its_sender_made_up(place: str) -> None:
    """The server believes a trusted proxy, and nginx passes on what it is not told to set."""
    text = (ROOT / place).read_text(encoding="utf-8")
    assert "proxy_set_header X-Request-Id $request_id;" in text


def test_compose_waits_as_long_as_programs_may_take_to_stop() -> None:
    """Otherwise it kills them after 10 seconds, with the requests and submissions under way."""
    for name in ("api1", "api2", "worker1", "worker2"):
        seconds = re.fullmatch(r"(\d+)s", compose()["services"][name].get("stop_grace_period", ""))
        assert seconds is not None
        assert int(seconds[1]) > Settings().shutdown_seconds


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


def test_kubernetes_pulls_this_version_from_a_registry_that_the_page_tells_to_change() -> None:
    """A bare name would be pulled from Docker Hub, where anybody could take it."""
    image = f"registry.example.org/easeml-meter:{__version__}"
    for pod in pods().values():
        for container in (*pod["initContainers"], *pod["containers"]):
            assert container["image"] == image
    registry, _, name = image.partition("/")
    assert f"podman push easeml-meter $registry/{name}\n" in PAGE
    assert f'sed -i "s#{registry}/#$registry/#" deploy/kubernetes/*.yaml\n' in PAGE
    assert image in (DEPLOY / "kubernetes" / "meter.yaml").read_text(encoding="utf-8")


def test_there_are_two_of_each_that_may_fail() -> None:
    assert {each["spec"]["replicas"] for each in objects("Deployment").values()} == {2}


def backup_words() -> dict[str, list[str]]:
    """Return the words after `meter backup` of the ways that have a schedule of their own."""
    (line,) = compose()["services"]["backup"]["command"]
    (said,) = re.findall(r"meter (backup [^;]*);", line)
    return {
        "compose": said.split(),
        "kubernetes": pods()["meter-backup"]["containers"][0]["args"],
    }


@pytest.mark.parametrize("way", ["compose", "kubernetes"])
def test_backups_on_a_schedule_are_verified_and_few(way: str) -> None:
    name, *words = backup_words()[way]
    context = meter.make_context("meter", ["plan"])
    command = meter.get_command(context, name)
    assert command is not None
    given = command.make_context(name, words, parent=context).params
    assert given["shelf"]
    assert given["keep"] == 30


def test_a_backup_every_night_and_never_two_at_a_time() -> None:
    job = objects("CronJob")["meter-backup"]["spec"]
    assert (job["schedule"], job["concurrencyPolicy"]) == ("17 2 * * *", "Forbid")
    # Whoever can delete the backups must not be the one who can delete the files.
    named = [
        each.popitem()[1]["name"] for each in pods()["meter-backup"]["containers"][0]["envFrom"]
    ]
    assert named == ["meter", "meter-secrets", "meter-backup-secrets"]


@pytest.mark.parametrize(
    ("name", "command"),
    [("meter-api", "serve"), ("meter-worker", "worker"), ("meter-backup", "backup")],
)
def test_pods_are_locked_and_share_nothing_but_the_key(name: str, command: str) -> None:
    pod = pods()[name]
    assert pod["securityContext"]["runAsUser"] == ACCOUNT
    assert pod["securityContext"]["runAsNonRoot"]
    assert not pod["automountServiceAccountToken"]
    for container in (*pod["initContainers"], *pod["containers"]):
        locked = container["securityContext"]
        assert locked["readOnlyRootFilesystem"]
        assert not locked["allowPrivilegeEscalation"]
        assert locked["capabilities"] == {"drop": ["ALL"]}
        assert "memory" in container["resources"]["limits"]
    assert pod["containers"][0]["args"][0] == command
    assert command in meter.list_commands(meter.make_context("meter", ["plan"]))
    kinds = {each["name"]: next(key for key in each if key != "name") for each in pod["volumes"]}
    assert kinds == {"secret": "secret", "key": "emptyDir", "folder": "emptyDir", "tmp": "emptyDir"}


@pytest.mark.parametrize("name", ["meter-api", "meter-worker", "meter-backup"])
def test_no_pod_can_write_the_key_that_it_runs_with(name: str) -> None:
    """A new key of `meter key rotate` would seal everything, and be lost with the pod."""
    pod = pods()[name]
    for container in pod["containers"]:
        (key,) = [each for each in container["volumeMounts"] if each["name"] == "key"]
        assert key.get("readOnly") is True
    (first,) = pod["initContainers"]
    assert {"name": "key", "mountPath": "/srv/key"} in first["volumeMounts"]  # it copies the key


def test_compose_has_one_service_that_changes_the_key_and_it_never_starts_by_itself() -> None:
    services = compose()["services"]
    rotate = services["rotate"]
    assert (rotate["command"], rotate["restart"]) == (["key", "rotate"], "no")
    assert rotate["profiles"] == ["rotate"]
    writing = {name for name, each in services.items() if "key:/srv/key" in each.get("volumes", ())}
    assert writing == {"first", "rotate"}


def test_the_page_says_how_to_change_the_key_with_names_that_are_there() -> None:
    after = PAGE.partition("## Rotating the key on Kubernetes and compose\n")[2]
    text = after.partition("\n## ")[0]
    for_kubernetes, for_compose = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    deployments = " ".join(objects("Deployment"))
    (replicas,) = {each["spec"]["replicas"] for each in objects("Deployment").values()}
    for count in (0, replicas):
        assert f"scale deployment {deployments} --replicas={count}\n" in for_kubernetes
    for suspended in ("true", "false"):
        patch = f"""patch cronjob meter-backup --patch '{{"spec": {{"suspend": {suspended}}}}}'"""
        assert patch in for_kubernetes
    assert "meter-backup" in objects("CronJob")
    (secret,) = {
        each["secret"]["secretName"]
        for pod in pods().values()
        for each in pod["volumes"]
        if "secret" in each
    }
    assert f"get secret {secret} " in for_kubernetes
    assert f"create secret generic {secret} --from-file=server.key " in for_kubernetes
    # All is stopped before the key changes, and starts after the secret has it.
    order = ["--replicas=0", "wait --for=delete", "meter key rotate", "replace", "--replicas=2"]
    assert [for_kubernetes.index(each) for each in order] == sorted(
        for_kubernetes.index(each) for each in order
    )
    (stopped,) = re.findall(r"docker compose stop (.*)\n", for_compose)
    using = {name for name, each in compose()["services"].items() if "worker" in name}
    assert {*stopped.split()} == using | {"proxy", "api1", "api2", "backup"}
    assert for_compose.index(" stop ") < for_compose.index("run --rm rotate\n")
    assert for_compose.index("run --rm rotate\n") < for_compose.index(" up ")


def test_only_workers_get_what_the_sandbox_needs() -> None:
    worker = pods()["meter-worker"]
    assert worker["hostUsers"] is False
    assert worker["containers"][0]["securityContext"]["procMount"] == "Unmasked"
    for name in ("meter-api", "meter-backup"):
        assert pods()[name]["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert "procMount" not in pods()[name]["containers"][0]["securityContext"]


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
        (folder / path.name).write_text(text.replace("/bin/meter ", "/bin/true "))
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
            program, name, *words = line.removeprefix("-").split()
            assert program == "/opt/meter/bin/meter"
            context = meter.make_context("meter", ["plan"])
            command = meter.get_command(context, name)
            assert command is not None
            command.make_context(name, words, parent=context)  # refuses what it does not know
        # Those of S3 (AWS_...) are no settings of the program.
        assert set_in(path.name, "EnvironmentFile") == ["-/etc/meter.env"]
        if "oneshot" not in set_in(path.name, "Type"):
            assert set_in(path.name, "KillMode") == ["mixed"]
            assert int(set_in(path.name, "TimeoutStopSec")[0]) > Settings().shutdown_seconds


@pytest.fixture(scope="module")
def fresh_debian() -> ModuleType:
    path = ROOT / "scripts" / "fresh_debian.py"
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_commands_that_were_run_on_a_fresh_debian_are_marked_for_every_way(
    fresh_debian: ModuleType,
) -> None:
    marked = re.findall(r"<!-- fresh: ([\w ]+) -->\n```sh", PAGE)
    assert {way for ways in marked for way in ways.split()} == {"command", "systemd", "container"}
    assert fresh_debian.WAYS.keys() == {"command", "systemd", "container"}


@pytest.mark.parametrize("way", ["command", "systemd"])
def test_the_page_itself_tells_pip_where_the_wheel_is(fresh_debian: ModuleType, way: str) -> None:
    """The package is not published: without this line, the first install of a reader fails."""
    page = "".join(text for ways, text in fresh_debian.BLOCK.findall(PAGE) if way in ways.split())
    told, install, _ = page.partition("pip install 'easeml-meter[")
    assert install
    assert f"export PIP_FIND_LINKS={fresh_debian.WHEELS}\n" in told
    # The script itself says nothing of it: it only copies the wheel, as the page tells people to.
    script = fresh_debian.commands(way)
    assert script.endswith(page)
    assert "FIND_LINKS" not in script.removesuffix(page)
    before = PAGE.partition("export PIP_FIND_LINKS=")[0]
    assert "make wheel\n" in before
    assert f":{fresh_debian.WHEELS}/\n" in before
