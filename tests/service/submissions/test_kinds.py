"""Kinds of submissions: how each is checked and run, sent to a server, and read back there."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.service.helpers import Clock, Session, make_session, rows, small_spec
from tests.service.submissions.models import VISIBLE, by_x, fails, program, run, threshold

from easeml_meter.core.people import Role
from easeml_meter.errors import InvalidInput
from easeml_meter.meter import Meter
from easeml_meter.scoring.bundle import Bundle, BundledFile
from easeml_meter.scoring.ids import RowMatching
from easeml_meter.scoring.predictor import FunctionModel, SandboxUnavailable
from easeml_meter.server.api.forms import Field, packed
from easeml_meter.service.submissions.kinds import (
    KINDS,
    MODELS,
    Command,
    Function,
    Model,
    OnnxFile,
    PredictionFiles,
    unpack,
)
from easeml_meter.tables.archive import File, pack
from easeml_meter.tables.source import Held

SENT: dict[str, PredictionFiles | Model] = {
    "predictions": PredictionFiles(Held("test.csv", b"1"), Held("validation.parquet", b"2")),
    "onnx": OnnxFile(Held("model.onnx", b"no model")),
    "command": Command(
        Bundle(
            "python predict.py",
            (BundledFile("folder/run.sh", b"2", executable=True), BundledFile("predict.py", b"1")),
        )
    ),
}


def sent(submitted: PredictionFiles | Model) -> bytes:
    """Return what a server makes of the form that a submission is sent as."""
    fields = [Field(name, file, content) for name, (file, content) in submitted.form()]
    return packed(fields)


pytestmark = pytest.mark.slow


def test_every_kind_that_a_server_takes_is_tried_here() -> None:
    assert {kind.kind for kind in KINDS} == set(SENT)
    assert {kind.kind for kind in KINDS if kind.queued} == set(MODELS)


@pytest.mark.parametrize("kind", SENT)
def test_what_is_packed_is_unpacked(kind: str) -> None:
    found = unpack(sent(SENT[kind]))
    assert found == SENT[kind]
    assert found.kind == kind


@pytest.mark.parametrize("kind", MODELS)
def test_a_model_that_waited_is_the_one_that_was_sent(kind: str) -> None:
    found = unpack(sent(SENT[kind]))
    assert not isinstance(found, PredictionFiles)
    assert MODELS[kind].read(found.content()) == found


def test_files_are_sent_under_the_names_that_a_server_knows(tmp_path: Path) -> None:
    test, validation = tmp_path / "mine.csv", tmp_path / "yours.npy"
    for path in (test, validation):
        path.write_bytes(b"0")
    found = unpack(sent(PredictionFiles(test, validation)))
    assert found == PredictionFiles(Held("test.csv", b"0"), Held("validation.npy", b"0"))


def test_a_file_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"model\.onnx"):
        OnnxFile(tmp_path / "model.onnx").form()


def test_a_function_stays_where_it_is() -> None:
    function = Function.of(lambda batch: batch, "mine")
    with pytest.raises(InvalidInput, match="a function"):
        function.form()


@pytest.mark.parametrize(
    "names",
    [
        [],
        ["test.csv"],
        ["test.csv", "test.parquet"],
        ["test.csv", "validation.csv", "more.csv"],
        ["folder/test.csv", "validation.csv"],
        ["model.onnx", "test.csv"],
        ["other.onnx"],
    ],
)
def test_other_files_are_refused(names: list[str]) -> None:
    with pytest.raises(InvalidInput, match="other files"):
        unpack(pack({name: File(b"x") for name in names}))


def test_a_meter_planned_without_models_refuses_them(tmp_path: Path) -> None:
    session = make_session(tmp_path, small_spec(inputs="hidden"))
    with pytest.raises(InvalidInput, match="models = true"):
        run(session, program())
    assert session.meter.status().signals == ()


def test_without_a_sandbox_nothing_runs(session: Session) -> None:
    with (
        mock.patch("shutil.which", return_value=None),
        pytest.raises(SandboxUnavailable, match="apt-get install -y bubblewrap"),
    ):
        run(session, program())
    assert session.meter.status().signals == ()


def test_a_trusted_function(session: Session, sandboxed: None) -> None:
    first = run(session, Function(FunctionModel(by_x, "by x, 1")))
    assert run(session, program()).name == first.name  # the same model, sandboxed
    assert run(session, Function(FunctionModel(by_x, "by x, 1"))).repeated
    assert run(session, Function(FunctionModel(fails, "fails"))).name == "no-reading"


def test_an_onnx_model(session: Session, tmp_path: Path, sandboxed: None) -> None:
    model = threshold(tmp_path / "model.onnx")
    told = run(session, model)
    assert told.name == run(session, program()).name
    assert run(session, model).repeated


# --- Ids of both sets ---


def written(path: Path, ids: Any, predictions: Any) -> Path:
    pq.write_table(pa.table({"id": ids, "prediction": predictions}), path)
    return path


def with_ids(folder: Path, **options: Any) -> Session:
    """Make a session whose validation set has ids, too."""
    session = make_session(folder, small_spec(**options))
    session.meter.replace_validation(folder / "validation.parquet", id_column="id")
    return session


def shuffled(session: Session, folder: Path) -> tuple[Path, Path]:
    """Write right predictions for both sets, backwards."""
    files = []
    for name, labels in (("test", session.test_labels), ("visible", session.validation_labels)):
        ids = np.arange(len(labels))[::-1]
        files.append(written(folder / f"{name}-backwards.parquet", ids, labels[::-1]))
    return files[0], files[1]


def test_both_files_come_in_any_order(tmp_path: Path) -> None:
    session = with_ids(tmp_path)
    test, validation = shuffled(session, tmp_path)
    assert session.meter.submit(test, validation, model="m").band == 1
    insisted = RowMatching(in_order=True)
    other = session.meter.submit(test, session.files(0, 0)[1], model="n", matching=insisted)
    assert other.band != 1


def test_the_retrospective_measures_what_was_joined(tmp_path: Path) -> None:
    session = with_ids(tmp_path, steps=2)
    test, validation = shuffled(session, tmp_path)
    session.meter.submit(test, validation, model="joined")
    half = len(session.test_labels) // 2
    ids = np.arange(half)[::-1]
    few = written(tmp_path / "few.parquet", ids, session.test_labels[:half][::-1])
    wrong = RowMatching(missing_wrong=True)
    session.meter.submit(few, validation, model="half of it", matching=wrong)
    session.meter.release()
    losses = [truth and truth.test_loss for truth in session.meter.status().retrospective]
    rows = len(session.test_labels)
    assert losses == [0.0, pytest.approx((rows - half) / rows)]


def test_missing_validation_ids_are_named(tmp_path: Path) -> None:
    session = with_ids(tmp_path)
    test, _ = shuffled(session, tmp_path)
    few = written(tmp_path / "few.parquet", [0, 1], [0, 0])
    with pytest.raises(InvalidInput, match="ids of the validation set without a row: '2', '3'"):
        session.meter.submit(test, few, model="m")


def test_an_id_column_for_sets_without_ids_is_refused(tmp_path: Path) -> None:
    meter = Meter.create(tmp_path / "meter", small_spec(), clock=Clock())
    labels = np.arange(meter.plan.labels) % 2
    pq.write_table(rows(labels, seed=1), tmp_path / "rows.parquet")
    pq.write_table(rows(labels, seed=2), tmp_path / "validation.parquet")
    meter.seal(tmp_path / "rows.parquet", tmp_path / "set.sealed", label="label")
    meter.add_test_set(tmp_path / "set.sealed")
    meter.set_validation(tmp_path / "validation.parquet", label="label")
    path = written(tmp_path / "p.parquet", np.arange(len(labels)), labels)
    with pytest.raises(InvalidInput, match="neither the test set nor the validation set has ids"):
        meter.submit(path, path, model="m", matching=RowMatching("id"))
    assert meter.submit(path, path, model="m").band == 1


def test_only_who_may_see_the_inputs_learns_of_test_ids(tmp_path: Path) -> None:
    """A developer of hidden inputs gets one sentence; an owner or a runner gets names."""
    session = with_ids(tmp_path, inputs="hidden")
    _, validation = shuffled(session, tmp_path)
    developer = Meter.open(tmp_path / "meter", role=Role.DEVELOPER)
    runner = Meter.open(tmp_path / "meter", role=Role.RUNNER)
    ids = np.arange(len(session.test_labels))
    told = set()
    for given in (ids[::-1], ids + 1, ids * 0):
        path = written(tmp_path / "p.parquet", given, session.test_labels)
        with pytest.raises(InvalidInput) as refused:
            developer.submit(path, validation, model="m")
        told.add(str(refused.value))
    assert len(told) == 1
    assert "a runner or a model is needed" in told.pop()
    path = written(tmp_path / "p.parquet", ids + 1, session.test_labels)
    for meter in (runner, session.meter):
        with pytest.raises(InvalidInput, match="without a row: '0'"):
            meter.submit(path, validation, model="m")
    assert runner.submit(*shuffled(session, tmp_path), model="m").band == 1


def test_a_meter_for_onnx_files_takes_no_programs(tmp_path: Path) -> None:
    spec = small_spec(models="onnx", inputs="hidden")
    session = make_session(tmp_path, spec, validation_size=VISIBLE)
    for other in (program(), Function.of(by_x, "mine")):
        with pytest.raises(InvalidInput, match=r'an ONNX file: .* with models = "onnx"'):
            run(session, other)
    assert run(session, threshold(tmp_path / "model.onnx")).step == 1
    with pytest.raises(InvalidInput, match="models: 'pickle' given, true, false or \"onnx\""):
        small_spec(models="pickle")
