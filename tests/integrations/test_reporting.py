"""`meter submit --report`: ready before anything is charged; never in the way of an answer."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.cli.workbench import Workbench, animals
from tests.core.test_gate import told

from easeml_meter.core.views import Read
from easeml_meter.errors import MeterError
from easeml_meter.integrations import registry, reporting
from easeml_meter.integrations.registry import Group
from easeml_meter.meter import Meter


@pytest.fixture
def bench(tmp_path: Path) -> Workbench:
    bench = Workbench(tmp_path)
    labels = animals(bench.init())
    bench.deliver(labels)
    bench.validate(animals(20, seed=1))
    return bench


@pytest.fixture
def files(bench: Workbench) -> list[str]:
    labels = animals(bench.json("status")["labels_needed"])
    return bench.predictions(labels, animals(20, seed=1))


def installed(monkeypatch: pytest.MonkeyPatch, name: str, run: Any) -> None:
    """Add a reporter of a stranger's."""
    module = ModuleType("a_stranger")
    module.run = run  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "easeml_meter.integrations.a_stranger", module)
    monkeypatch.setitem(registry.BUILT_IN[Group.REPORTERS], name, "a_stranger:run")


def test_an_answer_is_reported_to_each(
    bench: Workbench, files: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    reported = []
    installed(monkeypatch, "mine", lambda where: lambda *told: reported.append((where, *told)))
    answer = bench.json("submit", *files, "--report", "mine=a,mine", "--report", "markdown=m.md")
    assert [where for where, _, _ in reported] == ["a", ""]
    _, signal, view = reported[0]
    assert signal.to_dict() == view.signals[-1].to_dict()
    assert json.loads(reporting.json_of(signal)) == answer
    assert "| model | `model-on-test` |" in (bench.folder / "m.md").read_text(encoding="utf-8")


def test_a_tracker_that_is_down_takes_no_answer_away(
    bench: Workbench, files: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def down(_: str) -> reporting.Report:
        def report(*_: object) -> None:
            raise ConnectionError("no route\nto host")

        return report

    installed(monkeypatch, "down", down)
    shown = bench.run("submit", *files, "-C", "meter", "--report", "down", "--fail-above", 1)
    assert shown.code == 0
    assert "Step 1: band 1" in shown.out
    assert shown.err == "meter: warning: not reported to down: ConnectionError: no route to host\n"


def test_a_server_that_goes_away_after_the_answer_leaves_the_exit_code(
    bench: Workbench, files: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was exit code 1, before the gate had judged the answer."""

    def away(*_: object, **__: object) -> None:
        raise MeterError("the server does not answer")

    report = ("--report", "markdown=m.md", "--fail-above", 1)
    monkeypatch.setattr(Meter, "status", away)
    shown = bench.run("submit", *files, "-C", "meter", *report)
    assert shown.code == 0
    assert "passed: model" in shown.out
    assert shown.err == "meter: warning: not reported: the server does not answer\n"


def test_a_server_that_goes_away_after_the_last_answer_leaves_the_exit_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether the set is spent is asked after the answer: it was exit code 1, without a verdict."""

    def away(_: Meter) -> None:
        raise MeterError("the server does not answer")

    bench = Workbench(tmp_path)
    test, validation = animals(bench.init(steps=1)), animals(40)
    bench.deliver(test)
    bench.validate(validation)
    files = bench.predictions(test, validation)
    monkeypatch.setattr(Meter, "generations", property(away))
    shown = bench.run("submit", *files, "-C", "meter", "--fail-above", 1)
    assert (shown.code, shown.err) == (0, "")
    assert "passed: model" in shown.out


def test_what_a_tracker_prints_does_not_follow_the_json(
    bench: Workbench, files: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    installed(monkeypatch, "loud", lambda _: lambda *_: print("View run at https://..."))
    shown = bench.run("submit", *files, "-C", "meter", "--report", "loud", "--json")
    assert json.loads(shown.out)["band"] == 1
    assert shown.err == "View run at https://...\n"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("mlflw", "did you mean 'mlflow'?"),
        ("mlflow", "mlflow: it is not installed: pip install mlflow-skinny"),
        ("wandb", "wandb: it is not installed: pip install wandb"),
        ("markdown", "give the file"),
        ("github", "GITHUB_STEP_SUMMARY is not set"),
    ],
)
def test_what_is_missing_costs_nothing(
    bench: Workbench,
    files: list[str],
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    said: str,
) -> None:
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    for package in ("mlflow", "wandb"):
        monkeypatch.setitem(sys.modules, package, None)
    assert said in bench.refused(2, "submit", *files, "--report", name)


def test_a_tracker_draws_what_was_told_and_nothing_else() -> None:
    band = reporting.metrics_of(told(2, validation_loss=0.1, read=Read(true_loss_at_most=0.4)))
    assert band == {
        "meter/band": 2,
        "meter/validation_loss": 0.1,
        "meter/true_loss_at_most": 0.4,
        "meter/steps_left": 2,
        "meter/battery": 0.5,
    }
    assert set(reporting.metrics_of(told(0))) == {"meter/steps_left", "meter/battery"}
    assert reporting.tags_of(told(2))["meter.answer"] == "2"
