"""Submissions over HTTP: predictions answered at once, models through the queue."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.server.driving import (
    VALIDATION,
    add,
    begin,
    begun,
    give_validation,
    packed,
    parquet,
    predictions,
    sealed,
    submission,
    submit,
)
from tests.server.helpers import Served, serve
from tests.service.helpers import Labels, rows, small_spec

from easeml_meter.errors import StorageError
from easeml_meter.storage.books import Books
from easeml_meter.storage.store import Store

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


# What names the sets that its sender saw is one submission, however often it is sent.
SEEN = {"test_set": 1, "validation_set": 1}


def test_a_repetition_is_free_after_the_validation_set_was_replaced(
    served: Served, meter: str, labels: Labels
) -> None:
    """Before, it was another submission, measured on the new set, and charged."""
    developer = served.client("developer")
    first = submit(developer, meter, labels, params=SEEN)
    assert first.status_code == 200, first.text
    assert give_validation(developer, meter, seed=77).json()["number"] == 2
    again = submit(developer, meter, labels, params=SEEN)
    assert (again.status_code, again.json()["id"]) == (200, first.json()["id"])
    assert again.json()["signal"]["repeated"]
    assert again.json()["signal"]["steps_left"] == first.json()["signal"]["steps_left"]
    refused = submit(developer, meter, labels, errors=3, params=SEEN)  # was never answered on those
    assert (refused.status_code, refused.json()["error"]) == (409, "wrong-time")
    assert "test set 1 and validation set 2 are in use now" in refused.json()["message"]
    assert len(developer.get(f"/meters/{meter}/signals").json()["items"]) == 1
    fresh = submit(developer, meter, labels, params={"test_set": 1, "validation_set": 2})
    assert (fresh.json()["step"], fresh.json()["signal"]["repeated"]) == (2, False)


def test_a_repetition_is_free_after_the_next_test_set_has_begun(
    served: Served, meter: str, labels: Labels, tmp_path: Path
) -> None:
    """Before, it was another submission, measured on the next test set, and charged."""
    developer = served.client("developer")
    first = submit(developer, meter, labels, params=SEEN)
    assert served.client("labeler").post(f"/meters/{meter}/test-sets/1/retire").is_success
    content = sealed(served, meter, rows(labels, seed=4321), tmp_path, generation=2)
    assert add(served.client("labeler"), meter, content).status_code == 201
    again = submit(developer, meter, labels, params=SEEN)
    assert (again.status_code, again.json()["id"]) == (200, first.json()["id"])
    assert (again.json()["generation"], again.json()["signal"]["repeated"]) == (1, True)
    refused = submit(developer, meter, labels, errors=3, params=SEEN)
    assert (refused.status_code, refused.json()["error"]) == (409, "wrong-time")
    assert developer.get(f"/meters/{meter}/status").json()["steps_left"] == 2
    for wrong in ({"test_set": 3}, {"validation_set": 9}, {"test_set": 2, "validation_set": 9}):
        assert submit(developer, meter, labels, params=wrong).json()["error"] == "wrong-time"
    assert submit(developer, meter, labels, params={"test_set": 2}).json()["generation"] == 2


def test_of_many_clients_at_once_each_team_gets_what_is_left_and_no_more(
    served_on_each_database: Served, tmp_path: Path
) -> None:
    served = served_on_each_database
    meter, labels = begun(served, tmp_path, small_spec(steps=5, tenants=(3, 2)))

    def send(number: int) -> tuple[int, int, Any]:
        team = 1 + number % 2
        client = served.client("developer" if team == 1 else "developer2")
        answer = submit(client, meter, labels, errors=number // 2, salt=str(number // 4))
        return team, answer.status_code, answer.json().get("step") or answer.json()["error"]

    with ThreadPoolExecutor(16) as pool:
        found = list(pool.map(send, range(32)))
    for team, steps in ((1, 3), (2, 2)):
        told = [step for each, status, step in found if (each, status) == (team, 200)]
        assert sorted({*told}) == list(range(1, steps + 1))
        refused = {(status, error) for each, status, error in found if each == team} - {
            (200, step) for step in told
        }
        assert refused == {(409, "spent")}
    with served.site.reading() as books:
        entries = books.entries.all(meter, 1)
    assert [(each.tenant, each.step) for each in entries] == [
        (1, 1),
        (1, 2),
        (1, 3),
        (2, 1),
        (2, 2),
    ]
    assert served.client("admin").get(f"/meters/{meter}/audit").json()["sound"]


def test_an_answer_whose_commit_was_not_heard_is_charged_once(
    served: Served, meter: str, labels: Labels, monkeypatch: pytest.MonkeyPatch
) -> None:
    original, developer = Store.writing, served.client("developer")

    @contextmanager
    def unheard(self: Store, meter: str | None = None) -> Iterator[Books]:
        with original(self, meter) as books:
            yield books
        raise StorageError("the books cannot be used: server closed the connection")

    with monkeypatch.context() as patched:
        patched.setattr(Store, "writing", unheard)
        assert submit(developer, meter, labels, params=SEEN).status_code == 503
    again = submit(developer, meter, labels, params=SEEN)
    assert (again.status_code, again.json()["step"]) == (200, 1)
    assert again.json()["signal"]["repeated"]
    assert len(developer.get(f"/meters/{meter}/signals").json()["items"]) == 1


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
        (b"", "no type' given, a form (multipart"),
        (b"x" * 2000, "no type' given, a form (multipart"),
        (packed(), "no field' given"),
        (packed(test_parquet=b"x"), "validation is missing"),
        (packed(test_parquet=b"x", other_parquet=b"x"), "'other' given, test and validation"),
        (packed(test_parquet=b"x", validation_parquet=b"x", more_parquet=b"x"), "'more' given"),
        (packed(test_exe=b"x", validation_exe=b"x"), "validation.exe: ending '.exe' given"),
        (packed(test_parquet=b"x", validation_parquet=b"x"), "validation.parquet: no Parquet"),
        (packed(model_onnx=b"x"), "planned without models"),
        (packed(command=b"python p.py", **{"files/../p.py": b"x"}), "name needed"),
    ],
)
def test_a_body_that_is_none_costs_nothing(
    served: Served, meter: str, labels: Labels, body: bytes, message: str
) -> None:
    developer = served.client("developer")
    refused = developer.post(f"/meters/{meter}/submissions?model=m", content=body)
    assert refused.status_code == 422, refused.text
    assert message in refused.json()["message"]
    named = ("apache/", "multipart/form-data", "files/../p.py")
    message = refused.json()["message"]
    assert "/" not in reduce(lambda line, known: line.replace(known, ""), named, message)
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
        meter, labels = begun(served, tmp_path)
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
    meter, labels = begun(served, tmp_path, small_spec(inputs="public"))
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
