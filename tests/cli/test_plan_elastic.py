"""`meter plan --elastic`: what the promise costs when the session may go on."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.cli.running import plan_json, run

from easeml_meter.core.questions.assumptions import gap_assumptions
from easeml_meter.spec import MeterSpec

ROOT = Path(__file__).parents[2]
HEADLINE = ["--steps", "10", "--signals", "5", "--tolerance", "0.01", "--delta", "0.01"]


def test_the_json_has_both_prices(capsys: pytest.CaptureFixture[str]) -> None:
    answer = plan_json(capsys, *HEADLINE, "--elastic")
    assert answer["elastic"] == {"labels": 52_301, "plain_labels": 48_986}
    assert answer["labels"] == 52_301
    assert 0.00499 < answer["failure_probability"] <= 0.005  # half of delta backs the promise
    assert "10 are promised" in answer["promise"]


def test_a_plain_plan_is_as_it_was(capsys: pytest.CaptureFixture[str]) -> None:
    answer = plan_json(capsys, *HEADLINE)
    assert (answer["labels"], answer["elastic"]) == (48_986, None)
    assert "in all 10 steps together" in answer["promise"]
    _, out, _ = run(capsys, "plan", *HEADLINE)
    assert "elastic" not in out


def test_half_of_delta_costs_ln_2_nats(capsys: pytest.CaptureFixture[str]) -> None:
    """By Hoeffding's bound, ln 2 / (2 eps^2) labels: 3,466 at a tolerance of 0.01."""
    answer = plan_json(capsys, *HEADLINE, "--elastic", "--bound", "hoeffding")
    assert answer["labels"] - answer["elastic"]["plain_labels"] == pytest.approx(3466, abs=1)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--protocol", "incremental"],
        ["--protocol", "incremental", "--resets", "1"],
        ["--masked-reverts", "3", "--mask-above", "1"],
        ["--tenants", "5,5"],
        ["--tenants", "5,5", "--handover"],
        ["--loss", "brier"],
    ],
)
def test_an_elastic_meter_is_the_plain_one_at_half_of_delta(
    capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    setting = ["--steps", "10", "--tolerance", "0.05", *arguments]
    answer = plan_json(capsys, *setting, "--delta", "0.02", "--elastic")
    plain = plan_json(capsys, *setting, "--delta", "0.02")
    half = plan_json(capsys, *setting, "--delta", "0.01")
    assert answer["elastic"] == {"labels": half["labels"], "plain_labels": plain["labels"]}


def test_an_elastic_meter_keeps_its_edges_near_the_ceiling(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Its bands are coded, so none are left out there, and "above" is one answer more."""
    setting = ["--steps", "10", "--tolerance", "0.05", "--ceiling", "0.1"]
    answer = plan_json(capsys, *setting, "--delta", "0.02", "--elastic")
    half = plan_json(capsys, *setting, "--delta", "0.01")
    assert answer["labels"] > half["labels"]
    assert answer["log10_models"] > half["log10_models"]


def test_labels_at_hand_promise_steps_or_a_tolerance(capsys: pytest.CaptureFixture[str]) -> None:
    for labels, steps in (("52301", 10), ("52300", 9)):
        answer = plan_json(capsys, "--labels", labels, "--tolerance", "0.01", "--elastic")
        assert (answer["labels"], answer["steps"]) == (int(labels), steps)
    assert 42_372 < answer["elastic"]["plain_labels"] < answer["elastic"]["labels"] < 48_986
    answer = plan_json(capsys, "--labels", "52301", "--steps", "10", "--elastic")
    assert answer["tolerances"] == pytest.approx([0.01] * 5, rel=1e-4)
    assert answer["elastic"]["labels"] <= 52_301
    assert answer["elastic"]["plain_labels"] == pytest.approx(48_986, rel=1e-4)


def test_the_table_shows_both_prices_and_what_it_rests_on(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, out, _ = run(capsys, "plan", *HEADLINE, "--elastic")
    words = " ".join(out.split())
    assert code == 0
    assert "labels needed 52,301" in words
    assert "elastic 52,301 labels, 48,986 for the plain meter" in words
    assert "0.00499985 in the promised steps" in words
    assert "fixed before a label is seen" in words
    assert "refusals depend on the answers only" in words
    assert "developer's own randomness is independent of the test set" in words


def test_the_assumption_is_listed_only_where_it_is_made() -> None:
    spec = MeterSpec.uniform(signals=5, tolerance=0.01, steps=10, delta=0.01)
    more = set(gap_assumptions(spec.replace(elastic=True))) - set(gap_assumptions(spec))
    assert len(more) == 1
    assert "about people" not in more.pop()  # nobody has to behave for it


def test_the_shares_come_from_the_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "meter.toml"
    spec = MeterSpec.uniform(signals=5, tolerance=0.01, steps=10, delta=0.02)
    spec.replace(elastic=True, mixture=(0.5, 0.5, 0.0)).write(path)
    assert plan_json(capsys, "--spec", str(path))["labels"] == 48_986
    spec.replace(mixture=(0.25, 0.5, 0.25)).write(path)
    assert plan_json(capsys, "--spec", str(path))["elastic"] is None
    assert plan_json(capsys, "--spec", str(path), "--elastic")["labels"] == 52_301


@pytest.mark.parametrize(
    "arguments",
    [
        ["--published"],
        ["--memory", "2"],
        ["--reverts", "1,2"],
        ["--protocol", "independent"],
        ["--protocol", "resampling"],
    ],
    ids=" ".join,
)
def test_what_cannot_be_elastic_is_refused(
    capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    code, out, err = run(capsys, "plan", *HEADLINE, *arguments, "--elastic")
    assert (code, out) == (2, "")
    assert err.startswith("meter: elastic: ")
    assert err.count("\n") == 1


def test_the_python_of_the_mathematics_page_runs() -> None:
    text = (ROOT / "docs" / "mathematics.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert blocks
    for block in blocks:
        exec(compile(block, "mathematics.md", "exec"), {})  # noqa: S102  the page's own code
