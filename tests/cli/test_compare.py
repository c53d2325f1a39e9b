"""`meter compare`: forms and meters side by side, and why one of them needs its labels."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from tests.cli.running import run

from easeml_meter.demo.story import write_tutorial


def test_it_says_what_adaptivity_costs_and_what_halves_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, out, _ = run(
        capsys, "compare", "--why", "--steps", "10", "--tolerance", "0.01", "--delta", "1%"
    )
    assert code == 0
    words = " ".join(out.split())
    assert "48,986 labels for 10 answers. If nobody acted on an answer, 27,169 would do" in words
    assert "ceiling 0.1 17,943 37%" in words


def test_the_settings_of_this_folder_are_the_default(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_tutorial(tmp_path / "tutorial")
    monkeypatch.chdir(tmp_path / "tutorial")
    code, out, _ = run(capsys, "compare", "--why", "--json")
    assert code == 0
    assert json.loads(out)["labels"] == 270
    assert any(knob["labels"] <= 135 for knob in json.loads(out)["knobs"])


def test_of_one_answer_no_label_is_due_to_adaptivity(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "compare", "--why", "--steps", "1", "--tolerance", "0.01")
    assert code == 0
    words = " ".join(out.split())
    assert "labels for 1 answer. That is the price of tolerance, delta and steps: " in words
    assert "The other 0" not in words


def test_three_answers_are_not_halved_to_one(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "compare", "--why", "--steps", "3", "--tolerance", "0.05", "--json")
    knobs = {knob["change"]: knob["costs"] for knob in json.loads(out)["knobs"]}
    assert knobs["steps 1"] == "fewer answers from a test set"


@pytest.mark.parametrize("ending", ["svg", "png", "html"])
def test_charts(capsys: pytest.CaptureFixture[str], tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"chart.{ending}"
    arguments = ["--steps", "5", "--tolerance", "0.05", "--chart", str(path), "--json"]
    code, out, _ = run(capsys, "compare", *arguments)
    assert code == 0
    names = [row["meter"] for row in json.loads(out)["meters"]]
    assert "regular, uniform" in names
    content = path.read_bytes()
    starts = {"svg": b"<svg", "png": b"\x89PNG", "html": b"<!DOCTYPE html>"}
    assert content.lstrip().startswith(starts[ending])
    if ending == "html":  # self-contained: no script or style from another host
        assert b'src="http' not in content
        assert b'href="http' not in content


def test_money(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = "--steps 10 --tolerance 0.01 --delta 0.01 --price 0.05 --json"
    _, out, _ = run(capsys, "compare", *arguments.split())
    found = json.loads(out)
    row = next(row for row in found["meters"] if row["meter"] == "regular, uniform")
    assert row["consistent"]["cost"] == pytest.approx(48_986 * 0.05)
    assert {each["form"]: each["cost"] for each in found["forms"]} == pytest.approx(
        {each["form"]: each["labels"] * 0.05 for each in found["forms"]}
    )


def test_compare_recommends_a_form_and_says_what_each_asks_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked = ("--tolerance", "0.01", "--delta", "0.01", "--signals", "5")
    _, out, _ = run(capsys, "compare", "--steps", "10", *asked)
    assert "Recommended: drawn 0.05, 36,247 labels" in out
    plain = {"published": 108_080, "all answers": 86_542, "consistent": 48_986}
    changed = {"drawn 0.05": 36_247, "drawn 0.2": 29_332, "incremental": 46_726}
    below = {
        "ceiling 0.1": 17_943,
        "incremental, ceiling 0.1": 23_716,
    }
    for form, labels in (plain | changed | below | {"no adaptivity": 27_169}).items():
        assert re.search(rf"\n{form} +{labels:,} +\+ ", out), form
    assert "without looking at the test" in " ".join(out.split())
    _, out, _ = run(capsys, "compare", "--steps", "100", *asked[:-2], "--json")
    assert json.loads(out)["recommended"] == "consistent"


def test_labels_are_compared_by_what_they_promise(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "compare", "--labels", "1000", "--json")
    assert code == 0
    found = json.loads(out)
    points = {form["form"]: form["promised_points"] for form in found["forms"]}
    assert (found["recommended"], points["consistent"]) == ("consistent", 9.8)
    assert min(value for name, value in points.items() if name.startswith("drawn")) == 11.0
    _, out, _ = run(capsys, "compare", "--labels", "1000", "--steps", "20")
    assert "Recommended: consistent" in out


ONE = ("--steps", "1", "--tolerance", "0.1")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((*ONE, "--price", "-1"), "price"),
        ((*ONE, "--chart", "a.pdf"), "chart"),
        ((*ONE, "--chart", "/no/a.svg"), "chart"),
        ((*ONE, "--signals", "0"), "signals"),
        ((*ONE, "--delta", "2"), "delta"),
        (("--steps", "1"), "give --labels or --tolerance"),
        (("--labels", "500", "--tolerance", "0.1"), "without"),
        ((*ONE, "--memory", "2"), "only with --why"),
        ((*ONE, "--spec", "meter.toml"), "only with --why"),
        (("--why", *ONE, "--price", "1"), "price: 1.0 given, not with --why"),
        (("--why", *ONE, "--labels", "9"), "not with --why"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], said: str
) -> None:
    code, out, err = run(capsys, "compare", *arguments)
    assert (code, out) == (2, "")
    assert said in err
    assert err.count("\n") == 1
