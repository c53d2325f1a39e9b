"""Submissions over HTTP: predictions answered at once, models through the queue."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from tests.server.driving import VALIDATION, begin, packed, parquet, predictions, submission, submit
from tests.server.helpers import Served, serve
from tests.service.helpers import Labels, small_spec

SPEC = small_spec(tenants=(2, 2), inputs="public")


@pytest.fixture
def meter(served: Served) -> str:
    return served.add_meter(SPEC)


def test_predictions_are_answered_at_once(served: Served, meter: str, labels: Labels) -> None:
    developer = served.client("developer")
    answer = submit(developer, meter, labels, errors=5)
    assert answer.status_code == 200, answer.text
    told = answer.json()
    assert (told["state"], told["kind"], told["step"]) == ("done", "predictions", 1)
    assert told["signal"]["band"] == 2
    assert told["signal"]["steps_left"] == 1

    shown = developer.get(f"/meters/{meter}/submissions/{told['id']}").json()
    assert shown["signal"]["promise"] == told["signal"]["promise"]
    listed = developer.get(f"/meters/{meter}/submissions").json()["items"]
    assert [each["id"] for each in listed] == [told["id"]]
    signals = developer.get(f"/meters/{meter}/signals").json()["items"]
    assert [each["answer"] for each in signals] == ["2"]
    events = developer.get(f"/meters/{meter}/submissions/{told['id']}/events")
    assert events.headers["content-type"].startswith("text/event-stream")
    assert events.text == f'event: state\ndata: {{"id": "{told["id"]}", "state": "done"}}\n\n'


def test_the_same_bytes_are_charged_once(served: Served, meter: str, labels: Labels) -> None:
    developer = served.client("developer")
    first = submit(developer, meter, labels).json()
    again = submit(developer, meter, labels).json()
    assert again["id"] == first["id"]
    assert again["signal"]["repeated"]
    assert again["signal"]["steps_left"] == first["signal"]["steps_left"]


def test_a_key_brings_back_the_stored_answer(served: Served, meter: str, labels: Labels) -> None:
    developer = served.client("developer")
    headers = {"Idempotency-Key": "one"}
    first = submit(developer, meter, labels, headers=headers)
    again = submit(developer, meter, labels, headers=headers)
    assert again.headers["Idempotency-Replayed"] == "true"
    assert again.json() == first.json()
    other = submit(developer, meter, labels, errors=3, headers=headers)
    assert (other.status_code, other.json()["error"]) == (409, "conflict")
    assert len(developer.get(f"/meters/{meter}/signals").json()["items"]) == 1


def test_the_answer_under_a_key_is_kept_with_its_entry(
    served: Served, meter: str, labels: Labels, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, a server that died after the entry had not yet kept the answer under the key."""
    developer, headers = served.client("developer"), {"Idempotency-Key": "one"}

    def die(*_: object) -> None:
        raise AssertionError("a second transaction")

    monkeypatch.setattr(served.app.state.keys, "finished", die)
    first = submit(developer, meter, labels, headers=headers)
    assert first.status_code == 200, first.text
    again = submit(developer, meter, labels, headers=headers)
    assert again.headers["Idempotency-Replayed"] == "true"
    assert again.json() == first.json()


def test_tenants_are_apart(served: Served, meter: str, labels: Labels) -> None:
    one, two = served.client("developer"), served.client("developer2")
    told = submit(one, meter, labels).json()
    assert two.get(f"/meters/{meter}/submissions").json()["items"] == []
    assert two.get(f"/meters/{meter}/submissions/{told['id']}").status_code == 404
    assert two.get(f"/meters/{meter}/submissions", params={"tenant": 1}).status_code == 403
    assert two.get(f"/meters/{meter}/signals", params={"tenant": 1}).status_code == 403
    assert submit(two, meter, labels, tenant=1).status_code == 403
    same = submit(two, meter, labels).json()
    assert same["id"] != told["id"]
    assert (same["step"], same["signal"]["tenant"]) == (1, 2)
    labeler = served.client("labeler")
    for tenant, answer in ((1, told), (2, same)):
        listed = labeler.get(f"/meters/{meter}/submissions", params={"tenant": tenant}).json()
        assert [each["id"] for each in listed["items"]] == [answer["id"]]


def test_a_runner_hands_in_and_hears_nothing(served: Served, meter: str, labels: Labels) -> None:
    runner = served.client("runner")
    told = submit(runner, meter, labels, errors=5)
    assert told.status_code == 200
    assert told.json()["signal"] is None
    shown = runner.get(f"/meters/{meter}/submissions/{told.json()['id']}").json()
    assert (shown["state"], shown["signal"]) == ("done", None)
    assert runner.get(f"/meters/{meter}/signals").status_code == 403
    assert runner.get(f"/meters/{meter}/status").status_code == 403
    seen = served.client("developer").get(f"/meters/{meter}/submissions/{told.json()['id']}")
    assert seen.json()["signal"]["band"] == 2


def test_what_is_spent_is_told_so(served: Served, meter: str, labels: Labels) -> None:
    developer = served.client("developer")
    for errors in (0, 1):
        assert submit(developer, meter, labels, errors=errors).status_code == 200
    refused = submit(developer, meter, labels, errors=2)
    assert (refused.status_code, refused.json()["error"]) == (409, "spent")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "no tar file"),
        (b"x" * 2000, "no tar file"),
        (packed(test_parquet=b"x"), "a tar of other files"),
        (packed(test_parquet=b"x", other_parquet=b"x"), "a tar of other files"),
        (packed(test_parquet=b"x", validation_parquet=b"x", more_parquet=b"x"), "other files"),
        (packed(test_exe=b"x", validation_exe=b"x"), "validation.exe: ending '.exe' given"),
        (packed(test_parquet=b"x", validation_parquet=b"x"), "validation.parquet: no Parquet"),
        (packed(model_onnx=b"x"), "planned without models"),
        (packed(**{"../test_parquet": b"x", "validation_parquet": b"x"}), "plain files"),
    ],
)
def test_a_body_that_is_none_costs_nothing(
    served: Served, meter: str, labels: Labels, body: bytes, message: str
) -> None:
    developer = served.client("developer")
    refused = developer.post(f"/meters/{meter}/submissions?model=m", content=body)
    assert refused.status_code == 422, refused.text
    assert message in refused.json()["message"]
    assert "/" not in refused.json()["message"].replace("apache/", "")
    assert developer.get(f"/meters/{meter}/status").json()["steps_left"] == 2


def test_predictions_that_do_not_fit_cost_nothing(
    served: Served, meter: str, labels: Labels
) -> None:
    developer = served.client("developer")
    refused = developer.post(
        f"/meters/{meter}/submissions?model=m", content=submission(labels[:-1])
    )
    assert refused.status_code == 422
    assert refused.json()["message"].startswith(
        "test.parquet: ids of the test set without a row: '23'"
    )


def test_a_long_body_is_refused(tmp_path: Path) -> None:
    with serve(tmp_path / "site", largest_body=12_000) as served:
        meter = served.add_meter()
        labels = begin(served, meter, tmp_path)
        developer = served.client("developer")
        long = packed(test_parquet=b"x" * 9_000, validation_parquet=b"x" * 9_000)
        refused = developer.post(f"/meters/{meter}/submissions?model=m", content=long)
        assert (refused.status_code, refused.json()["error"]) == (413, "too-large")
        assert submit(developer, meter, labels).status_code == 200


def test_other_formats_are_read_too(served: Served, meter: str, labels: Labels) -> None:
    rows = [f"{number},{label}" for number, label in enumerate(labels)]
    lines = "\n".join(["id,prediction", *rows, ""]).encode()
    body = packed(test_csv=lines, validation_parquet=predictions(VALIDATION))
    told = served.client("developer").post(f"/meters/{meter}/submissions?model=m", content=body)
    assert told.status_code == 200, told.text
    assert told.json()["signal"]["band"] == 1


def test_rows_are_matched_as_the_query_says(served: Served, tmp_path: Path) -> None:
    meter = served.add_meter(small_spec(inputs="public"))
    labels = begin(served, meter, tmp_path)
    table = pa.table({"key": np.arange(len(labels))[::-1], "prediction": labels[::-1]})
    body = packed(test_parquet=parquet(table), validation_parquet=predictions(VALIDATION))
    developer, path = served.client("developer"), f"/meters/{meter}/submissions?model=m"
    refused = developer.post(path, content=body)
    assert "no column 'id'" in refused.json()["message"]
    told = developer.post(f"{path}&id_column=key", content=body)
    assert told.json()["signal"]["band"] == 1
    short = packed(test_parquet=parquet(table.slice(1)), validation_parquet=predictions(VALIDATION))
    line = developer.post(f"{path}&id_column=key", content=short).json()["message"]
    assert f"without a row: '{len(labels) - 1}'" in line
    lenient = developer.post(f"{path}&id_column=key&missing=wrong", content=short)
    assert lenient.json()["signal"]["step"] == 2
    insisting = developer.post(f"{path}&no_ids=true", content=body)
    assert insisting.json()["signal"]["band"] != 1
    assert developer.post(f"{path}&missing=maybe", content=body).status_code == 422
    model = packed(model_onnx=b"x")
    assert "matter of predictions" in developer.post(f"{path}&no_ids=true", content=model).text


def test_a_check_is_free_and_for_the_own_team(served: Served, meter: str, labels: Labels) -> None:
    developer = served.client("developer")
    body = submission(labels, VALIDATION)
    place = f"/meters/{meter}/submissions/check"
    found = developer.post(place, content=body)
    assert found.status_code == 200, found.text
    checked = found.json()
    assert (checked["answer"], checked["answers"], checked["validation_loss"]) == (1, 2, 0)
    assert checked["classes"] == [0, 1]
    assert checked["test"]["rows"] == checked["test"]["matched"] == len(labels)
    assert checked["test"]["first"] == labels[:3].tolist()
    assert developer.get(f"/meters/{meter}/submissions").json()["items"] == []
    assert developer.get(f"/meters/{meter}/status").json()["steps_left"] == 2
    assert developer.post(place, params={"tenant": 2}, content=body).status_code == 403
    for name in ("labeler", "admin"):
        assert served.client(name).post(place, content=body).status_code == 403
    assert developer.post(place, content=b"x").status_code == 422


def test_a_model_is_not_run_for_a_check(served: Served, tmp_path: Path) -> None:
    meter = served.add_meter(small_spec(models=True), prefix="m-")
    developer = served.client("m-developer")
    place, body = f"/meters/{meter}/submissions/check", packed(model_onnx=b"no model")
    assert developer.post(place, content=body).json()["error"] == "wrong-time"
    begin(served, meter, tmp_path, prefix="m-")
    checked = developer.post(place, content=body).json()
    assert (checked["kind"], checked["answer"], checked["answers"]) == ("onnx", 1, 4)
    assert checked["validation_loss"] is None
    refused = developer.post(place, params={"no_ids": True}, content=body)
    assert "ids and missing rows are a matter of predictions" in refused.json()["message"]


def test_a_name_is_answered_once_if_that_is_asked_for(
    served: Served, meter: str, labels: Labels
) -> None:
    developer, path = served.client("developer"), f"/meters/{meter}/submissions"
    assert submit(developer, meter, labels, errors=5, model="nightly").status_code == 200
    query = {"model": "nightly", "once": "true"}
    for body in (submission(labels), packed(model_onnx=b"x")):
        again = developer.post(path, params=query, content=body).json()
        assert (again["state"], again["step"]) == ("done", 1)
        assert (again["signal"]["by_name"], again["signal"]["band"]) == (True, 2)
    assert developer.get(f"/meters/{meter}/status").json()["steps_left"] == 1
