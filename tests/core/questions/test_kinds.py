"""Kinds of questions are found by looking, so one more is one module."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.service.helpers import condition_spec, small_spec

from easeml_meter.core import questions
from easeml_meter.core.questions import asking, kinds
from easeml_meter.core.questions.gap import GapQuestion
from easeml_meter.core.questions.ondemand import Reused
from easeml_meter.core.questions.passing import PassFail
from easeml_meter.core.questions.planning import plan_of
from easeml_meter.core.questions.reading import DifferenceReading
from easeml_meter.core.questions.rolling import Rolling
from easeml_meter.errors import InvalidInput
from easeml_meter.spec import MeterSpec

COIN = '''
"""Whether a coin shows heads: a question that nobody else knows of."""

from dataclasses import dataclass

from easeml_meter.core.questions.question import Option, Question
from easeml_meter.promise.budgets import Steps
from easeml_meter.promise.gap import Gap
from easeml_meter.promise.meter import Meter


@dataclass(frozen=True)
class Coin(Question):
    bias: float

    options = (
        Option("coin", float, "How far a coin may be from fair."),
        Option("window", int, "How many coins there are."),
        Option("tosses", int, "Tosses that you have."),
    )
    size_option = "tosses"

    statistic = "whether the coin is fair"
    answers = ("heads", "tails")
    promised = "each coin is as fair as it was said to be."
    assumptions = ("coins are tossed",)

    @classmethod
    def asked(cls, given):
        given.pop("window", None)
        return cls(given.pop("coin"))

    @classmethod
    def of_meter(cls, spec):
        return cls(0.1) if spec.steps == 77 else None

    def composed(self, steps, delta):
        return Meter(question=Gap(tolerance=self.bias), budget=Steps(steps=steps), delta=delta)

'''


@pytest.mark.parametrize(
    ("spec", "kind"),
    [
        (small_spec(), GapQuestion),
        (small_spec(window=4), Rolling),
        (condition_spec(), PassFail),
        (condition_spec(question="n - o > 0 +/- 0.1", disagreement=0.2), PassFail),
        (
            condition_spec(question="n - o > 0 +/- 0.1", disagreement=0.2, on_demand=True),
            Reused,
        ),
    ],
)
def test_every_meter_asks_one_kind(spec: MeterSpec, kind: type) -> None:
    assert type(kinds.question_of(spec)) is kind
    assert plan_of(spec).question == kinds.question_of(spec)


def test_a_reading_of_a_difference_is_a_kind_of_its_own() -> None:
    assert DifferenceReading in kinds.kinds()
    assert len(set(kinds.kinds())) == len(kinds.kinds())


@pytest.fixture
def coin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Add a module to the package, as somebody with a question of their own would."""
    (tmp_path / "coin.py").write_text(COIN)
    monkeypatch.setattr(questions, "__path__", [*questions.__path__, str(tmp_path)])
    remembered = (kinds.kinds, kinds.question_of, asking._by_option, plan_of)
    for each in remembered:
        each.cache_clear()
    yield
    monkeypatch.undo()
    # The commands were perhaps imported with the coin's option.
    for name in ("core.questions.coin", "cli.plan", "cli.questions"):
        sys.modules.pop(f"easeml_meter.{name}", None)
    for each in remembered:
        each.cache_clear()


@pytest.mark.usefixtures("coin")
def test_a_module_is_all_that_the_planner_needs() -> None:
    plan = asking.plan_question(coin=0.1, steps=10, delta=0.01)
    assert (plan.size, plan.unit) == (498, "labels")
    assert "each coin is as fair" in plan.promise
    assert "coins are tossed" in plan.assumptions
    assert asking.plan_question(coin=0.1, tosses=498, delta=0.01).budget.steps == 10
    with pytest.raises(InvalidInput, match="submissions: 3 given, only with rolling"):
        asking.plan_question(coin=0.1, steps=10, submissions=3)
    assert "coin" in [each.name for each in asking.options()]


@pytest.mark.usefixtures("coin")
def test_two_kinds_may_share_an_option() -> None:
    assert asking.plan_question(coin=0.1, steps=10, delta=0.01, window=3).size == 498
    assert asking.plan_question(rolling=True, window=3, tolerance=0.1, steps=10).size > 1
    with pytest.raises(InvalidInput, match="window: 3 given, only with coin or rolling"):
        asking.plan_question(metric="f1", tolerance=0.1, steps=10, window=3)
    names = [each.name for each in asking.options()]
    assert len(set(names)) == len(names)


@pytest.mark.usefixtures("coin")
def test_the_command_line_has_its_option(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("easeml_meter.cli.plan", "easeml_meter.cli.questions"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    from easeml_meter.cli.plan import plan

    done = CliRunner().invoke(plan, ["--coin", "0.1", "--steps", "10", "--delta", "1%", "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.output)["question"] == "whether the coin is fair"
    assert "How far a coin may be from fair." in CliRunner().invoke(plan, ["--help"]).output
    shown = CliRunner().invoke(plan, ["--coin", "0.1", "--steps", "10", "--delta", "1%"]).output
    assert "381" in shown
    assert "coins are tossed" in shown
    given = CliRunner().invoke(plan, ["--coin", "0.1", "--tosses", "381", "--delta", "1%"]).output
    assert "steps supported" in given


@pytest.mark.usefixtures("coin")
def test_two_kinds_never_ask_of_one_meter() -> None:
    """A meter that two kinds lay claim to is a fault of theirs, and is not answered."""
    spec = condition_spec(steps=77)
    with pytest.raises(AssertionError, match="2 kinds of question"):
        kinds.question_of(spec)


@pytest.mark.usefixtures("coin")
def test_a_meter_with_bands_asks_the_gap_if_no_other_kind_says_so() -> None:
    """The gap need not know which settings other kinds have."""
    assert type(kinds.question_of(small_spec(steps=77))).__name__ == "Coin"
    assert type(kinds.question_of(small_spec(steps=7))) is GapQuestion
