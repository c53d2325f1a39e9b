"""`meter why` explains a plan."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.running import run

from easeml_meter.demo import tutorial


def test_it_says_what_adaptivity_costs_and_what_halves_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, out, _ = run(capsys, "why", "--steps", "10", "--tolerance", "0.01")
    assert code == 0
    words = " ".join(out.split())
    assert "48,986 labels for 10 answers. If nobody acted on an answer, 27,169 would do" in words
    assert "ceiling 0.1 17,943 37%" in words


def test_the_settings_of_this_folder_are_the_default(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tutorial.write(tmp_path / "tutorial")
    monkeypatch.chdir(tmp_path / "tutorial")
    code, out, _ = run(capsys, "why", "--json")
    assert code == 0
    assert json.loads(out)["labels"] == 270
    assert any(knob["labels"] <= 135 for knob in json.loads(out)["knobs"])


def test_of_one_answer_no_label_is_due_to_adaptivity(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "why", "--steps", "1", "--tolerance", "0.01")
    assert code == 0
    words = " ".join(out.split())
    assert "labels for 1 answer. That is the price of tolerance, delta and steps: " in words
    assert "The other 0" not in words


def test_three_answers_are_not_halved_to_one(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "why", "--steps", "3", "--tolerance", "0.05", "--json")
    knobs = {knob["change"]: knob["costs"] for knob in json.loads(out)["knobs"]}
    assert knobs["steps 1"] == "fewer answers from a test set"
