"""Kinds of submissions: how each is checked and run, sent to a server, and read back there."""

from __future__ import annotations

from pathlib import Path
from unittest import mock

import pytest
from tests.service.helpers import Session, make_session, small_spec
from tests.service.submissions.models import by_x, fails, program, run, threshold

from easeml_meter.errors import InvalidInput
from easeml_meter.scoring.bundle import Bundle, BundledFile
from easeml_meter.scoring.function import FunctionModel
from easeml_meter.scoring.predictor import SandboxUnavailable
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
    "command": Command(Bundle("python predict.py", (BundledFile("predict.py", b"1"),))),
}


pytestmark = pytest.mark.slow


def test_every_kind_that_a_server_takes_is_tried_here() -> None:
    assert {kind.kind for kind in KINDS} == set(SENT)
    assert {kind.kind for kind in KINDS if kind.queued} == set(MODELS)


@pytest.mark.parametrize("kind", SENT)
def test_what_is_packed_is_unpacked(kind: str) -> None:
    found = unpack(SENT[kind].packed())
    assert found == SENT[kind]
    assert found.kind == kind


@pytest.mark.parametrize("kind", MODELS)
def test_a_model_that_waited_is_the_one_that_was_sent(kind: str) -> None:
    found = unpack(SENT[kind].packed())
    assert not isinstance(found, PredictionFiles)
    assert MODELS[kind].read(found.content()) == found


def test_files_are_sent_under_the_names_that_a_server_knows(tmp_path: Path) -> None:
    test, validation = tmp_path / "mine.csv", tmp_path / "yours.npy"
    for path in (test, validation):
        path.write_bytes(b"0")
    found = unpack(PredictionFiles(test, validation).packed())
    assert found == PredictionFiles(Held("test.csv", b"0"), Held("validation.npy", b"0"))


def test_a_file_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"model\.onnx"):
        OnnxFile(tmp_path / "model.onnx").packed()


def test_a_function_stays_where_it_is() -> None:
    function = Function.of(lambda batch: batch, "mine")
    with pytest.raises(InvalidInput, match="a function"):
        function.packed()


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
    with pytest.raises(InvalidInput, match="body"):
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


def test_a_trusted_function(session: Session) -> None:
    first = run(session, Function(FunctionModel(by_x, "by x, 1")))
    assert run(session, program()).name == first.name  # the same model, sandboxed
    assert run(session, Function(FunctionModel(by_x, "by x, 1"))).repeated
    assert run(session, Function(FunctionModel(fails, "fails"))).name == "no-reading"


def test_an_onnx_model(session: Session, tmp_path: Path) -> None:
    model = threshold(tmp_path / "model.onnx")
    told = run(session, model, seconds=10.0)
    assert told.name == run(session, program()).name
    assert run(session, model).repeated
