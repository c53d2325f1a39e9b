"""`meter lab figures` as people and programs use it."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.running import run

from easeml_meter.lab.figures import FIGURES

METER = str(Path(sys.executable).with_name("meter"))


def test_json_for_programs(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    out = tmp_path / "figures"
    code, printed, err = run(
        capsys, "lab", "figures", "--out", str(out), "--only", "trees", "--json"
    )
    assert (code, err) == (0, "")
    answer = json.loads(printed)
    assert [figure["name"] for figure in answer["figures"]] == ["trees"]
    for file in answer["figures"][0]["files"].values():
        assert (out / file).exists()
    assert {claim["verdict"] for claim in answer["claims"]} == {"holds"}
    by_text = {number["printed"]: number for number in answer["numbers"]}
    assert by_text["71K"]["computed"] == 63_261
    assert by_text["71K"]["verdict"] == "does not hold"
    assert any(misprint["formula"] == "63,261" for misprint in answer["misprints"])


def test_words_for_people(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    out = tmp_path / "figures"
    code, printed, err = run(capsys, "lab", "figures", "--out", str(out), "--only", "trees")
    assert (code, err) == (0, "")
    assert printed.startswith("1 figure, 3 claims: 3 hold\n")
    assert "36 printed numbers: 29 hold, 4 hold roughly, 3 do not hold" in printed
    assert "63,261" in printed
    assert str(out / "index.html") in printed.replace("\n", "")


@pytest.mark.parametrize(
    "arguments", [["figures", "--out", "x", "--only", "histogram"], ["figurines"]]
)
def test_other_bad_input(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    arguments: list[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = run(capsys, "lab", *arguments)
    assert (code, out) == (2, "")
    assert err.startswith("meter: ")
    assert err.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_figures_are_drawn_here_unless_a_folder_is_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(capsys, "lab", "figures", "--only", "trees")[0] == 0
    assert (tmp_path / "figures" / "index.html").exists()


def test_help_names_every_figure(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "lab", "figures", "--help")
    assert code == 0
    for name in FIGURES:
        assert name in out


def test_the_group_lists_its_commands_and_imports_no_numerics() -> None:
    script = (
        "import sys; from easeml_meter.cli import main\n"
        "try: main(['lab'])\nexcept SystemExit: pass\n"
        "assert not {'numpy', 'rich', 'altair', 'sklearn'} & set(sys.modules), 'a slow import'\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    for name in ("figures", "paper", "coverage", "limit"):
        assert name in done.stdout


def test_the_paper_stands_beside_this_program(capsys: pytest.CaptureFixture[str]) -> None:
    questions, meters = [], {}
    for row in json.loads(run(capsys, "lab", "paper", "--json")[1]):
        code, planned, _ = run(capsys, *row["command"].split()[1:], "--json")
        if "labels" in row:
            assert json.loads(planned)["labels"] == row["labels"]
            meters[row["paper"]] = (row["printed"], row["formula"], row["labels"])
        else:
            questions.append((row["paper"][:4], code))
    assert questions == [("(Q1)", 0), ("(Q2)", 0)]
    assert meters == {
        "No Adaptivity": ("38K", 38_005, 27_169),
        "Resampling": ("380K", 380_050, 271_690),
        "Regular Meter": ("108K", 108_080, 48_986),
        "Incremental Meter": ("66K", 66_527, 46_726),
        "Regular, Nonuniform": ("100K", 100_033, 48_986),
        "Incremental, Nonuniform": ("38K", 38_005, 27_169),
        "Regular, Two Tenants": ("71K", 63_261, 35_689),
        "Regular, Time Travel": ("76K", 75_892, 39_181),
    }
    lines = run(capsys, "lab", "paper")[1].splitlines()
    assert len(lines) == 1 + 2 * (len(questions) + len(meters))


def test_progress_is_shown_at_a_terminal_and_only_there(tmp_path: Path) -> None:
    command = [METER, "lab", "figures", "--out", str(tmp_path), "--only", "trees", "--json"]
    quiet = subprocess.run(command, capture_output=True, text=True, check=True)
    assert quiet.stderr == ""
    ours, theirs = pty.openpty()
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "80"}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=theirs, env=environment
    ) as process:
        os.close(theirs)
        assert process.stdout is not None
        out = process.stdout.read()
        shown = b""
        while True:
            try:
                shown += os.read(ours, 4096)
            except OSError:  # the terminal hangs up when the program ends
                break
            if process.poll() is not None and not shown:
                break
    os.close(ours)
    assert json.loads(out) == json.loads(quiet.stdout)
    assert b"trees" in shown
