"""Optimizers of other people in a small form; tests/tools has the real ones."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from easeml_meter import Gate
from easeml_meter.integrations.loops import Keeper, dspy_score, name_of, skillopt_gate

SCORED: list[Any] = []


def score(right: Any) -> Mapping[str, float]:
    """Run a candidate, which says how many of 100 cases it gets right."""
    SCORED.append(right)
    return {str(at): int(at < int(right)) for at in range(100)}


@pytest.fixture
def keeper(tmp_path: Path) -> Keeper:
    SCORED.clear()
    return Keeper(Gate(tmp_path / "gate.jsonl", looks=3), score, "50")


def test_what_the_gate_keeps_is_the_best(keeper: Keeper) -> None:
    assert not keeper.keep("50")  # the start itself
    assert not keeper.keep("52")
    assert not keeper.keep("52")  # not asked again
    assert keeper.keep("70")
    assert keeper.keep("70")  # it is the best one
    assert (keeper.best, SCORED) == ("70", ["50", "52", "70"])
    assert not keeper.keep("71")
    assert not keeper.spent
    assert not keeper.keep("100")
    assert keeper.spent
    status = keeper.gate.status()
    assert (status["kept"], status["answers"]) == ([name_of("70")], 3)


def test_a_loop_that_begins_again_goes_on_from_the_ledger(keeper: Keeper, tmp_path: Path) -> None:
    assert keeper.keep("70")
    again = Keeper(Gate(tmp_path / "gate.jsonl"), score, "70")
    assert not again.keep("71")
    # One that begins with another model than the one to beat keeps nothing.
    behind = Keeper(Gate(tmp_path / "gate.jsonl"), score, "40")
    assert not behind.keep("90")
    assert behind.best == "40"


def test_gepa_accepts_what_gains_on_its_minibatch_and_at_the_gate(keeper: Keeper) -> None:
    def proposal(before: list[float], after: list[float], right: str) -> Any:
        return SimpleNamespace(
            subsample_scores_before=before, subsample_scores_after=after, candidate=right
        )

    assert not keeper.should_accept(proposal([1, 0], [0, 1], "90"), None)
    assert SCORED == ["50"]  # what gains nothing on the minibatch is no look
    assert not keeper.should_accept(proposal([0, 0], [1, 1], "51"), None)
    assert keeper.should_accept(proposal([0, 0], [1, 1], "90"), None)
    assert name_of({"a": "1", "b": "2"}) == name_of({"b": "2", "a": "1"})


@dataclass
class Result:
    action: str
    current_skill: str
    current_score: float
    best_skill: str
    best_score: float
    best_step: int


def test_skillopt_keeps_what_both_keep(keeper: Keeper, monkeypatch: pytest.MonkeyPatch) -> None:
    def evaluate_gate(candidate_skill: str, cand_hard: float, **given: Any) -> Result:
        if cand_hard <= given["current_score"]:
            return Result("reject", **{k: v for k, v in given.items() if k != "global_step"})
        step = given["global_step"]
        return Result(
            "accept_new_best", candidate_skill, cand_hard, candidate_skill, cand_hard, step
        )

    package, theirs = ModuleType("skillopt.evaluation"), ModuleType("skillopt.evaluation.gate")
    theirs.__dict__.update(GateResult=Result, evaluate_gate=evaluate_gate)
    for name, module in (("skillopt", ModuleType("skillopt")), (package.__name__, package)):
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setitem(sys.modules, theirs.__name__, theirs)
    gate = skillopt_gate(keeper)
    before = {"current_skill": "50", "current_score": 0.5, "best_skill": "50", "best_score": 0.5}
    step = {"best_step": 0, "global_step": 4}
    worse = gate(candidate_skill="90", cand_hard=0.4, **before, **step)
    assert (worse.action, SCORED) == ("reject", ["50"])
    lucky = gate(candidate_skill="51", cand_hard=0.6, **before, **step)
    assert lucky == Result("reject", "50", 0.5, "50", 0.5, 0)
    better = gate(candidate_skill="90", cand_hard=0.9, **before, **step)
    assert better == Result("accept_new_best", "90", 0.9, "90", 0.9, 4)


def test_programs_of_dspy_are_scored_case_by_case(monkeypatch: pytest.MonkeyPatch) -> None:
    class Evaluate:
        def __init__(self, devset: list[int], metric: Any, **options: Any) -> None:
            self.cases, self.metric = devset, metric

        def __call__(self, program: Any) -> Any:
            found = [(case, program(case), self.metric(case, program(case))) for case in self.cases]
            return SimpleNamespace(results=found)

    dspy = ModuleType("dspy")
    dspy.__dict__["Evaluate"] = Evaluate
    monkeypatch.setitem(sys.modules, "dspy", dspy)
    scored = dspy_score((1, 2, 3), lambda case, told: case == told)
    assert scored(lambda case: min(case, 2)) == {"1": 1.0, "2": 1.0, "3": 0.0}
    state = SimpleNamespace(dump_state=lambda: {"demos": []})
    assert name_of(state) == name_of({"demos": []})
