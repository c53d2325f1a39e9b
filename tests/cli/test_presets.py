"""`meter plan --preset` and `--toml`: from a story to a meter."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from tests.cli.running import Captured, plan_json, run

from easeml_meter.report.presets import PRESETS
from easeml_meter.spec import MeterSpec


@pytest.mark.parametrize("name", PRESETS)
def test_every_story_is_a_plan_and_a_meter(capsys: Captured, tmp_path: Path, name: str) -> None:
    labels = plan_json(capsys, "--preset", name)["labels"]
    assert 0 < labels < 10_000
    code, out, err = run(capsys, "plan", "--preset", name, "--toml")
    assert (code, err) == (0, "")
    (tmp_path / "meter.toml").write_text(out)
    spec = MeterSpec.read(tmp_path / "meter.toml")
    assert spec.to_mapping() == tomllib.loads(out)
    assert plan_json(capsys, "--spec", str(tmp_path / "meter.toml"))["labels"] == labels


def test_what_is_typed_counts_more(capsys: Captured) -> None:
    plain = plan_json(
        capsys, "--steps", "5", "--tolerance", "0.05", "--delta", "0.05", "--edges", "0.1"
    )
    assert plan_json(capsys, "--preset", "gate", "--steps", "5")["labels"] == plain["labels"]


def test_the_file_has_the_tolerance_that_is_reached(capsys: Captured) -> None:
    asked = ("--preset", "gate", "--labels", "500")
    _, out, _ = run(capsys, "plan", *asked, "--toml")
    reached = [band["tolerance"] for band in tomllib.loads(out)["bands"]]
    assert all(each > 0.05 for each in reached)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--preset", "agents"), "agent"),
        (("--preset", "agent", "--spec", "m.toml"), "without --spec"),
        (("--preset", "agent", "--toml", "--json"), "one of them"),
    ],
)
def test_what_makes_no_sense_is_refused(
    capsys: Captured, options: tuple[str, ...], said: str
) -> None:
    code, out, err = run(capsys, "plan", *options)
    assert (code, out) == (2, "")
    assert said in err
