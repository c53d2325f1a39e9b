"""The three exports of a Label Studio server; given a folder, they are recorded there."""

# apart: label-studio==1.23.2

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

from easeml_meter.integrations.label_studio import rows
from easeml_meter.integrations.sourcing import WantedColumns

PORT, TOKEN = 18765, "0" * 39 + "1"
AT = f"http://127.0.0.1:{PORT}"
CONFIG = """
<View>
  <Text name="text" value="$text"/>
  <Choices name="kind" toName="text" choice="single">
    <Choice value="ham"/><Choice value="spam"/>
  </Choices>
  <Choices name="topics" toName="text" choice="multiple">
    <Choice value="money"/><Choice value="health"/>
  </Choices>
  <Rating name="stars" toName="text"/>
  <Number name="amount" toName="text"/>
</View>
"""
SKIPPED = {"was_cancelled": True}
MAILS: dict[str, list[dict[str, Any]]] = {
    "m1": [{"kind": "spam", "topics": ["money", "health"], "stars": 3}],
    "m2": [{"kind": "ham"}, {"kind": "spam"}],
    "m3": [{"kind": "ham", "ground_truth": True}, {"kind": "spam"}],
    "m4": [SKIPPED],
    "m5": [],
    "m6": [{"kind": "ham"}, {"kind": "spam"}, {"kind": "ham", "amount": 7}],
    "m7": [{"kind": "spam", "topics": ["money"]}],
    "m8": [{"topics": ["health"]}],
}
"""What each annotator says of each mail."""
WANTED = WantedColumns("kind", "mail_id", ["text"])
LEFT_OUT = {"annotators disagree": 1, "skipped": 1, "not labelled": 2}


def main(folder: Path, data: Path) -> None:
    command = [Path(sys.prefix, "apart", "bin", "label-studio"), "start", "--no-browser"]
    options = ["--port", PORT, "--data-dir", data, "--user-token", TOKEN]
    person = ["--username", "ann@example.org", "--password", "correct-horse"]
    server = subprocess.Popen(
        [str(each) for each in (*command, *options, *person)],
        env={
            **os.environ,
            "LABEL_STUDIO_ENABLE_LEGACY_API_TOKEN": "true",
            "COLLECT_ANALYTICS": "false",
            "LATEST_VERSION_CHECK": "false",
        },
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        export(folder)
    finally:
        server.terminate()
        server.wait(30)
    found = {kind: rows(folder / f"label-studio.{kind}", WANTED) for kind in ("json", "csv")}
    found["min"] = rows(folder / "label-studio-min.json", WANTED)
    for kind, (table, left_out) in found.items():
        print(kind, table.select(["mail_id", "kind"]).to_pylist(), left_out)
    table, left_out = found["json"]
    labels = dict(zip(*table.select(["mail_id", "kind"]).to_pydict().values(), strict=True))
    assert labels == {"m1": "spam", "m3": "ham", "m6": "ham", "m7": "spam"}
    assert left_out == LEFT_OUT
    # The others do not say what the ground truth is, and have no skipped tasks.
    del labels["m3"]
    for kind in ("csv", "min"):
        few = found[kind][0].select(["mail_id", "kind"]).to_pydict()
        assert dict(zip(*few.values(), strict=True)) == labels


def export(folder: Path) -> None:
    """Make a project, annotate it, and write its exports."""
    wait()
    project = call("POST", "/api/projects", {"title": "mails", "label_config": CONFIG})["id"]
    mails = [{"mail_id": name, "text": f"text of {name}"} for name in MAILS]
    call("POST", f"/api/projects/{project}/import", mails)
    for task in call("GET", f"/api/tasks?project={project}&page_size=100")["tasks"]:
        for said in MAILS[task["data"]["mail_id"]]:
            state = {name: said[name] for name in said if name in ("was_cancelled", "ground_truth")}
            result = [_said(name, value) for name, value in said.items() if name not in state]
            call("POST", f"/api/tasks/{task['id']}/annotations/", {"result": result, **state})
    for kind, name in (("JSON", ".json"), ("JSON_MIN", "-min.json"), ("CSV", ".csv")):
        path = f"/api/projects/{project}/export?exportType={kind}&download_all_tasks=true"
        (folder / f"label-studio{name}").write_bytes(fetch("GET", path))


def _said(name: str, value: Any) -> dict[str, Any]:
    kind = {"stars": "rating", "amount": "number"}.get(name, "choices")
    listed = [value] if name == "kind" else value
    return {"from_name": name, "to_name": "text", "type": kind, "value": {kind: listed}}


def call(method: str, path: str, content: Any = None) -> Any:
    return json.loads(fetch(method, path, content))


def fetch(method: str, path: str, content: Any = None) -> bytes:
    request = Request(AT + path, method=method)  # noqa: S310 (the address above)
    request.add_header("Authorization", f"Token {TOKEN}")
    request.add_header("Content-Type", "application/json")
    data = None if content is None else json.dumps(content).encode()
    with urlopen(request, data, timeout=60) as answer:  # noqa: S310
        found: bytes = answer.read()
    return found


def wait() -> None:
    for _ in range(1800):  # a busy machine takes minutes to start it
        try:
            fetch("GET", "/health")
        except URLError:
            time.sleep(0.5)
        else:
            return
    raise TimeoutError("Label Studio does not start")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        main(Path(sys.argv[1] if len(sys.argv) > 1 else name), Path(name))
    print("Label Studio's three exports give the same labels")
