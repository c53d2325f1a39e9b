"""`meter plan` and `meter compare` as people and programs use them."""

from __future__ import annotations

import contextlib
import json
import re
import shlex
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from tests.cli.running import Captured, plan_json, run

from easeml_meter.core.questions.comparison import compare_forms
from easeml_meter.core.questions.labels import plan_alarm
from easeml_meter.core.questions.planning import reachable_tolerance, required_labels
from easeml_meter.meter import Meter
from easeml_meter.report.presets import PRESETS
from easeml_meter.spec import MeterSpec

SURE = ["--delta", "0.01"]
HEADLINE = ["--steps", "10", "--signals", "5", "--tolerance", "0.01", *SURE]


def test_the_json_has_what_programs_need(capsys: pytest.CaptureFixture[str]) -> None:
    answer = plan_json(capsys, *HEADLINE, "--protocol", "regular")
    assert answer["labels"] == 48_986
    assert answer["steps"] == 10
    assert answer["tolerances"] == [0.01] * 5
    assert answer["delta"] == 0.01
    assert 0.0099 < answer["failure_probability"] <= 0.01
    assert (answer["protocol"], answer["bound"]) == ("regular", "exact")
    assert answer["assumptions"]


@pytest.mark.parametrize(
    ("arguments", "labels"),
    [
        (["--protocol", "incremental"], 46_726),
        (["--tenants", "5,5", "--handover"], 48_986),
        (["--memory", "0"], 27_169),
        (["--memory", "9"], 48_986),
    ],
)
def test_options(capsys: pytest.CaptureFixture[str], arguments: list[str], labels: int) -> None:
    assert plan_json(capsys, *HEADLINE, *arguments)["labels"] == labels


@pytest.mark.parametrize(
    ("options", "labels"),
    [
        ({"published": True}, 108_080),
        ({"count": "all"}, 86_542),
        ({"protocol": "incremental", "count": "all"}, 52_197),
        ({"protocol": "incremental", "published": True}, 66_527),
        ({"protocol": "resampling", "published": True}, 380_050),
        ({"ceiling": 0.1, "count": "all"}, 34_904),
        ({"memory": 9, "count": "all"}, 86_542),
    ],
)
def test_what_is_no_setting_is_computed_still(options: dict[str, Any], labels: int) -> None:
    """As `meter compare`, the lab and the figures of the paper do."""
    spec = MeterSpec.uniform(signals=5, tolerance=0.01, steps=10, delta=0.01, **options)
    assert required_labels(spec).labels == labels


@pytest.mark.parametrize("option", [["--published"], ["--count", "all"]])
def test_what_is_no_setting_is_no_option(
    capsys: pytest.CaptureFixture[str], option: list[str]
) -> None:
    code, out, err = run(capsys, "plan", *HEADLINE, *option)
    assert (code, out) == (2, "")
    assert f"No such option '{option[0]}'" in err


def test_labels_without_steps_asks_for_steps(capsys: pytest.CaptureFixture[str]) -> None:
    assert plan_json(capsys, "--labels", "48986", "--tolerance", "0.01", *SURE)["steps"] == 10
    assert plan_json(capsys, "--labels", "48985", "--tolerance", "0.01", *SURE)["steps"] == 9


def test_labels_with_steps_asks_for_the_tolerance(capsys: pytest.CaptureFixture[str]) -> None:
    answer = plan_json(capsys, "--labels", "48986", "--steps", "10", *SURE)
    assert answer["tolerances"] == [0.01] * 7


@pytest.mark.parametrize(("labels", "reached"), [(500, False), (832, True), (831, False)])
def test_a_tolerance_asked_for_is_reached_or_not(
    capsys: pytest.CaptureFixture[str], labels: int, reached: bool
) -> None:
    asked = ["--labels", str(labels), "--steps", "20", "--tolerance", "0.1", *SURE]
    needed = plan_json(capsys, "--steps", "20", "--tolerance", "0.1", *SURE)["labels"]
    assert needed == 832
    answer = plan_json(capsys, *asked)
    assert answer["asked"] == {"tolerances": [0.1] * 3, "labels": needed, "reached": reached}
    assert (max(answer["tolerances"]) <= 0.1) == reached
    code, out, _ = run(capsys, "plan", *asked)
    said = "is reached" if reached else "is not reached"
    assert code == 0
    assert f"The tolerance you asked for, 0.1, {said} with {labels:,} labels: it takes 832." in out


def test_without_a_tolerance_none_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert "asked" not in plan_json(capsys, "--labels", "48986", "--steps", "10")
    assert "asked" not in plan_json(capsys, "--labels", "48986", "--tolerance", "0.01", *SURE)


def test_a_loss_that_does_not_exist_is_refused_as_init_does(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "f2.toml"
    path.write_text('question = {ask = "gap"}\nsample = {loss = "f2"}\n')
    refused = run(capsys, "init", "--spec", str(path), "-C", str(tmp_path / "meter"))
    assert refused == run(capsys, "plan", "--spec", str(path))
    code, out, typed = run(capsys, "plan", *HEADLINE, "--loss", "f2")
    assert (code, out, typed.replace("meter: ", f"meter: {path}: ", 1)) == (2, "", refused[2])
    assert "loss: 'f2' given, it weighs" in typed


def test_strata_are_not_topped_up_and_older_meters_of_both_are_read(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """It was planned, and ended in a request for rows of no stratum."""
    path = tmp_path / "both.toml"
    strata: dict[str, Any] = {"stratum": "r", "strata": ("a", "b"), "weights": (0.7, 0.3)}
    spec = MeterSpec.uniform(tolerance=0.1, steps=2, delta=0.1, top_up=2, **strata)
    spec.write(path)
    refused = "meter: top up: 2 given, not with strata: no proof covers it\n"
    folder = tmp_path / "meter"
    assert run(capsys, "init", "--spec", str(path), "-C", str(folder)) == (2, "", refused)
    assert run(capsys, "plan", "--spec", str(path)) == (2, "", refused)
    with mock.patch("easeml_meter.service.meters.check_new_strata"):
        Meter.create(folder, spec)
    assert Meter.open(folder).spec == spec
    assert run(capsys, "status", "-C", str(folder))[0] == 0


def test_a_spec_file_and_options_on_top(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "meter.toml"
    MeterSpec.uniform(signals=5, tolerance=0.01, steps=10, delta=0.01).write(path)
    assert plan_json(capsys, "--spec", str(path))["labels"] == 48_986
    assert plan_json(capsys, "--spec", str(path), "--steps", "8")["labels"] == 42_372
    assert plan_json(capsys, "--spec", str(path), "--labels", "48986")["steps"] == 10


def test_the_table_says_what_is_promised(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "plan", *HEADLINE, "--tenants", "5,5")
    assert code == 0
    assert "With probability at least 0.99" in out
    assert "no team's models depend on another team's answers" in " ".join(out.split())


BAD = {
    "delta 0": ["plan", "--steps", "1", "--tolerance", "0.1", "--delta", "0"],
    "delta 1": ["plan", "--steps", "1", "--tolerance", "0.1", "--delta", "1"],
    "delta nan": ["plan", "--steps", "1", "--tolerance", "0.1", "--delta", "nan"],
    "confidence nan": ["plan", "--steps", "1", "--tolerance", "0.1", "--confidence", "nan"],
    "both": ["plan", *HEADLINE, "--confidence", "0.9"],
    "nothing": ["plan"],
    "labels twice": ["plan", "500", "--labels", "500"],
    "few labels": ["plan", "6"],
    "few labels for bands": ["plan", "29", "--edges", "0.1"],
    "a gain without a gate": ["plan", "--gain", "5%"],
    "a gate of nothing": ["plan", "--ask", "keep"],
    "a gate with bands": ["plan", "300", "--ask", "keep", "--signals", "3"],
    "a gate of a file": ["plan", "300", "--ask", "keep", "--toml"],
    "a gate and rows": ["plan", "300", "--ask", "keep", "--validation", "30"],
    "few cases": ["plan", "7", "--ask", "keep", "--steps", "20"],
    "no cases": ["plan", "0", "--ask", "keep"],
    "an unsure gate": ["plan", "300", "--ask", "keep", "--confidence", "70"],
    "no gain": ["plan", "--ask", "keep", "--gain", "0"],
    "a gain of all": ["plan", "--ask", "keep", "--gain", "97%"],
    "a tiny gain": ["plan", "--ask", "keep", "--gain", "0.0001"],
    "rows and labels": ["plan", "--rows", "100", "--labels", "500"],
    "no tolerance": ["plan", "--steps", "1"],
    "steps 0": ["plan", "--steps", "0", "--tolerance", "0.1"],
    "negative steps": ["plan", "--steps", "-3", "--tolerance", "0.1"],
    "fractional steps": ["plan", "--steps", "2.5", "--tolerance", "0.1"],
    "tolerance nan": ["plan", "--steps", "1", "--tolerance", "nan"],
    "tolerance words": ["plan", "--steps", "1", "--tolerance", "small"],
    "tolerance 0": ["plan", "--steps", "1", "--tolerance", "0"],
    "absurd tolerance": ["plan", "--steps", "1", "--tolerance", "1e-9"],
    "decreasing": ["plan", "--steps", "1", "--tolerance", "0.2,0.1"],
    "count of tolerances": ["plan", "--steps", "1", "--signals", "3", "--tolerance", "0.1,0.2"],
    "signals 0": ["plan", "--steps", "1", "--signals", "0", "--tolerance", "0.1"],
    "tenants": ["plan", *HEADLINE, "--tenants", "4,5"],
    "tenants words": ["plan", *HEADLINE, "--tenants", "a,b"],
    "revert after the end": ["plan", *HEADLINE, "--reverts", "11"],
    "too few labels": ["plan", "--labels", "10", "--tolerance", "0.01"],
    "too few at any tolerance": ["plan", "--labels", "2", "--steps", "100"],
    "negative labels": ["plan", "--labels", "-1", "--tolerance", "0.01"],
    "protocol": ["plan", *HEADLINE, "--protocol", "telepathy"],
    "no such file": ["plan", "--spec", "/nowhere/meter.toml"],
    "unknown option": ["plan", "--sleeps", "1"],
    "unknown command": ["plot"],
}


@pytest.mark.parametrize("arguments", BAD.values(), ids=BAD.keys())
def test_bad_input_is_one_line_and_exit_code_two(
    capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    code, out, err = run(capsys, *arguments)
    assert (code, out) == (2, "")
    assert err.startswith("meter: ")
    assert err.count("\n") == 1
    assert "Traceback" not in err


def test_help_lists_every_command_and_imports_no_numerics() -> None:
    script = (
        "import sys; from easeml_meter.cli import meter\n"
        "meter.main(['--help'], standalone_mode=False)\n"
        "assert not {'numpy', 'rich', 'altair', 'pydantic'} & set(sys.modules), 'a slow import'\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "plan" in done.stdout
    assert "compare" in done.stdout


def test_planning_imports_nothing_of_a_server() -> None:
    script = (
        "import sys; from easeml_meter.cli import meter\n"
        "meter.main(['plan', '--steps', '10', '--tolerance', '0.1'], standalone_mode=False)\n"
        "assert not {'pydantic', 'pydantic_settings', 'fastapi', 'sqlalchemy'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)


def test_no_command_shows_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys)
    assert (code, err) == (0, "")
    assert "Commands:" in out


TABLE = {
    (): {"10": 48_986, "32": 123_062, "100": 356_132, "1000": 3_469_564},
    ("--ceiling", "0.1"): {"10": 17_943, "32": 45_762, "100": 134_462, "1000": 1_320_654},
    ("--drawn", "0.05"): {"10": 36_247, "32": 71_859, "100": 184_000, "1000": 1_692_601},
    ("--drawn", "0.2"): {"10": 29_332, "32": 41_247, "100": 72_586, "1000": 496_796},
    ("--protocol", "independent"): {"10": 27_169, "32": 32_585, "100": 37_941, "1000": 48_878},
}
"""Labels by steps, with tolerance and delta 0.01."""
COMPARED = {
    "published": {"10": 108_080, "100": 832_327},
    "all answers": {"10": 86_542, "32": 260_905, "100": 805_314, "1000": 8_041_885},
}
"""The same, as `meter compare` shows it."""


@pytest.mark.parametrize(
    ("options", "steps", "labels"),
    [(options, *each) for options, row in TABLE.items() for each in row.items()],
)
def test_the_table_of_what_each_count_needs(
    capsys: pytest.CaptureFixture[str], options: tuple[str, ...], steps: str, labels: int
) -> None:
    answer = plan_json(capsys, "--steps", steps, "--tolerance", "0.01", *SURE, *options)
    assert answer["labels"] == labels


@pytest.mark.parametrize("steps", ["10", "32", "100", "1000"])
def test_the_rows_of_the_table_that_are_compared(steps: str) -> None:
    spec = MeterSpec.uniform(signals=5, tolerance=0.01, steps=int(steps), delta=0.01)
    labels = {form.name: form.plan.labels for form in compare_forms(spec)}
    for form, row in COMPARED.items():
        assert labels[form] == row.get(steps, labels[form])


def test_the_table_is_that_of_the_page_on_the_mathematics() -> None:
    page = (Path(__file__).parents[2] / "docs" / "mathematics.md").read_text("utf-8")
    rows: dict[str, dict[str, int]] = {" ".join(options): row for options, row in TABLE.items()}
    for name, row in (COMPARED | rows).items():
        cells = (f"{row[steps]:,}" if steps in row else "" for steps in ("10", "32", "100", "1000"))
        named = name if name in COMPARED else f"`{name}`" if name else "nothing more"
        assert " ".join(f"| {named} | {' | '.join(cells)} |".split()) in page


@pytest.mark.parametrize(
    ("options", "tolerance"),
    [
        ([], 0.0847902),
        (["--drawn", "0.2"], 0.0788885),
        (["--drawn", "0.5"], 0.056565),
        (["--protocol", "independent"], 0.0448725),
    ],
)
def test_what_a_thousand_labels_promise_in_twenty_steps(
    capsys: pytest.CaptureFixture[str], options: list[str], tolerance: float
) -> None:
    answer = plan_json(capsys, "--labels", "1000", "--steps", "20", "--ask", "gap", *options)
    assert answer["tolerances"][0] == pytest.approx(tolerance, rel=1e-5)


def test_what_they_would_promise_if_all_answers_counted() -> None:
    spec = MeterSpec.uniform(signals=5, tolerance=0.1, steps=20, delta=0.1, count="all")
    found = reachable_tolerance(spec, 1000).spec.tolerances
    assert found[0] == pytest.approx(0.124388, rel=1e-5)


@pytest.mark.parametrize(
    ("asked", "bands"),
    [
        (
            ["--steps", "10", "--tolerance", "0.01"],
            "7, with edges at 0.005, 0.025, 0.05, 0.1, 0.2,",
        ),
        (["--steps", "10", "--tolerance", "0.05"], "4, with edges at 0.025, 0.125, 0.25"),
        (["--steps", "10", "--tolerance", "0.2"], "2, with an edge at 0.1"),
        (["--steps", "9", "--tolerance", "0.1", "--signals", "4"], "4, with edges at 0.25, 0.5,"),
        (["--steps", "9", "--tolerance", "0.1", "--signals", "1"], "1, from 0 to 1"),
        (["1000", "--steps", "20", "--ask", "gap"], "4, with edges at 0.045, 0.215, 0.43"),
        (["1k", "--protocol", "incremental"], "2, with an edge at 0.025"),
    ],
)
def test_a_plan_always_shows_its_bands(
    capsys: pytest.CaptureFixture[str], asked: list[str], bands: str
) -> None:
    _, out, _ = run(capsys, "plan", *asked)
    assert f"bands                  {bands}" in out


# --- "I have N labels" ---


@pytest.mark.parametrize(
    ("labels", "steps", "points"),
    [
        ("30", 1, 25.2),
        ("50", 3, 27.8),
        ("77", 7, 29.7),
        ("100", 10, 29.9),
        ("200", 10, 21.0),
        ("500", 10, 13.4),
        ("1k", 10, 9.8),
        ("2,000", 10, 6.9),
        ("5000", 10, 4.3),
        ("50k", 10, 1.4),
    ],
)
def test_bands_are_one_word_away(
    capsys: Captured, tmp_path: Path, labels: str, steps: int, points: float
) -> None:
    found = plan_json(capsys, labels, "--ask", "gap")
    assert found == plan_json(capsys, "--labels", labels, "--ask", "gap")
    assert (found["steps"], found["delta"], found["promised_points"]) == (steps, 0.1, points)
    _, out, _ = run(capsys, "plan", labels, "--ask", "gap")
    said = f"In the lowest band: true error at most the validation error + {points} points."
    assert out.startswith(said)
    assert ("not ten" in out) is (steps < 10)
    ways = {way["change"]: way["promised_points"] for way in found["other_ways"]}
    assert {"5 answers", "20 answers", "50 answers"} < {*ways}
    assert ways["5 answers"] < ways["20 answers"] < ways["50 answers"]
    assert any(way["labels"] == 2 * found["labels"] for way in found["other_ways"])
    *_, following = out.strip().split("Next: meter ")
    folder = str(tmp_path / "made")
    assert run(capsys, *shlex.split(following), "-C", folder)[0] == 0
    assert Meter.open(folder).spec.edges == tuple(found["edges"])
    assert Meter.open(folder).spec.inputs == "public"


@pytest.mark.parametrize(
    ("labels", "points", "at_95"),
    [
        ("50", 34.4, 36.7),
        ("100", 24.1, 25.6),
        ("200", 16.6, 17.7),
        ("300", 13.6, 14.4),
        ("500", 10.5, 11.1),
        ("1k", 7.4, 7.8),
        ("2,000", 5.2, 5.5),
        ("5000", 3.3, 3.5),
    ],
)
def test_labels_alone_are_an_alarm(
    capsys: Captured, tmp_path: Path, labels: str, points: float, at_95: float
) -> None:
    _, out, _ = run(capsys, "plan", labels)
    said = f"ok will mean: true error at most the validation error + {points} points"
    assert out.startswith(said)
    assert f"  95 % sure                       + {at_95} points, " in out
    assert plan_json(capsys, labels, "--confidence", "95")["promised_points"] == at_95
    *_, following = out.strip().split("Next: meter ")
    folder = str(tmp_path / "made")
    assert run(capsys, *shlex.split(following), "-C", folder)[0] == 0
    assert Meter.open(folder).spec.question == "alarm"


@pytest.mark.parametrize(
    ("typed", "alarm"),
    [
        (["30"], True),
        (["5000"], True),
        (["5000", "--delta", "0.25"], True),
        (["5000", "--delta", "0.26"], False),
        (["5001"], False),
        (["5001", "--steps", "19"], False),
        (["5001", "--steps", "20"], True),
        (["5001", "--ask", "alarm"], True),
        (["500", "--tenants", "5,5", "--confidence", "95"], True),
        (["500", "--tolerance", "0.1"], False),
        (["500", "--protocol", "incremental"], False),
        (["500", "--preset", "weekly", "--steps", "3", "--tolerance", "0.2"], False),
        (["6000", "--expects", "0.1"], True),
        (["--g", "0.05"], True),
    ],
    ids=str,
)
def test_the_alarm_is_the_first_offer(capsys: Captured, typed: list[str], alarm: bool) -> None:
    _, out, _ = run(capsys, "plan", *typed)
    assert out.startswith("ok will mean") is alarm


def test_a_plan_of_an_alarm_says_what_else_there_is(capsys: Captured) -> None:
    _, out, _ = run(capsys, "plan", "500")
    assert out.splitlines()[:11] == [
        "ok will mean: true error at most the validation error + 10.5 points (500 labels, 250 "
        "validation rows; 13.5 after one alarm, 14.4 after two).",
        "90 % sure of all ok together. A model at an error of 20 % that was neither fitted nor "
        "chosen on the validation rows is ok 99 times in 100 at the first answer (30 %: 97, 50 %: "
        "96).",
        "",
        "Other ways, and what they add to the validation error:",
        "  20 answers                      + 10.5 points, 14.0 after one alarm",
        "  100 answers                     + 10.5 points, 15.0 after one alarm",
        "  no end                          + 10.5 points, 14.4 after one alarm at answer 10",
        "  95 % sure                       + 11.1 points, 14.0 after one alarm",
        "  1,000 labels                    + 7.4 points, 9.5 after one alarm",
        "  bands (--ask gap)               + 13.4 points in the lowest",
        "",
    ]
    _, out, _ = run(capsys, "plan", "10000")
    assert "ok, or an alarm (--ask alarm)   + 2.3 points, 3.0 after one alarm" in out
    _, out, _ = run(capsys, "plan", "10000", "--ask", "alarm", "--confidence", "95")
    assert "+ 2.5 points (10,000 labels, 5,000 validation rows; 3.1 after one alarm" in out
    _, out, _ = run(capsys, "plan", "500", "--expects", "10%")
    assert "+ 8.0 points" in out
    assert "an error of 10 %" in out
    assert "(20 %: 94, 30 %: 89)." in out
    _, out, _ = run(capsys, "plan", "500", "--validation", "100")
    assert "+ 13.1 points (500 labels, 100 validation rows; 16.4 after one alarm, 17.2" in out
    _, out, _ = run(capsys, "plan", "9k", "--steps", "no end")
    assert "; 3.3 after one alarm at answer 10, 3.7 after another at 20)." in out
    assert "steps                  no end" in out
    assert out.endswith("Next: meter init --labels 9000 --steps 'no end'\n")
    _, out, _ = run(capsys, "plan", "--g", "0.05")
    assert "+ 5.0 points (2,116 labels, 1,058 validation rows)." in out


def test_no_meter_keeps_or_discards_yet(capsys: Captured, tmp_path: Path) -> None:
    folder = str(tmp_path / "made")
    code, _, err = run(capsys, "init", "--ask", "keep", "--labels", "300", "-C", folder)
    assert (code, "meter gate OLD NEW" in err, err.count("\n")) == (2, True, 1)
    assert not (tmp_path / "made").exists()


def test_an_alarm_of_any_size_is_planned_at_once() -> None:
    started = time.process_time()
    assert plan_alarm(10**8).question.promised_points == 0.1
    assert time.process_time() - started < 1


@pytest.mark.parametrize(
    ("typed", "delta"),
    [
        (["--confidence", "95"], 0.05),
        (["--confidence", "95%"], 0.05),
        (["--confidence", ".95"], 0.05),
        (["--confidence", "0,95"], 0.05),
        (["--delta", "5%"], 0.05),
        (["--delta", "0,05"], 0.05),
        ([], 0.1),
    ],
    ids=str,
)
def test_numbers_are_read_as_people_write_them(
    capsys: Captured, typed: list[str], delta: float
) -> None:
    for command in (["plan", "1,000"], ["compare", "--labels", "1k"]):
        code, out, err = run(capsys, *command, *typed, "--json")
        assert (code, err) == (0, "")
        found = json.loads(out)
        assert found.get("forms", [found])[0]["delta"] == delta
    assert plan_json(capsys, "--steps", "3", "--tolerance", "5%")["tolerance"] == 0.05


def test_a_file_may_say_labels_or_a_tolerance_alone(capsys: Captured, tmp_path: Path) -> None:
    for text, same in (
        ("[sample]\nlabels = 500", ["500", "--ask", "gap"]),
        ("tolerance = 0.05", ["--tolerance", "0.05"]),
    ):
        (tmp_path / "meter.toml").write_text(f'[question]\nask = "gap"\n{text}\n')
        with contextlib.chdir(tmp_path):  # the plan of this folder, as meter compare --why has it
            found, typed = plan_json(capsys), plan_json(capsys, *same)
        assert found["edges"] == typed["edges"]
        assert found["promised_points"] == typed["promised_points"]


def test_validation_sets_and_rows_without_a_split_are_planned(capsys: Captured) -> None:
    _, out, _ = run(capsys, "plan", "1300", "--validation", "100", "--ask", "gap")
    assert "10 % wrong may be 5.5 to 16.4 % (90 % sure, of one model); 400 rows bring that" in out
    _, out, _ = run(capsys, "plan", "--rows", "1000")
    assert "(400 labels, 200 validation rows" in out
    _, out, _ = run(capsys, "plan", "--rows", "1000", "--ask", "gap")
    assert "+ 14.9 points" in out
    assert "hide 400, validate on 200 and train on 400" in out
    assert "Validation set of 200 rows: 10 % wrong may be 6.7 to 14.2 %" in out


@pytest.mark.parametrize(
    "options",
    [
        ["--labels", "1,000", "--steps", "20"],
        ["--labels", "1,000", "--steps", "20", "--ask", "gap"],
        ["--labels", "900", "--tenants", "5,5"],
        ["--steps", "20", "--tolerance", "0.05", "--confidence", "95"],
        ["--labels", "900", "--edges", "0.1,0.3", "--tenants", "5,5"],
        ["--preset", "agent"],
        ["--ask", "n > 0.8 +/- 0.1", "--steps", "5"],
    ],
    ids=str,
)
def test_what_is_printed_next_runs_as_it_stands(
    capsys: Captured, tmp_path: Path, options: list[str]
) -> None:
    _, out, _ = run(capsys, "plan", *options)
    needed = plan_json(capsys, *options)["labels"]
    following = re.findall(r"^(?:Next|What would need fewer labels): meter (.*)$", out, re.M)
    assert following[0].startswith("init ")
    for number, line in enumerate(following):
        more = ["-C", str(tmp_path / f"{number}")] if line.startswith("init") else []
        code, said, err = run(capsys, *shlex.split(line), *more, "--json")
        assert (code, err) == (0, "")
        assert json.loads(said)["labels"] <= needed


@pytest.mark.parametrize(
    ("edges", "labels"), [("0.02,0.05,0.1,0.2", 48_986), ("0.01,0.02,0.03,0.04", 65_137)]
)
def test_the_edges_of_the_bands_decide_how_many_answers_are_possible(
    capsys: pytest.CaptureFixture[str], edges: str, labels: int
) -> None:
    asked = ("--steps", "10", "--tolerance", "0.01", "--edges", edges, *SURE)
    assert plan_json(capsys, *asked)["labels"] == labels
    inner = [float(edge) for edge in edges.split(",")]
    every = MeterSpec.uniform(edges=inner, tolerance=0.01, steps=10, delta=0.01, count="all")
    assert required_labels(every).labels == 86_542
    _, out, _ = run(capsys, "plan", *asked)
    assert f"5, with edges at {edges.replace(',', ', ')}" in out


@pytest.mark.parametrize(("drawn", "labels"), [("0.05", 36_247), ("0.2", 29_332)])
def test_drawn_edges_make_adaptivity_cheap(
    capsys: pytest.CaptureFixture[str], drawn: str, labels: int
) -> None:
    asked = ("--steps", "10", "--tolerance", "0.01", "--drawn", drawn, *SURE)
    data = plan_json(capsys, *asked)
    assert (data["labels"], data["drawn"], data["signals"]) == (labels, float(drawn), None)
    assert plan_json(capsys, *asked, "--signals", "5")["labels"] == labels
    _, out, _ = run(capsys, "plan", *asked)
    assert f"edges drawn for every answer, {drawn} apart" in out
    assert "drawn by the meter, secretly and independently" in " ".join(out.split())
    code, _, err = run(capsys, "plan", *asked, "--edges", "0.1")
    assert (code, err.count("\n")) == (2, 1)
    assert "not both" in err


def test_wrong_edges_are_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    asked = ["plan", "--steps", "10", "--tolerance", "0.1", "--edges"]
    file = tmp_path / "meter.toml"
    MeterSpec.uniform(signals=2, tolerance=0.1, steps=2, delta=0.1).write(file)
    for more in (["0.2,0.1"], ["a"], ["0.1,0.2", "--signals", "5"], ["0.1", "--spec", str(file)]):
        code, _, err = run(capsys, *asked, *more)
        assert code == 2
        assert err.count("\n") == 1


def test_the_table_of_small_evaluations_is_what_the_planner_says(
    capsys: pytest.CaptureFixture[str],
) -> None:
    page = (Path(__file__).parents[2] / "docs" / "llm-evals.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([\d,]+) \| (0\.\d+(?: \| 0\.\d+)*) \|$", page, re.MULTILINE)
    assert [row[0] for row in rows] == ["100", "200", "500", "1,000", "2,000"]
    columns = [
        ["--loss", "score[0-1]", "--signals", signals, "--protocol", protocol]
        for protocol in ("regular", "incremental")
        for signals in ("2", "3")
    ] + [["--loss", "score", "--signals", "2"]]
    for items, shown in rows:
        asked = ["--labels", items.replace(",", ""), "--steps", "10", "--delta", "0.1"]
        for column, tolerance in zip(columns, shown.split(" | "), strict=True):
            reached = plan_json(capsys, *asked, *column)["tolerances"][0]
            assert reached <= float(tolerance) < reached + 0.001


def test_steps_and_labels_of_a_condition_are_one_too_many(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "meter.toml"
    path.write_text('[question]\nask = "n > 0.5 +/- 0.3"\n[budget]\nsteps = 3\n')
    assert plan_json(capsys, "--spec", str(path), "--labels", "60")["steps"] > 3
    for more in ([], ["--toml"]):
        asked = ["plan", "--spec", str(path), "--labels", "60", "--steps", "3", *more]
        code, out, err = run(capsys, *asked)
        assert (code, out) == (2, "")
        assert "give two of steps, tolerance and labels, not all" in err


@pytest.mark.parametrize(
    ("settings", "explained"),
    [
        ('question = {ask = "n > 0.5 +/- 0.3"}', False),
        ('sample = {loss = "f1[1]"}', False),
        ("renewal = {window = 4}", False),
        ("", True),
    ],
)
def test_the_next_command_is_one_that_works(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, settings: str, explained: bool
) -> None:
    path = tmp_path / "meter.toml"
    asked = "" if "ask" in settings else 'question = {ask = "gap", tolerance = 0.2, edges = []}'
    path.write_text(f"budget = {{steps = 3}}\n{settings}\n{asked}\n")
    _, out, _ = run(capsys, "plan", "--spec", str(path))
    assert ("meter compare --why" in out) is explained
    assert ("Next: meter init" in out) is ("f1" not in settings)  # its rows are not said
    code, _, err = run(capsys, "compare", "--why", "--spec", str(path))
    assert code == (0 if explained else 2)
    assert err.count("\n") == (0 if explained else 1)


def test_labels_of_strata_are_said_to_be_used(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "meter.toml"
    path.write_text(
        '[question]\nask = "gap"\ntolerance = 0.02\nedges = []\n[budget]\nsteps = 3\n'
        '[meter]\ndelta = 0.01\n[sample]\nstratum = "part"\nstrata = ["a", "b"]\n'
        "weights = [0.123, 0.877]\n"
    )
    _, out, _ = run(capsys, "plan", "--spec", str(path), "--labels", "6500")
    assert "labels used 6,000" in " ".join(out.split())
    assert "of them a 738 of them b 5,262" in " ".join(out.split())


@pytest.mark.parametrize("asked", [[], ["--metric", "f1"]], ids=str)
def test_a_decimal_comma_is_understood_in_every_question(
    capsys: pytest.CaptureFixture[str], asked: list[str]
) -> None:
    comma, point = (
        run(capsys, "plan", *asked, "--steps", "3", "--tolerance", each, "--json")
        for each in ("0,1", "0.1")
    )
    assert comma == point
    assert comma[0] == 0


def test_what_was_not_given_is_named_for_every_question(
    capsys: pytest.CaptureFixture[str],
) -> None:
    _, out, _ = run(capsys, "plan", "--ask", "gap", "--labels", "50000", "--steps", "10", *SURE)
    assert "tolerance reached 0.00989798" in " ".join(out.split())
    _, out, _ = run(capsys, "plan", "--rolling", "--window", "52", "--batch", "160")
    assert "labels a batch given 160" in " ".join(out.split())
    assert "tolerance reached" in out


@pytest.mark.parametrize("name", PRESETS)
def test_every_story_is_a_plan_and_a_meter(capsys: Captured, tmp_path: Path, name: str) -> None:
    labels = plan_json(capsys, "--preset", name)["labels"]
    assert labels == 48_986 if name == "paper" else 0 < labels < 10_000
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
    assert tomllib.loads(out)["question"]["tolerance"] > 0.05


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
