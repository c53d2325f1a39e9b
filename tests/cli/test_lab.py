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

from easeml_meter.lab import figures as lab_figures
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


@pytest.mark.parametrize("bad", ["file", "file/below", "/proc/nowhere"])
def test_a_folder_that_cannot_be_written(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, bad: str
) -> None:
    (tmp_path / "file").write_text("mine", encoding="utf-8")
    code, out, err = run(capsys, "lab", "figures", "--out", str(tmp_path / bad))
    assert (code, out) == (2, "")
    assert err.startswith("meter: out: ")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    "arguments", [["figures"], ["figures", "--out", "x", "--only", "histogram"], ["figurines"]]
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


def test_figures_say_how_to_name_their_folder(capsys: pytest.CaptureFixture[str]) -> None:
    assert "meter lab figures --out figures" in run(capsys, "lab", "figures")[2]


def test_a_missing_extra_is_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(lab_figures, "find_spec", lambda name: None)
    code, out, err = run(capsys, "lab", "figures", "--out", str(tmp_path / "out"))
    assert (code, out) == (1, "")
    assert 'pip install "easeml-meter[lab]"' in err
    assert err.count("\n") == 1


def test_help_names_every_figure(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "lab", "figures", "--help")
    assert code == 0
    for name in FIGURES:
        assert name in out


def test_the_group_lists_its_commands_and_imports_no_numerics() -> None:
    script = (
        "import sys; from easeml_meter.cli import meter\n"
        "meter.main(['lab'], standalone_mode=False)\n"
        "assert not {'numpy', 'rich', 'altair', 'sklearn'} & set(sys.modules), 'a slow import'\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    for name in ("figures", "coverage", "limit"):
        assert name in done.stdout


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
