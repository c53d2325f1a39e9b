"""What is asked of W&B; `make integrations` asks the real one (tests/tools/wandb.py)."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any
from unittest.mock import MagicMock

import pytest
from tests.core.test_gate import session, told

from easeml_meter.integrations.wandb import reporter


@pytest.fixture
def wandb(monkeypatch: pytest.MonkeyPatch) -> Any:
    module: Any = ModuleType("wandb")
    module.run = None
    module.init, module.Html, module.Settings = MagicMock(), MagicMock(), MagicMock()
    monkeypatch.setitem(sys.modules, "wandb", module)
    monkeypatch.delenv("WANDB_RUN_ID", raising=False)
    return module


def test_a_run_of_its_own_is_finished_and_prints_nothing(wandb: Any) -> None:
    reporter("")(told(2, step=4), session(1, told(2)))
    wandb.Settings.assert_called_once_with(console="off", silent=True)
    assert wandb.init.call_args.kwargs["name"] == "m"
    run = wandb.init.return_value
    run.define_metric.assert_called_with("meter/*", step_metric="meter/step")
    logged = run.log.call_args.args[0]
    assert (logged["meter/step"], logged["meter/band"]) == (4, 2)
    run.finish.assert_called_once_with()


def test_a_run_is_resumed_by_its_id(wandb: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_RUN_ID", "r1")
    for where, expected in (("", "r1"), ("r2", "r2")):
        reporter(where)(told(1), session(1, told(1)))
        given = wandb.init.call_args.kwargs
        assert (given["id"], given["resume"], given["name"]) == (expected, "allow", None)


def test_the_run_of_a_training_goes_on(wandb: Any) -> None:
    wandb.run = MagicMock()
    reporter("")(told(1), session(1, told(1)))
    wandb.init.assert_not_called()
    wandb.run.finish.assert_not_called()
    wandb.run.summary.update.assert_called_once()
