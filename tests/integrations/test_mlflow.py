"""What is asked of MLflow; `make integrations` asks the real one (tests/tools/mlflow.py)."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest
from tests.core.test_gate import session, told

from easeml_meter.errors import InvalidInput
from easeml_meter.integrations.mlflow import reporter


class MlflowException(Exception):
    """As MLflow has it."""


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the client of a tracker that has every run but one."""
    module: Any = ModuleType("mlflow")
    client = MagicMock()
    client.get_run.side_effect = lambda run: SimpleNamespace(info=SimpleNamespace(run_id=run))
    version = SimpleNamespace(
        name="spam", version=3, run_id="r3", model_id=None, source="models:/m-3"
    )
    client.get_model_version_by_alias.return_value = version
    module.MlflowClient = lambda: client
    module.active_run = lambda: None
    module.exceptions = SimpleNamespace(MlflowException=MlflowException)
    monkeypatch.setitem(sys.modules, "mlflow", module)
    return client


def test_a_run_gets_metrics_at_the_step_of_the_meter(
    client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_RUN_ID", "r1")
    signal = told(2, step=4)
    reporter("")(signal, session(1, signal))
    client.log_metric.assert_any_call("r1", "meter/band", 2.0, step=4)
    client.set_tag.assert_any_call("r1", "meter.promise", signal.promise)
    assert {call.args[2] for call in client.log_text.call_args_list} == {
        "meter/signal.json",
        "meter/report.html",
    }
    client.set_terminated.assert_not_called()


def test_an_answer_without_a_band_draws_none(client: Any) -> None:
    signal = told(0)
    reporter("r1")(signal, session(1, signal))
    assert "meter/band" not in {call.args[1] for call in client.log_metric.call_args_list}


def test_a_registered_model_is_tagged(client: Any) -> None:
    signal = told(1)
    reporter("models:/spam@candidate")(signal, session(1, signal))
    client.get_model_version_by_alias.assert_called_once_with("spam", "candidate")
    client.set_model_version_tag.assert_any_call("spam", "3", "meter.answer", "1")
    client.log_metric.assert_any_call("r3", "meter/band", 1.0, step=1, model_id="m-3")


def test_a_wrong_run_is_refused_before_anything_is_charged(client: Any) -> None:
    client.get_run.side_effect = MlflowException("Run with id=x\nnot found")
    with pytest.raises(InvalidInput, match=r"^mlflow: Run with id=x not found$"):
        reporter("x")
