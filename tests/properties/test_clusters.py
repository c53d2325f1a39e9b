"""Meters of clusters: where rows belong together, the promise counts clusters and says so."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.server.driving import add, packed, parquet, sealed
from tests.server.helpers import serve
from tests.service.helpers import Labels, small_spec

from easeml_meter.core.questions.planning import required_labels
from easeml_meter.errors import InvalidInput
from easeml_meter.meter import Meter
from easeml_meter.promise.assumptions import CLUSTERED
from easeml_meter.spec import MeterSpec

EACH = (1, 4, 7)
"""Rows of a document: the sizes take turns."""


def spec(**options: Any) -> MeterSpec:
    return small_spec(clusters=True, **options)


@dataclass
class Documents:
    """Questions about documents, whose labels a developer here knows."""

    documents: list[str]
    labels: Labels

    @classmethod
    def of(cls, count: int, prefix: str, seed: int) -> Documents:
        names = [f"{prefix}{at}" for at in range(count) for _ in range(EACH[at % len(EACH)])]
        return cls(names, np.random.default_rng(seed).integers(0, 2, len(names)))

    @property
    def table(self) -> pa.Table:
        rows = np.arange(len(self.labels))
        inputs = np.random.default_rng(len(self.documents)).normal(size=len(rows))
        columns = {"id": rows, "document": self.documents, "x": inputs, "label": self.labels}
        return pa.table(columns)

    def predicted(self, wrong: set[str]) -> pa.Table:
        """Get every question about some documents wrong."""
        flipped = np.array([name in wrong for name in self.documents])
        values = np.where(flipped, 1 - self.labels, self.labels)
        return pa.table({"id": np.arange(len(values)), "prediction": values})

    def loss(self, wrong: set[str]) -> Fraction:
        """Return the mean over documents of the mean loss of their questions."""
        return Fraction(len(wrong), len(set(self.documents)))


@dataclass
class Room:
    """A meter of clusters with both sets."""

    meter: Meter
    hidden: Documents
    visible: Documents
    folder: Path

    def submit(self, wrong: set[str], model: str) -> Any:
        test, validation = self.hidden.predicted(wrong), self.visible.predicted(set())
        return self.meter.submit(test, validation, model=model)


@pytest.fixture
def room(tmp_path: Path) -> Room:
    meter = Meter.create(tmp_path / "meter", spec(), name="documents")
    hidden = Documents.of(meter.plan.labels, "h", 1)
    visible = Documents.of(15, "v", 2)
    meter.set_validation(visible.table, label="label", id_column="id", cluster="document")
    file = tmp_path / "hidden.sealed"
    made = meter.seal(hidden.table, file, label="label", id_column="id", cluster="document")
    assert (made.rows, made.clusters) == (len(hidden.labels), meter.plan.labels)
    meter.add_test_set(file, ids_renumbered=True)
    return Room(meter, hidden, visible, tmp_path)


def test_it_is_planned_with_a_bound_for_means() -> None:
    """The exact bound is for losses of 0 or 1: the mean of a cluster is neither."""
    clustered, plain = required_labels(spec()), required_labels(small_spec())
    graded = required_labels(small_spec(loss="score"))
    assert (clustered.spec.tail, clustered.labels) == (graded.spec.tail, graded.labels)
    assert clustered.labels > plain.labels
    assert CLUSTERED in clustered.assumptions
    assert "the loss of each example is 0 or 1" not in clustered.assumptions
    mean = "test loss (the mean over clusters of the mean loss of their rows) is within"
    assert mean in clustered.promise
    assert mean not in plain.promise


@pytest.mark.parametrize(
    "options",
    [
        {"models": True},
        {"bands": (), "question": "n > 0.5 +/- 0.2"},
        {"loss": "recall[a]", "classes": ("a", "b"), "rows": 1000},
    ],
)
def test_what_clusters_do_not_go_with(options: dict[str, Any]) -> None:
    settings: dict[str, Any] = {"steps": 4, "delta": 0.2, "clusters": True}
    with pytest.raises(InvalidInput, match="cluster"):
        MeterSpec(**(settings | {"bands": small_spec().bands} | options))


def test_one_example_is_a_document(room: Room) -> None:
    """A developer who fails on the long documents is told of documents, not of questions."""
    count = room.meter.plan.labels
    assert room.meter.generations[-1].rows == count
    long = {f"h{at}" for at in range(count) if at % len(EACH) == 2}
    signals = [room.submit(wrong, f"m{len(wrong)}") for wrong in (set(), long)]
    rows = sum(name in long for name in room.hidden.documents) / len(room.hidden.documents)
    assert rows > 0.5 > float(room.hidden.loss(long)) > 0.3
    assert [each.answer for each in signals] == [1, 3]
    assert signals[1].validation_loss == 0
    room.meter.retire()
    room.meter.release()
    truths = room.meter.history()[0].retrospective
    losses = [Fraction(each.test_loss).limit_denominator(10_000) for each in truths if each]
    assert losses == [0, room.hidden.loss(long)]
    assert room.meter.audit().problems == ()


def test_the_validation_loss_is_one_of_clusters_too(room: Room) -> None:
    wrong = {"v2", "v5"}
    test, validation = room.hidden.predicted(set()), room.visible.predicted(wrong)
    signal = room.meter.submit(test, validation, model="m")
    assert signal.validation_loss == pytest.approx(2 / 15, abs=1e-9)
    assert room.meter.check(test, validation).validation_loss == pytest.approx(2 / 15, abs=1e-9)


def test_too_few_clusters_weaken_the_promise_however_many_rows(tmp_path: Path) -> None:
    meter = Meter.create(tmp_path / "meter", spec(), name="documents")
    few = Documents.of(meter.plan.labels - 1, "h", 1)
    assert len(few.labels) > 2 * meter.plan.labels
    meter.seal(few.table, tmp_path / "few.sealed", label="label", cluster="document")
    with pytest.raises(InvalidInput, match=r"clusters: \d+ given, \d+ planned, which weakens the"):
        meter.add_test_set(tmp_path / "few.sealed")
    added = meter.add_test_set(tmp_path / "few.sealed", accept_fewer=True)
    assert added.rows == meter.plan.labels - 1
    assert meter.status().spec.tolerances[0] > meter.spec.tolerances[0]


def test_the_meter_counts_them_itself(tmp_path: Path) -> None:
    """Whoever seals a file writes into it what they like: it is counted when it is taken in."""
    with serve(tmp_path / "site") as served:
        meter = served.add_meter(spec())
        few = Documents.of(required_labels(spec()).labels - 1, "h", 1)
        for options, why in (
            ({"cluster": "document"}, "clusters: "),
            ({}, "this meter counts clusters"),
        ):
            content = sealed(served, meter, few.table, tmp_path, **options)
            answer = add(served.client("labeler"), meter, content)
            assert (answer.status_code, why in answer.json()["message"]) == (422, True)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({}, "cluster: 'no column' given, this meter counts clusters: name the column"),
        ({"cluster": "page"}, "page"),
        ({"cluster": "label"}, "neither the label nor the id column"),
        ({"cluster": "document", "part": True}, "a test set of clusters is delivered whole"),
    ],
)
def test_wrong_columns(tmp_path: Path, options: dict[str, Any], why: str) -> None:
    meter = Meter.create(tmp_path / "meter", spec(), name="documents")
    table = Documents.of(meter.plan.labels, "h", 1).table
    with pytest.raises(InvalidInput, match=why):
        meter.seal(table, tmp_path / "x.sealed", label="label", id_column="id", **options)
    assert not (tmp_path / "x.sealed").exists()
    if "part" not in options:
        with pytest.raises(InvalidInput, match=why):
            meter.set_validation(table, label="label", id_column="id", **options)


def test_a_meter_of_rows_takes_no_clusters(tmp_path: Path) -> None:
    meter = Meter.create(tmp_path / "meter", small_spec(), name="rows")
    table = Documents.of(meter.plan.labels, "h", 1).table
    with pytest.raises(InvalidInput, match="planned for independent rows"):
        meter.seal(table, tmp_path / "x.sealed", label="label", cluster="document")


def test_a_server_takes_them_and_says_so(tmp_path: Path) -> None:
    with serve(tmp_path / "site", requests_per_second=0) as served:
        meter = served.add_meter(spec())
        needed = required_labels(spec()).labels
        hidden, visible = Documents.of(needed, "h", 1), Documents.of(15, "v", 2)
        developer = served.client("developer")
        given = developer.post(
            f"/meters/{meter}/validation-sets",
            params={"label": "label", "id_column": "id", "cluster": "document"},
            content=parquet(visible.table),
        )
        assert (given.status_code, given.json()["cluster"]) == (201, "document"), given.text
        content = sealed(served, meter, hidden.table, tmp_path, cluster="document")
        added = add(served.client("labeler"), meter, content)
        assert added.status_code == 201, added.text
        shown = developer.get(f"/meters/{meter}/test-sets").json()["items"][0]
        assert (shown["rows"], shown["table_rows"]) == (needed, len(hidden.labels))
        assert shown["cluster_column"] == "document"
        body = packed(
            test_parquet=parquet(hidden.predicted({"h2"})),
            validation_parquet=parquet(visible.predicted(set())),
        )
        place = f"/meters/{meter}/submissions"
        answer = developer.post(place, params={"model": "m"}, content=body)
        assert answer.json()["signal"]["band"] == 1, answer.text
        promise = developer.get(f"/meters/{meter}").json()
        assert "the mean over clusters" in promise["promise"]
        assert CLUSTERED in promise["assumptions"]
