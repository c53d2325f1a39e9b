"""The metrics: counts and times, for those who may see them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
import yaml
from tests.nodes import ROOT
from tests.scoring.onnx_models import classifier
from tests.server.driving import begin, begun, packed, submit
from tests.server.helpers import Served, serve
from tests.service.helpers import Labels, StoppedClock, small_spec

from easeml_meter.service.restore import NOTE
from easeml_meter.service.submissions import queue

URL = "http://server/metrics"


def lines_of(served: Served) -> list[str]:
    """Read the metrics as an admin."""
    return served.client("admin").get(URL).text.splitlines()


def test_metrics_are_counts_for_admins_and_this_machine(served: Served) -> None:
    assert served.client().get(URL).status_code == 401
    assert served.client("stranger").get(URL).status_code == 403
    assert served.client("admin").get(URL).status_code == 200
    for address, code in (("127.0.0.1", 200), ("::1", 200), ("192.0.2.1", 401)):
        assert served.client_from(address).get(URL).status_code == code
    passed_on = {"X-Forwarded-For": "192.0.2.1"}
    assert served.client_from("127.0.0.1").get(URL, headers=passed_on).status_code == 401
    text = served.client("admin").get(URL)
    assert text.headers["content-type"] == "text/plain; charset=utf-8"
    line = 'meter_requests_total{method="GET",route="/metrics",status="200"} 3.0'
    assert line in text.text.splitlines()


def test_metrics_by_a_token_for_nothing_else(served: Served) -> None:
    """Prometheus on another machine needed a token that manages the site."""
    asked = {"name": "prometheus", "scopes": ["metrics"]}
    refused = served.client("stranger").post("/tokens", json=asked)
    assert (refused.status_code, refused.json()["message"]) == (
        403,
        "only an admin may make a token with the scope metrics",
    )
    deputy = served.add_user("deputy", admin=True)
    made = served.client("deputy").post("/tokens", json=asked)
    assert made.status_code == 201, made.text
    prometheus = served.client(token=made.json()["token"])
    shown = prometheus.get(URL)
    assert shown.status_code == 200
    assert "meter_request_seconds" in shown.text
    for path in ("/me", "/meters", "/users", "/tokens"):
        said = prometheus.get(path)
        assert said.status_code == 403, said.text
    # Whoever made it is no admin any more.
    served.client("admin").patch(f"/users/{deputy.id}", json={"admin": False})
    assert prometheus.get(URL).status_code == 403
    assert prometheus.get("/me").status_code == 403


def test_metrics_for_everyone_if_asked_for(tmp_path: Path) -> None:
    with serve(tmp_path / "site", metrics_public=True) as served:
        shown = served.client().get(URL)
        assert shown.status_code == 200
        assert "meter_requests_total" in shown.text
        # How long others' requests took inside the server is for those who run it.
        assert "meter_request_seconds" not in shown.text
        assert "meter_queue_wait_seconds" not in shown.text
        assert "meter_request_seconds" in served.client_from("127.0.0.1").get(URL).text


def test_odd_methods_are_not_counted_one_by_one(served: Served) -> None:
    client = served.client("admin")
    for method in ("BREW", "SPILL"):
        assert client.request(method, "/me").status_code == 405
    text = client.get(URL).text
    assert "BREW" not in text
    assert 'method="-",route="/api/v1/me",status="405"} 2.0' in text


def test_latencies_are_kept_by_the_template_of_a_route(served: Served, meter: str) -> None:
    client = served.client("developer")
    for path in (f"/meters/{meter}", f"/meters/{'0' * 32}", "/nowhere/secret-path"):
        client.get(path)
    lines = lines_of(served)
    took = "meter_request_seconds"
    of_meters = 'method="GET",route="/api/v1/meters/{meter}"'
    assert f"{took}_count{{{of_meters}}} 2.0" in lines
    assert f'{took}_bucket{{le="+Inf",{of_meters}}} 2.0' in lines
    assert f'{took}_count{{method="GET",route="-"}} 1.0' in lines
    assert not any(meter in line or "secret-path" in line for line in lines)


def test_the_age_of_the_queue_is_that_of_its_oldest_submission(
    served_on_each_database: Served, clock: StoppedClock, tmp_path: Path
) -> None:
    served = served_on_each_database
    assert 'meter_oldest_submission_seconds{state="queued"} 0.0' in lines_of(served)
    meter = served.add_meter(small_spec(models=True))
    begin(served, meter, tmp_path)
    for weight in (1, 2):
        body = packed(model_onnx=classifier(weight * np.eye(2, dtype="float32")))
        place = f"/meters/{meter}/submissions"
        sent = served.client("developer").post(place, params={"model": "net"}, content=body)
        assert sent.status_code == 202, sent.text
        clock.pass_by(timedelta(minutes=1))
    lines = lines_of(served)
    assert 'meter_oldest_submission_seconds{state="queued"} 120.0' in lines
    assert 'meter_oldest_submission_seconds{state="running"} 0.0' in lines


def test_how_long_models_waited_is_counted_by_whoever_begins_them(
    served_on_each_database: Served, clock: StoppedClock, tmp_path: Path
) -> None:
    served = served_on_each_database
    wait = "meter_queue_wait_seconds"
    assert {f"{wait}_sum 0.0", f"{wait}_count 0.0"} <= {*lines_of(served)}
    meter = served.add_meter(small_spec(models=True, steps=6))
    begin(served, meter, tmp_path)
    for number, passing in enumerate((20, 40, 3_000, 20_000, -60), 1):
        body = packed(model_onnx=classifier(number * np.eye(2, dtype="float32")))
        place = f"/meters/{meter}/submissions"
        sent = served.client("developer").post(place, params={"model": "net"}, content=body)
        clock.pass_by(timedelta(seconds=passing))
        for _ in range(2):  # a second attempt counts no second time
            assert queue._begin(served.site, sent.json()["id"]) is not None
    shown = {line.partition(" ")[0]: line.partition(" ")[2] for line in lines_of(served)}
    assert [
        shown[f'{wait}_bucket{{le="{bound}"}}'] for bound in (1.0, 15.0, 60.0, 1800.0, 3600.0)
    ] == [
        *("1.0", "1.0", "3.0", "3.0", "4.0"),
    ]
    assert (shown[f'{wait}_bucket{{le="+Inf"}}'], shown[f"{wait}_sum"]) == ("5.0", "23060.0")


def test_test_sets_are_nearly_spent_by_the_number_of_answers(
    served_on_each_database: Served, tmp_path: Path
) -> None:
    served = served_on_each_database
    meter, labels = begun(served, tmp_path, small_spec(steps=5))
    shown = []
    for number in range(5):
        sent = submit(served.client("developer"), meter, labels, errors=number, salt=str(number))
        assert sent.is_success, sent.text
        shown += [line for line in lines_of(served) if line.startswith("meter_test_sets_nearly")]
    # The fourth of five; the fifth spends the set, and a spent one is no longer nearly so.
    assert [line.split()[1] for line in shown] == ["0.0", "0.0", "0.0", "1.0", "0.0"]


def test_labels_are_overdue_once_their_deadline_is_over(
    served_on_each_database: Served, clock: StoppedClock
) -> None:
    served = served_on_each_database
    asked = [f"/meters/{served.add_meter(prefix=name)}/requests/1" for name in ("one", "two")]
    deadline = {"deadline": (clock() + timedelta(hours=1)).isoformat()}
    assert served.client("admin").patch(asked[0], json=deadline).status_code == 200
    assert {"meter_label_requests 2.0", "meter_label_requests_overdue 0.0"} <= {*lines_of(served)}
    clock.pass_by(timedelta(hours=2))
    assert {"meter_label_requests 2.0", "meter_label_requests_overdue 1.0"} <= {*lines_of(served)}


@pytest.mark.verify
def test_prometheus_reads_what_is_shown(served: Served, meter: str, labels: Labels) -> None:
    fetched = ROOT / ".cache" / "manifests" / "prometheus" / "usr" / "bin" / "promtool"
    tool = shutil.which("promtool") or (str(fetched) if fetched.exists() else None)
    if tool is None:
        pytest.skip("promtool is not here: make manifests fetches it")
    assert submit(served.client("developer"), meter, labels).is_success
    text = served.client("admin").get(URL).text
    for given, wrong in ((text, False), (text + "meter_answers{ 3\n", True)):
        done = subprocess.run(
            [tool, "check", "metrics"], input=given, capture_output=True, text=True, check=False
        )
        # 1 is for what cannot be read, 3 for advice about names.
        assert (done.returncode == 1) == wrong, done.stderr
        assert "error while linting" not in done.stderr or wrong


def test_alerts_and_dashboard_ask_for_metrics_that_exist(served: Served) -> None:
    assert not any("meter_backup_time_seconds" in line for line in lines_of(served))
    served.site.files.put(NOTE, served.site.now().encode())
    typed = [line.split() for line in lines_of(served) if line.startswith("# TYPE")]
    known: set[str] = set()
    page = (ROOT / "docs" / "server.md").read_text(encoding="utf-8")
    assert [name for _, _, name, _ in typed if f"`{name}`" not in page] == []
    for _, _, name, kind in typed:
        parts = ("_bucket", "_sum", "_count") if kind == "histogram" else ("",)
        known |= {name + part for part in parts}
    alerts = yaml.safe_load((ROOT / "deploy" / "alerts.yml").read_text(encoding="utf-8"))
    dashboard = json.loads((ROOT / "deploy" / "grafana-dashboard.json").read_text(encoding="utf-8"))
    asked = [rule["expr"] for group in alerts["groups"] for rule in group["rules"]]
    asked += [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    for expression in asked:
        names = {*re.findall(r"\bmeter_\w+", expression)}
        assert names, expression
        assert names <= known, expression
        assert expression.count("(") == expression.count(")")
