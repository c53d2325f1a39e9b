"""Test sets over HTTP: whole, in parts, their inputs, their release."""

from __future__ import annotations

import io
import threading
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.forms import form
from tests.server.driving import (
    VALIDATION,
    add,
    begin,
    begun,
    give_validation,
    parquet,
    sealed,
    submit,
)
from tests.server.helpers import Served
from tests.service.helpers import rows, small_spec
from tests.service.submissions.models import threshold

from easeml_meter.server.worker import tasks
from easeml_meter.service.actor import Permission, needs
from easeml_meter.service.jobs import ThreadRunner
from easeml_meter.service.submissions.measuring import open_sealed

LABELS = np.random.default_rng(5).integers(0, 2, 40)
TABLE = rows(LABELS, seed=5)


def test_a_whole_test_set_begins_at_once(served: Served, meter: str, tmp_path: Path) -> None:
    labeler = served.client("labeler")
    added = add(labeler, meter, sealed(served, meter, TABLE, tmp_path))
    assert added.status_code == 201, added.text
    assert (added.json()["phase"], added.json()["rows"]) == ("active", 40)
    assert labeler.get(f"/meters/{meter}/requests").json()["items"] == []
    shown = served.client("developer").get(f"/meters/{meter}/test-sets/1").json()
    assert [column["name"] for column in shown["columns"]] == ["id", "x", "y", "label"]
    assert (shown["label"], shown["id_column"]) == ("label", "id")
    assert "sha256" not in shown
    again = add(labeler, meter, sealed(served, meter, TABLE, tmp_path))
    assert (again.status_code, again.json()["error"]) == (409, "wrong-time")


def test_parts_become_one_test_set_in_their_order(
    served: Served, meter: str, tmp_path: Path
) -> None:
    labeler = served.client("labeler")
    (request,) = labeler.get(f"/meters/{meter}/requests").json()["items"]
    needed = request["labels_needed"]
    assert (request["labels_here"], request["parts"]) == (0, [])
    assert request["recipients"] == [served.site.identity.recipient]
    sizes = [10, needed - 15, 5]
    start = 0
    for number, size in enumerate(sizes, 1):
        part = TABLE.slice(start, size)
        start += size
        added = add(labeler, meter, sealed(served, meter, part, tmp_path)).json()
        if number < len(sizes):
            assert (added["phase"], added["labels_here"]) == ("requested", start)
            (request,) = labeler.get(f"/meters/{meter}/requests").json()["items"]
            assert [each["rows"] for each in request["parts"]] == sizes[:number]
    assert (added["phase"], added["rows"]) == ("active", needed)

    space = served.site.space(meter)
    assert not space.files.names("parts")
    with space.reading() as books:
        generation = space.state(books).active()
    with open_sealed(space, generation) as whole:
        merged = pa.Table.from_batches(whole.batches())
    assert merged.to_pydict() == TABLE.slice(0, needed).to_pydict()
    give_validation(served.client("developer"), meter)
    told = submit(served.client("developer"), meter, LABELS[:needed])
    assert told.json()["signal"]["band"] == 1


def test_a_part_may_be_larger_than_the_rest(served: Served, meter: str, tmp_path: Path) -> None:
    labeler = served.client("labeler")
    add(labeler, meter, sealed(served, meter, TABLE.slice(0, 3), tmp_path), part=True)
    added = add(labeler, meter, sealed(served, meter, TABLE.slice(3), tmp_path))
    assert (added.json()["phase"], added.json()["rows"]) == ("active", 40)


def test_rows_that_are_there_already_are_refused(
    served: Served, meter: str, tmp_path: Path
) -> None:
    labeler = served.client("labeler")
    assert add(labeler, meter, sealed(served, meter, TABLE.slice(0, 5), tmp_path)).is_success
    twice = add(labeler, meter, sealed(served, meter, TABLE.slice(3, 5), tmp_path))
    assert twice.status_code == 422
    assert "rows 1, 2 of the test set have ids that stand in part 1" in twice.json()["message"]
    give_validation(served.client("developer"), meter)
    seen = rows(VALIDATION, seed=7).slice(10)
    visible = add(labeler, meter, sealed(served, meter, seen, tmp_path))
    assert "stand in validation set 1 under the same id" in visible.json()["message"]
    (request,) = labeler.get(f"/meters/{meter}/requests").json()["items"]
    assert request["labels_here"] == 5


def test_parts_have_the_same_columns(served: Served, meter: str, tmp_path: Path) -> None:
    labeler = served.client("labeler")
    assert add(labeler, meter, sealed(served, meter, TABLE.slice(0, 5), tmp_path)).is_success
    other = TABLE.slice(5, 5).rename_columns(["id", "x", "z", "label"])
    refused = add(labeler, meter, sealed(served, meter, other, tmp_path))
    assert refused.status_code == 422
    assert "as in the parts before" in refused.json()["message"]


def test_a_part_can_be_taken_back(served: Served, meter: str, tmp_path: Path) -> None:
    labeler = served.client("labeler")
    for start in (0, 5):
        part = sealed(served, meter, TABLE.slice(start, 5), tmp_path)
        assert add(labeler, meter, part).is_success
    assert served.client("developer").delete(f"/meters/{meter}/requests/1/parts/1").is_error
    assert labeler.delete(f"/meters/{meter}/requests/1/parts/1").status_code == 204
    assert labeler.delete(f"/meters/{meter}/requests/1/parts/1").status_code == 404
    (request,) = labeler.get(f"/meters/{meter}/requests").json()["items"]
    assert [(part["number"], part["rows"]) for part in request["parts"]] == [(2, 5)]
    assert len(served.site.space(meter).files.names("parts")) == 1


def test_a_file_for_another_meter_is_refused(served: Served, meter: str, tmp_path: Path) -> None:
    labeler = served.client("labeler")
    refused = add(labeler, meter, sealed(served, "another", TABLE, tmp_path))
    assert refused.status_code == 409
    assert "cannot be opened" in refused.json()["message"]
    assert labeler.get(f"/meters/{meter}/requests").json()["items"][0]["labels_here"] == 0


def test_a_request_is_described(served: Served, meter: str) -> None:
    path = f"/meters/{meter}/requests/1"
    given = {"reason": "the spring release", "deadline": "2026-03-31T18:00:00+02:00"}
    for user in ("labeler", "admin"):
        shown = served.client(user).patch(path, json=given)
        assert shown.status_code == 200, shown.text
        assert shown.json()["deadline"] == "2026-03-31T16:00:00.000000+00:00"
        assert shown.json()["reason"] == "the spring release"
    labeler = served.client("labeler")
    assert labeler.patch(path, json={"deadline": "tomorrow"}).status_code == 422
    assert labeler.patch(path, json={"deadline": "2026-03-31T18:00"}).status_code == 422
    assert labeler.patch(f"/meters/{meter}/requests/9", json=given).status_code == 404
    assert served.client("developer").patch(path, json=given).status_code == 403


@pytest.mark.parametrize("inputs", ["public", "hidden"])
def test_inputs_come_without_labels(served: Served, inputs: str, tmp_path: Path) -> None:
    meter = served.add_meter(small_spec(inputs=inputs))
    path = f"/meters/{meter}/test-sets/1/inputs"
    assert served.client("runner").get(path).status_code == 409
    assert add(served.client("labeler"), meter, sealed(served, meter, TABLE, tmp_path)).is_success
    for user, may in (
        ("labeler", True),
        ("runner", True),
        ("developer", inputs == "public"),
        ("admin", False),
    ):
        answer = served.client(user).get(path)
        assert answer.status_code == (200 if may else 403)
        if may:
            table = pq.read_table(io.BytesIO(answer.content))
            assert table.to_pydict() == TABLE.drop_columns("label").to_pydict()
    assert served.client("labeler").get(f"/meters/{meter}/test-sets/2/inputs").status_code == 404


def test_many_row_groups_of_inputs_are_streamed(served: Served, meter: str, tmp_path: Path) -> None:
    content = sealed(served, meter, TABLE, tmp_path, row_group_size=7)
    assert add(served.client("labeler"), meter, content).is_success
    answer = served.client("runner").get(f"/meters/{meter}/test-sets/1/inputs")
    file = pq.ParquetFile(io.BytesIO(answer.content))
    assert file.num_row_groups == 6
    assert file.read().to_pydict() == TABLE.drop_columns("label").to_pydict()


def test_a_spent_test_set_is_released(served: Served, tmp_path: Path) -> None:
    meter, labels = begun(served, tmp_path, small_spec(tenants=(2, 2)))
    developers = [served.client("developer"), served.client("developer2")]
    labeler = served.client("labeler")
    folder = f"/meters/{meter}/test-sets/1"
    assert labeler.post(f"{folder}/release").status_code == 409
    assert developers[0].get(f"{folder}/released/testset.parquet").status_code == 404
    for step in (1, 2):
        for number, developer in enumerate(developers):
            assert submit(developer, meter, labels, errors=step + 4 * number).is_success
    assert labeler.get(folder).json()["phase"] == "spent"
    assert labeler.get(f"/meters/{meter}/requests").json()["items"][0]["generation"] == 2
    assert developers[0].post(f"{folder}/release").status_code == 403
    released = labeler.post(f"{folder}/release")
    assert released.status_code == 200, released.text
    assert "testset.parquet" in released.json()["files"]
    again = labeler.post(f"{folder}/release")  # done already
    assert (again.status_code, again.json()) == (200, released.json())

    plain = served.client("runner").get(f"{folder}/released/testset.parquet")
    assert pq.read_table(io.BytesIO(plain.content)).column("label").to_pylist() == list(labels)
    assert served.client("runner").get(f"{folder}/released/retrospective.json").status_code == 403
    assert served.client("admin").get(f"{folder}/released/testset.parquet").status_code == 403
    for number, developer in enumerate(developers):
        records = developer.get(f"{folder}/released/retrospective.json").json()
        assert [each["tenant"] for each in records] == [number + 1] * 2
        losses = [each["truth"]["test_loss"] for each in records]
        assert losses == pytest.approx([(step + 4 * number) / len(labels) for step in (1, 2)])
        page = developer.get(f"{folder}/released/report.html")
        assert page.headers["content-type"].startswith("text/html")
        view = developer.get(f"/meters/{meter}/status", params={"generation": 1}).json()
        assert [truth["test_loss"] for truth in view["retrospective"]] == losses


def test_a_test_set_with_models_is_released_by_a_worker(served: Served, tmp_path: Path) -> None:
    meter = served.add_meter(small_spec(models=True, inputs="hidden"))
    begin(served, meter, tmp_path)
    labeler, developer, path = served.client("labeler"), served.client("developer"), "test-sets/1"
    model = form(threshold(tmp_path / "model.onnx").form())
    developer.post(f"/meters/{meter}/submissions", params={"model": "m"}, content=model)
    worker = ThreadRunner(served.site, *tasks(served.app.state.settings))
    assert worker.run_next()
    assert labeler.post(f"/meters/{meter}/{path}/retire").is_success
    path = f"/meters/{meter}/{path}/release"
    assert labeler.get(path).status_code == 404
    for ask in (labeler.post, labeler.get):
        waiting = ask(path)
        assert (waiting.status_code, waiting.json()["state"]) == (202, "waiting")
    for other in ("developer", "runner", "admin"):
        assert served.client(other).get(path).status_code == 403
    assert worker.run_next()
    found = labeler.get(path)
    assert (found.status_code, found.json()["state"]) == (200, "released")
    assert "testset.parquet" in found.json()["files"]
    assert not worker.run_next()


def test_notices_are_for_labelers(served: Served, meter: str, tmp_path: Path) -> None:
    labels = begin(served, meter, tmp_path, seed=3)
    probe = parquet(rows(labels, seed=1003).slice(0, 4))
    developer = served.client("developer")
    given = developer.post(f"/meters/{meter}/validation-sets", content=probe)
    assert given.status_code == 201
    assert developer.get(f"/meters/{meter}/notices").status_code == 403
    notices = served.client("labeler").get(f"/meters/{meter}/notices").json()["items"]
    shared = {each["validation_set"]: each["rows_shared"] for each in notices}
    assert shared == {None: 0, 1: 0, 2: 4}
    assert notices[-1]["first_rows"] == [1, 2, 3, 4]
    assert notices[-1]["sentence"] == "validation set 2 shares 4 rows with test set 1"


@pytest.mark.parametrize("user", ["labeler", "admin"])
def test_a_test_set_is_retired_early(served: Served, meter: str, tmp_path: Path, user: str) -> None:
    labels = begin(served, meter, tmp_path)
    developer = served.client("developer")
    assert submit(developer, meter, labels).status_code == 200
    path = f"/meters/{meter}/test-sets/1/retire"
    for other in ("developer", "runner"):
        assert served.client(other).post(path).status_code == 403
    retired = served.client(user).post(path)
    assert (retired.status_code, retired.json()["phase"]) == (200, "spent")
    (request,) = served.client("labeler").get(f"/meters/{meter}/requests").json()["items"]
    assert request["generation"] == 2
    refused = submit(developer, meter, labels, salt="b")
    assert (refused.status_code, refused.json()["error"]) == (409, "spent")
    again = served.client(user).post(path)  # done already
    assert (again.status_code, again.json()) == (200, retired.json())


def test_whoever_delivers_or_releases_holds_up_nobody(
    served: Served, meter: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fifty of them held all threads, and nobody else was answered until they were done."""
    slow, routes = threading.Event(), import_module("easeml_meter.server.api.testsets")
    monkeypatch.setattr(routes, "finish_upload", gated(lambda *_, **__: slow.wait(60)))
    monkeypatch.setattr(routes.releasing, "request_release", gated(lambda *_, **__: slow.wait(60)))
    path, post = f"/meters/{meter}/test-sets", served.client("labeler").post
    with ThreadPoolExecutor(100) as pool:
        waiting = [pool.submit(post, path, json={"upload": "0" * 32}) for _ in range(50)]
        waiting += [pool.submit(post, f"{path}/1/release") for _ in range(50)]
        try:
            assert served.client("developer").get(path).status_code == 200
            assert not any(each.done() for each in waiting)
        finally:
            slow.set()


def gated(function: Any) -> Any:
    """Return a use case of labelers."""
    return needs(Permission.ADD_TEST_SET)(function)
