"""A check says how files are understood, costs nothing, and looks at no hidden label."""

from __future__ import annotations

from pathlib import Path
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.service.helpers import make_session, small_spec, with_errors
from tests.service.submissions.models import by_x

from easeml_meter.core.people import Role
from easeml_meter.core.submissions import CheckedSubmission
from easeml_meter.errors import Denied, InvalidInput, Spent, WrongPhase
from easeml_meter.meter import Meter
from easeml_meter.service.submissions.kinds import Function
from easeml_meter.spec import MeterSpec
from easeml_meter.vault.sealing import SealedTestSet


def test_a_check_says_how_the_files_are_understood(tmp_path: Path) -> None:
    session = make_session(tmp_path)
    n = len(session.test_labels)
    test, validation = session.files(0, 5)
    found = session.meter.check(test, validation)
    assert found.test is not None
    assert (found.test.rows, found.test.matched, found.test.missing) == (n, n, 0)
    assert list(found.test.first) == session.test_labels[:3].tolist()
    assert found.validation is not None
    assert (found.validation.rows, found.validation.matched) == (20, None)
    wrong = with_errors(session.validation_labels, 5)
    assert list(found.validation.first) == wrong[:3].tolist()
    assert found.classes == (0, 1)
    assert found.validation_loss == 0.25
    assert (found.answer, found.answers, found.repeated) == (1, 4, False)
    assert CheckedSubmission.from_json(found.to_json()) == found


def test_a_check_costs_nothing_and_leaves_no_trace(tmp_path: Path) -> None:
    session = make_session(tmp_path)
    test, validation = session.files(0, 0)
    before = session.meter.audit().links, session.meter.status()
    for _ in range(9):
        session.meter.check(test, validation)
    assert (session.meter.audit().links, session.meter.status()) == before
    session.meter.submit(test, validation, model="m")
    again = session.meter.check(test, validation)
    assert (again.repeated, again.answer) == (True, 2)
    other = session.meter.check(*session.files(1, 0))
    assert (other.repeated, other.answer, other.answers) == (False, 2, 4)


def test_a_check_reads_no_label(tmp_path: Path) -> None:
    session = make_session(tmp_path)
    with mock.patch.object(SealedTestSet, "labels", side_effect=AssertionError("a label")):
        session.meter.check(*session.files(0, 0))
        with pytest.raises(AssertionError, match="a label"):
            session.submit(0, 0)


def test_classes_are_shown_by_name_in_the_order_that_scores_have(tmp_path: Path) -> None:
    spec = MeterSpec.uniform(
        signals=2,
        tolerance=0.3,
        steps=2,
        delta=0.2,
        inputs="public",
        loss="brier",
        classes=("spam", "ham"),
    )
    meter = Meter.create(tmp_path / "meter", spec)
    rows = meter.plan.labels
    ids, words = pa.array(range(rows)), pa.array(["ham", "spam"] * rows)[:rows]
    pq.write_table(pa.table({"id": ids, "x": ids, "label": words}), tmp_path / "rows.parquet")
    pq.write_table(pa.table({"x": [-1, -2], "label": ["ham", "spam"]}), tmp_path / "v.parquet")
    meter.set_validation(tmp_path / "v.parquet", label="label")
    meter.seal(tmp_path / "rows.parquet", tmp_path / "s", label="label", id_column="id")
    meter.add_test_set(tmp_path / "s")
    scores = pa.table({"id": ids, "prediction": [[0.25, 0.75]] * rows})
    backwards = scores.take(pa.array(range(rows - 1, -1, -1)))
    pq.write_table(backwards, tmp_path / "t.parquet")
    pq.write_table(pa.table({"prediction": [[0.0, 1.0], [1.0, 0.0]]}), tmp_path / "p.parquet")
    found = meter.check(tmp_path / "t.parquet", tmp_path / "p.parquet")
    assert found.classes == ("spam", "ham")
    assert found.test is not None
    assert found.test.first[0] == {"spam": 0.25, "ham": 0.75}
    assert found.test.matched == rows
    assert found.validation is not None
    assert found.validation.first == ({"spam": 0.0, "ham": 1.0}, {"spam": 1.0, "ham": 0.0})
    assert found.validation_loss == 0


def test_test_ids_are_told_to_those_who_see_the_inputs(tmp_path: Path) -> None:
    session = make_session(tmp_path, small_spec(inputs="hidden"))
    test, validation = session.files(0, 0)
    shuffled = tmp_path / "shuffled.parquet"
    pq.write_table(pq.read_table(test).take(np.arange(len(session.test_labels))[::-1]), shuffled)
    developer = Meter.open(tmp_path / "meter", role=Role.DEVELOPER)
    runner = Meter.open(tmp_path / "meter", role=Role.RUNNER)
    told, silent = runner.check(shuffled, validation).test, developer.check(test, validation).test
    assert told is not None
    assert told.matched == len(session.test_labels)
    assert silent is not None
    assert silent.matched is None
    with pytest.raises(InvalidInput, match="the ids do not fit the test set"):
        developer.check(shuffled, validation)


def test_a_model_is_run_on_the_validation_set_alone(tmp_path: Path) -> None:
    session = make_session(tmp_path, small_spec(models=True, inputs="hidden"))
    rows_seen = []

    def model(batch: pa.RecordBatch) -> object:
        rows_seen.append(batch.num_rows)
        return by_x(batch)

    found = session.meter.check_any(Function.of(model, "mine"))
    assert (found.kind, found.test, found.validation) == ("function", None, None)
    assert found.validation_loss is not None
    assert sum(rows_seen) <= 2 * 20
    assert session.meter.status().signals == ()


def test_a_check_is_refused_where_a_submission_is(tmp_path: Path) -> None:
    meter = Meter.create(tmp_path / "early" / "meter", small_spec())
    session = make_session(tmp_path, small_spec(steps=1))
    test, validation = session.files(0, 0)
    with pytest.raises(WrongPhase, match="no test set yet"):
        meter.check(test, validation)
    with pytest.raises(InvalidInput, match="not in the test set"):
        session.meter.check(validation, validation)
    with pytest.raises(Denied):
        Meter.open(tmp_path / "meter", role=Role.LABELER).check(test, validation)
    with pytest.raises(InvalidInput, match="tenant"):
        session.meter.check(test, validation, tenant=7)
    session.meter.submit(test, validation, model="m")
    assert session.meter.check(test, validation).repeated
    with pytest.raises(Spent):
        session.meter.check(*session.files(1, 0))
