"""Record the examples of the API's document: everything is done once, at a small server.

python scripts/examples.py [FILE]      (default: src/easeml_meter/server/api/examples.json)
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

import httpx  # noqa: E402
import numpy as np  # noqa: E402
import pyarrow as pa  # noqa: E402
import pyarrow.csv  # noqa: E402
from tests.server.driving import parquet, sealed  # noqa: E402
from tests.server.helpers import PASSWORD, Served, serve  # noqa: E402
from tests.service.helpers import Clock, condition_spec, rows, small_spec, with_errors  # noqa: E402

from easeml_meter.core.people import ProviderIdentity  # noqa: E402
from easeml_meter.server.api.document import operations  # noqa: E402
from easeml_meter.spec import MeterSpec  # noqa: E402
from easeml_meter.tables.choosing import NO_LABEL  # noqa: E402
from easeml_meter.vault.keys import wrap  # noqa: E402

FILE = ROOT / "src" / "easeml_meter" / "server" / "api" / "examples.json"
METER, OTHER = "spam", "ranking"
SPEC = small_spec(steps=8, tenants=(4, 4), models="onnx", inputs="hidden")
VALIDATION = np.random.default_rng(99).integers(0, 2, 20)
PIECE = b"0123456789"

# What differs from run to run, and what stands for it; each kind with one that looks like it.
_VARYING = {
    "id": re.compile(r"(?<![0-9a-f])[0-9a-f]{32}(?![0-9a-f])"),
    "digest": re.compile(r"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])"),
    "recipient": re.compile(r"age1[0-9a-z]{58}"),
    "token": re.compile(r"emt_[\w-]{43}"),
    "secret": re.compile(r"whsec_[\w+/=-]{20,}"),
    "time": re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:\+00:00|Z)"),
}


@dataclass
class Recorder:
    """Does one thing after the other, and keeps each as an example."""

    served: Served
    document: dict[str, Any]
    folder: Path
    kept: dict[str, dict[str, Any]] = field(default_factory=dict)
    _stand_ins: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._paths = {
            operation["operationId"]: (method, path)
            for method, path, operation in operations(self.document)
        }

    def do(self, name: str, who: str | None, **given: Any) -> Any:
        """Ask for an operation as somebody; the first time is its example. Return the answer."""
        method, path = self._paths[name]
        filled = path
        for key, value in given.get("path", {}).items():
            filled = filled.replace(f"{{{key}}}", str(value))
        options: dict[str, Any] = {"params": given.get("query"), "json": given.get("json")}
        if "form" in given:
            options["files"] = [(key, self._sent(value)) for key, value in given["form"]]
        if "body" in given:
            options["content"] = self.folder.joinpath(given["body"][1:]).read_bytes()
        client = self.served.client(who)
        answer = client.request(method.upper(), f"http://server{filled}", **options)
        if not answer.is_success:
            raise SystemExit(f"{name}: {answer.status_code} {answer.text}")
        if name not in self.kept:
            self.kept[name] = self._example(who, given, answer)
        return answer.json() if answer.headers.get("content-type") == _JSON else answer.content

    def _sent(self, value: str) -> tuple[str | None, bytes]:
        if not value.startswith("@"):
            return None, value.encode()
        return value[1:], self.folder.joinpath(value[1:]).read_bytes()

    def _example(
        self, who: str | None, given: Mapping[str, Any], answer: httpx.Response
    ) -> dict[str, Any]:
        example = dict(given) | {"status": answer.status_code}
        if who is None:
            example["anyone"] = True
        if answer.headers.get("content-type") == _JSON:
            example["answer"] = answer.json()
        found: dict[str, Any] = json.loads(self._made_up(json.dumps(example)))
        return found

    def _made_up(self, text: str) -> str:
        for kind, pattern in _VARYING.items():
            for value in dict.fromkeys(pattern.findall(text)):
                text = text.replace(value, self._stand_in(kind, value))
        return text

    def _stand_in(self, kind: str, value: str) -> str:
        if kind == "time":
            return _MOMENT
        if value not in self._stand_ins:
            number = sum(each.startswith(kind) for each in self._stand_ins.values())
            self._stand_ins[value] = f"{kind}{number}"
        digest = hashlib.sha256(self._stand_ins[value].encode()).hexdigest()
        shapes = {"recipient": f"age1{digest[:58]}", "token": "emt_...", "secret": "whsec_..."}
        return shapes.get(kind, digest[:32] if kind == "id" else digest)


_JSON = "application/json"
_MOMENT = "2026-03-02T09:30:00.000000+00:00"


def record() -> dict[str, dict[str, Any]]:
    """Return an example of every operation."""
    with (
        tempfile.TemporaryDirectory() as name,
        serve(Path(name) / "site", clock=Clock(), private_webhooks=True) as served,
    ):
        document = served.app.openapi()
        told = Recorder(served, document, Path(name))
        _people(told)
        _labels(told)
        _submissions(told)
        _batches(told)
        _on_demand(told)
        _ends(told)
        return {each: told.kept[each] for each in sorted(told.kept)}


def _people(told: Recorder) -> None:
    """Accounts, a meter with seats, and a webhook."""
    served = told.served
    served.add_user("root", admin=True, password=PASSWORD)
    told.do("log_in", None, json={"name": "root", "password": PASSWORD})
    told.do("plan_meter", None, json={"settings": SPEC.to_mapping(), "labels": 100})
    user = {"name": "ann", "email": "ann@example.org"}
    ann = told.do("add_user", "admin", json=user)
    told.do("list_users", "admin", query={"limit": 2})
    told.do("show_user", "admin", path={"user": ann["id"]})
    told.do("change_user", "admin", path={"user": ann["id"]}, json={"email": "ann@example.com"})
    told.do("invite_user", "admin", path={"user": ann["id"]})
    with served.site.writing() as books:
        books.users.update(ProviderIdentity(ann["id"], "https://login.example.org", "ann"))
    told.do("remove_identity", "admin", path={"user": ann["id"]})
    made = told.do("create_meter", "admin", json={"name": METER, "settings": SPEC.to_mapping()})
    told.do("list_meters", "admin")
    told.do("show_meter", "admin", path={"meter": METER})
    for name, role, tenant in (
        *(("labeler", "labeler", 0), ("developer", "developer", 1), ("runner", "runner", 1)),
        ("other", "developer", 2),
    ):
        seat = {"user": served.add_user(name).id, "role": role, "tenant": tenant}
        told.do("add_member", "admin", path={"meter": METER}, json=seat)
    told.do("list_members", "admin", path={"meter": METER})
    gone = {"user": served.users["runner"].id, "role": "runner", "tenant": 1}
    told.do("remove_member", "admin", path={"meter": METER, **gone})
    hook = {"url": "https://chat.example.org/hook", "events": ["spent", "labels requested"]}
    added = told.do("add_webhook", "admin", path={"meter": made["id"]}, json=hook)
    told.do("list_webhooks", "admin", path={"meter": METER})
    told.do("remove_webhook", "admin", path={"meter": METER, "webhook": added["id"]})
    told.do("show_me", "developer")
    token = {"name": "ci", "scopes": [f"developer:{made['id']}"], "days": 30}
    token = told.do("make_token", "developer", json=token)
    told.do("list_tokens", "developer")
    told.do("revoke_token", "developer", path={"token": token["id"]})


def _labels(told: Recorder) -> None:
    """Validation set and test set, the latter in every way that there is."""
    here, served = {"meter": METER}, told.served
    meter = served.client("admin").get(f"/meters/{METER}").json()["id"]
    _write(told, "validation.csv", rows(VALIDATION, seed=7))
    query, form = {"label": "label", "id_column": "id"}, [("file", "@validation.csv")]
    told.do("give_validation_set", "developer", path=here, query=query, form=form)
    told.do("list_validation_sets", "developer", path=here)
    one = {**here, "number": 1}
    told.do("download_validation_set", "developer", path=one, save="validation.csv")
    needed = told.do("list_requests", "labeler", path=here)["items"][0]["labels_needed"]
    why = {"reason": "the rows of February", "deadline": "2026-03-31T12:00:00+00:00"}
    told.do("describe_request", "labeler", path=one, json=why)
    labels = np.random.default_rng(0).integers(0, 2, needed)
    table = rows(labels, seed=1000)
    big = {"name": "february", "size": len(PIECE)}
    upload = told.do("begin_upload", "labeler", path=here, json=big)
    told.folder.joinpath("piece").write_bytes(PIECE)
    whole = {**here, "upload": upload["id"]}
    told.do("send_piece", "labeler", path=whole, query={"offset": 0}, body="@piece")
    told.do("show_upload", "labeler", path=whole)
    told.do("cancel_upload", "labeler", path=whole)
    _part(told, meter, table)
    content = sealed(served, meter, table, told.folder)
    told.folder.joinpath("testset.sealed").write_bytes(content)
    form, decided = [("file", "@testset.sealed")], {"ids_renumbered": "true"}
    told.do("add_test_set_file", "labeler", path=here, query=decided, form=form)
    told.do("list_test_sets", "developer", path=here)
    told.do("show_test_set", "developer", path=one)
    told.do("download_test_inputs", "labeler", path=one, save="inputs.parquet")
    told.do("list_notices", "labeler", path=here)


def _part(told: Recorder, meter: str, table: pa.Table) -> None:
    """Upload some of the rows, take them in, and withdraw them."""
    here, labeler = {"meter": METER}, told.served.client("labeler")
    content = sealed(told.served, meter, table.slice(0, 10), told.folder)
    begun = {"name": "part", "size": len(content)}
    upload = labeler.post(f"/meters/{METER}/uploads", json=begun).json()["id"]
    labeler.put(f"/meters/{METER}/uploads/{upload}", params={"offset": 0}, content=content)
    decided = {"upload": upload, "part": True, "ids_renumbered": True}
    told.do("add_test_set", "labeler", path=here, json=decided)
    told.do("withdraw_part", "labeler", path={**here, "number": 1, "part": 1})


def _submissions(told: Recorder) -> None:
    """Predictions and a model, their answers, and pictures of these."""
    here = {"meter": METER}
    needed = told.kept["list_requests"]["answer"]["items"][0]["labels_needed"]
    labels = np.random.default_rng(0).integers(0, 2, needed)
    _write(told, "test.csv", _predictions(with_errors(labels, 3)))
    _write(told, "validation.csv", _predictions(with_errors(VALIDATION, 1)))
    form = [("test", "@test.csv"), ("validation", "@validation.csv")]
    told.do("check_submission", "developer", path=here, form=form)
    answered = told.do("submit", "developer", path=here, query={"model": "m1"}, form=form)
    told.do("list_submissions", "developer", path=here)
    one = {**here, "submission": answered["id"]}
    told.do("show_submission", "developer", path=one, query={"wait": 30})
    told.do("follow_submission", "developer", path=one)
    model = [("onnx", "@model.onnx")]
    told.folder.joinpath("model.onnx").write_bytes(b"no model, and never run")
    waits = told.do("submit", "developer", path=here, query={"model": "m2"}, form=model)
    told.do("cancel_submission", "developer", path={**here, "submission": waits["id"]})
    said = {"submission": "m1", "text": "Deeper trees", "link": "https://example.org/commit/1f3a"}
    told.do("note_submission", "developer", path=here, json=said)
    for name in ("list_signals", "show_status", "show_history", "show_audit"):
        told.do(name, "developer", path=here)
    for name, file in (
        *(("draw_report", "report.html"), ("draw_picture", "report.svg")),
        ("draw_badge", "badge.svg"),
    ):
        told.do(name, "developer", path=here, save=file)
    _write(told, "test.csv", _predictions(labels))
    told.do("submit", "other", path=here, query={"model": "n1"}, form=form)
    _promotion(told)


def _promotion(told: Recorder) -> None:
    """At a meter that compares models, one that passed becomes the one to beat."""
    spec = condition_spec(question="n - o > 0.1 +/- 0.2", steps=4)
    meter, needed = _other_meter(told, OTHER, spec)
    labels = _deliver(told, meter, 1, needed)
    developer = told.served.client("developer")
    for model, errors in (("deployed", len(labels) * 7 // 10), ("better", 0)):
        files = {
            "test": ("t.parquet", parquet(_predictions(with_errors(labels, errors)))),
            "validation": ("v.parquet", parquet(_predictions(VALIDATION))),
        }
        _good(developer.post(f"/meters/{meter}/submissions", params={"model": model}, files=files))
    told.do("promote_model", "developer", path={"meter": OTHER}, json={"model": "better"})


def _batches(told: Recorder) -> None:
    """At a meter with a rolling test set, a batch joins and the oldest one leaves."""
    here = {"meter": "rolling"}
    meter, needed = _other_meter(told, here["meter"], small_spec(window=2, inputs="public"))
    labeler = told.served.client("labeler")
    _deliver(told, meter, 1, needed)
    _good(labeler.post(f"/meters/{meter}/test-sets/1/retire"))
    (asked,) = labeler.get(f"/meters/{meter}/requests").json()["items"]
    _deliver(told, meter, 2, asked["labels_needed"])
    told.do("list_batches", "developer", path=here)
    one = {**here, "number": 1}
    told.do("download_batch", "developer", path=one, save="batch.parquet")


def _on_demand(told: Recorder) -> None:
    """At a meter with labels on demand, a submission waits for those of the rows that differ."""
    here = {"meter": "on-demand"}
    question = {"question": "n - o > 0 +/- 0.4", "disagreement": 0.5, "on_demand": True}
    spec = condition_spec(**question, steps=1, delta=0.4)
    meter, needed = _other_meter(told, here["meter"], spec)
    ids, none = np.arange(100, 100 + needed), pa.array([0] * needed, pa.int8())
    inputs = pa.table({"id": ids, NO_LABEL: none})
    content = sealed(told.served, meter, inputs, told.folder, label=NO_LABEL)
    labeler, developer = told.served.client("labeler"), told.served.client("developer")
    _good(labeler.post(f"/meters/{meter}/test-sets/file", content=content))
    labels = np.zeros(needed, np.int64)
    for model, errors in (("deployed", spec.quota(needed)), ("better", 0)):
        test = pa.table({"id": ids, "prediction": with_errors(labels, errors)})
        files = {
            "test": ("t.parquet", parquet(test)),
            "validation": ("v.parquet", parquet(_predictions(VALIDATION))),
        }
        developer.post(f"/meters/{meter}/submissions", params={"model": model}, files=files)
    (asked,) = told.do("list_wanted", "labeler", path=here)["items"]
    known = "".join(f"{each},0\n" for each in asked["ids"])
    content = wrap(f"id,label\n{known}".encode(), asked["recipients"])
    told.folder.joinpath("labels.csv.age").write_bytes(content)
    query = {"label": "label", "kind": "csv"}
    told.do("give_labels", "labeler", path=here, query=query, body="@labels.csv.age")


def _other_meter(told: Recorder, name: str, spec: MeterSpec) -> tuple[str, int]:
    """Make another meter with its people and validation set; return its id and its labels."""
    admin, users = told.served.client("admin"), told.served.users
    made = _good(admin.post("/meters", json={"name": name, "settings": spec.to_mapping()}))
    meter: str = made["id"]
    for who, tenant in (("labeler", 0), ("developer", 1)):
        seat = {"user": users[who].id, "role": who, "tenant": tenant}
        _good(admin.post(f"/meters/{meter}/members", json=seat))
    content = parquet(rows(VALIDATION, seed=7))
    developer, query = told.served.client("developer"), {"label": "label"}
    _good(developer.post(f"/meters/{meter}/validation-sets", params=query, content=content))
    (asked,) = told.served.client("labeler").get(f"/meters/{meter}/requests").json()["items"]
    return meter, asked["labels_needed"]


def _deliver(told: Recorder, meter: str, number: int, needed: int) -> Any:
    """Deliver a test set, or a batch of one; return its labels."""
    seed = int(hashlib.sha256(f"{needed} {number}".encode()).hexdigest()[:6], 16)
    labels = np.random.default_rng(seed).integers(0, 2, needed)
    table = rows(labels, seed=seed)
    content = sealed(told.served, meter, table, told.folder, generation=number)
    labeler, query = told.served.client("labeler"), {"ids_renumbered": True}
    _good(labeler.post(f"/meters/{meter}/test-sets/file", content=content, params=query))
    return labels


def _good(answer: httpx.Response) -> Any:
    if not answer.is_success:
        raise SystemExit(f"{answer.request.url}: {answer.text}")
    return answer.json()


def _ends(told: Recorder) -> None:
    """A hand-over, the end of the test set, its release, and of a meter and a session."""
    here, pair = {"meter": METER}, {"giver": 1, "receiver": 2}
    told.do("request_handover", "other", path=here, json=pair | {"confirm": True})
    told.do("list_handovers", "developer", path=here)
    told.do("answer_handover", "developer", path=here, json=pair | {"accept": True})
    one = {**here, "number": 1}  # one shared history may be too much for the budget: it is spent
    told.do("retire_test_set", "labeler", path={"meter": OTHER, "number": 1})
    told.do("release_test_set", "labeler", path=one)
    told.do("show_release", "labeler", path=one)
    file = {**one, "file": "testset.parquet"}
    told.do("download_released_file", "developer", path=file, save="testset.parquet")
    _good(told.served.client("labeler").post(f"/meters/{OTHER}/test-sets/1/release"))
    steps = {"first": 1, "second": 2, "better": "true", "page": 5}  # the last page is a short one
    told.do("compare_submissions", "developer", path={"meter": OTHER, "number": 1}, query=steps)
    _other_meter(told, "draft", small_spec())
    told.do("archive_meter", "admin", path={"meter": "draft"})
    told.do("log_out", "developer")


def _predictions(values: Any) -> pa.Table:
    return pa.table({"id": np.arange(len(values)), "prediction": values})


def _write(told: Recorder, name: str, table: pa.Table) -> None:
    out = io.BytesIO()
    pyarrow.csv.write_csv(table, out)
    told.folder.joinpath(name).write_bytes(out.getvalue())


def main(file: Path) -> None:
    """Write them."""
    text = json.dumps(record(), indent=1, ensure_ascii=False)
    file.write_text(f"{text}\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else FILE)
