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
