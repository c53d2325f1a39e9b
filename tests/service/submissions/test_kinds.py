"""What can be submitted: predictions, commands, functions and ONNX files."""

from __future__ import annotations

from pathlib import Path
from unittest import mock

import pytest
from tests.service.helpers import Session, make_session, small_spec
from tests.service.submissions.models import by_x, fails, program, run, threshold

from easeml_meter.errors import InvalidInput
from easeml_meter.scoring.function import FunctionModel
from easeml_meter.scoring.predictor import SandboxUnavailable
from easeml_meter.service.submissions.kinds import Function


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
