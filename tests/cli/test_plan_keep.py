"""What a gate finds, as `meter plan` says it."""

from __future__ import annotations

import pytest
from tests.cli.running import plan_json, run


def test_labels_say_what_a_gate_finds_too(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "plan", "--labels", "300")
    assert "\n  20         6.4 points  8.7               846 cases\n" in out
    assert "\n  one, ever  3.7 points  -                 887 cases\n" in out
    found = plan_json(capsys, "--labels", "300")["keep"]
    assert [(row["answers"], row["first"]) for row in found] == [
        (1, 0.037),
        (10, 0.059),
        (20, 0.064),
        (100, 0.077),
        (None, 0.059),
    ]
    for others in (["--loss", "brier"], ["--delta", "0.3"]):
        assert "keep" not in plan_json(capsys, "--labels", "300", *others)
    assert "keep" not in plan_json(capsys, "--labels", "100001")


def test_of_few_labels_the_gate_stands_alone(capsys: pytest.CaptureFixture[str]) -> None:
    """There was an error instead, where a gate still finds large gains."""
    code, out, err = run(capsys, "plan", "29")
    assert (code, err) == (0, "")
    assert out.startswith("Keep or discard (meter gate)")
    assert "wins, for example, 7 disputed cases and loses none." in out
    assert "validation error" not in out
    assert run(capsys, "plan", "7")[0] == 0
    code, out, err = run(capsys, "plan", "6")
    assert (code, out) == (2, "")
    assert "6 given, too few to show anything in 10 answers: 7 at least, 60 for a gain of 20" in err
    _, out, _ = run(capsys, "plan", "--rows", "60")
    assert out.startswith("Of 60 labelled rows, hide 24")
    assert "Keep or discard" in out


def test_a_gate_is_planned_by_its_gain(capsys: pytest.CaptureFixture[str]) -> None:
    found = plan_json(capsys, "--ask", "keep", "--gain", "5%")
    assert [(row["answers"], row["first"], row["second"]) for row in found["cases"]] == [
        (1, 188, None),
        (10, 376, 544),
        (20, 427, 661),
        (100, 556, 912),
        (None, 381, 569),
    ]
    _, out, _ = run(capsys, "plan", "50", "--ask", "keep", "--steps", "20", "--gain", "5%")
    assert "  20         25.2 points  34.6" in out
    assert "  20         427 cases   661" in out
    assert "loses none" not in out
    assert "90 % sure of all keeps together" in out
    assert out.endswith("Next: meter gate OLD NEW --looks 20\n")
