"""`meter submit`: answered at once or by a queue; bad input is one line and costs nothing."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from tests.cli.office import Office
from tests.cli.workbench import (
    VALIDATION,
    Workbench,
    text,
    write_table,
    wrong,
)
from tests.live import live
from tests.scoring.onnx_models import classifier

from easeml_meter.core.questions.labels import plan_alarm


def good(desk: Workbench) -> dict[str, list[Any]]:
    """Read the good predictions on the test set, as columns."""
    lines = (desk.folder / "good-on-test.csv").read_text(encoding="utf-8").splitlines()
    names, *values = [line.split(",") for line in lines]
    columns = list(zip(*values, strict=True))
    return {name: list(column) for name, column in zip(names, columns, strict=True)}


def changed(**changes: Callable[[list[Any]], list[Any]]) -> Callable[[Workbench], str]:
    """Write the good predictions with changes to some columns."""

    def write(desk: Workbench) -> str:
        columns = good(desk)
        for name, change in changes.items():
            columns[name] = change(columns[name])
        return desk.write("bad", columns)

    return write


def all_of(change: Callable[[list[Any]], list[Any]]) -> Callable[[Workbench], str]:
    return changed(id=change, prediction=change, model=change)


def folder_in_place_of_a_file(desk: Workbench) -> str:
    (desk.folder / "bad.csv").mkdir()
    return "bad.csv"


def nan_in_parquet(desk: Workbench) -> str:
    columns = good(desk)
    values = [float("nan"), *[0.0] * (len(columns["id"]) - 1)]
    write_table(desk.folder / "bad.parquet", {"id": columns["id"], "prediction": values})
    return "bad.parquet"


PREDICTIONS: dict[str, tuple[Callable[[Workbench], str], str]] = {
    "a row too few": (all_of(lambda column: column[:-1]), "without a row: '34'"),
    "a row too many": (all_of(lambda column: [*column, column[-1]]), "more than once: '34'"),
    "another id": (changed(id=lambda column: ["stranger", *column[1:]]), "'stranger'"),
    "an unknown class": (changed(prediction=lambda c: ["bird", *c[1:]]), "row 1: 'bird'"),
    "a missing prediction": (changed(prediction=lambda c: [*c[:4], "", *c[5:]]), "row 5"),
    "NaN in text": (changed(prediction=lambda c: ["NaN", *c[1:]]), "row 1"),
    "NaN in Parquet": (nan_in_parquet, "bad.parquet"),
    "an empty file": (text(""), "bad.csv"),
    "an empty Parquet file": (text("", "parquet"), "bad.parquet"),
    "only a header": (text("id,prediction\n"), "bad.csv"),
    "a broken quote": (text('id,prediction\n0,"cat\n1,dog\n2,cat\n'), "bad.csv"),
    "a line with a field too many": (text("id,prediction\n0,cat,dog\n"), "bad.csv"),
    "no such column": (text("id,guess,sure\n0,cat,1\n"), "guess"),
    "no text": (text(b"id,prediction\n0,\xff\xfe\x00\n"), "bad.csv"),
    "broken JSON": (text('{"prediction": "cat"\n', "jsonl"), "bad.jsonl"),
    "no Parquet": (text("PAR1 and so on PAR1", "parquet"), "bad.parquet"),
    "no Arrow": (text("ARROW1 and so on", "arrow"), "bad.arrow"),
    "an unknown format": (text("cat", "docx"), "bad.docx"),
    "a folder": (folder_in_place_of_a_file, "folder"),
    "no file": (lambda _: "nowhere.csv", "No such file"),
}


@pytest.mark.parametrize("case", PREDICTIONS)
@pytest.mark.parametrize("side", ["test", "validation"])
def test_predictions(desk: Workbench, case: str, side: str) -> None:
    write, words = PREDICTIONS[case]
    files = {"test": "good-on-test.csv", "validation": "good-on-validation.csv"}
    files[side] = write(desk)
    options = [word for which, name in files.items() for word in (f"--{which}", name)]
    if case == "another id" and side == "validation":
        return  # this validation set was given without ids
    shown = desk.refused(2, "submit", *options)
    if side == "test":
        assert words in shown
    assert desk.left() == 3
    ok = ["--test", "good-on-test.csv", "--validation", "good-on-validation.csv"]
    assert desk.json("submit", *ok)["step"] == 2


@pytest.mark.parametrize(
    "options",
    [
        ["--model", "x" * 10_000_000],
        ["--model", ""],
        ["--model", "two\nlines"],
        ["--model", "\x1b[2J"],
        ["--tenant", "2"],
        ["--tenant", "0"],
        ["--tenant", "one"],
        ["--tenant", "9" * 1000],
    ],
    ids=lambda options: " ".join(options)[:20],
)
def test_options_of_a_submission(desk: Workbench, options: list[str]) -> None:
    files = ["--test", "good-on-test.csv", "--validation", "good-on-validation.csv"]
    shown = desk.refused(2, "submit", *files, *options)
    assert "\x1b" not in shown
    assert desk.left() == 3


def test_a_check_says_how_files_are_read_and_changes_nothing(desk: Workbench) -> None:
    files = ["--test", "good-on-test.csv", "--validation", "good-on-validation.csv"]
    before = desk.snapshot()
    shown = desk.ok("submit", *files, "--check")
    assert "matched by id; the first are read as " in shown
    assert "Classes, in this order: cat, dog" in shown
    assert "Validation error: 0 %." in shown
    assert "Submitting it uses answer 2 of 4 from test set 1." in shown
    assert "no label of the test set was touched" in shown
    found = desk.json("submit", *files, "--check")
    assert (found["answer"], found["answers"], found["validation_loss"]) == (2, 4, 0)
    assert desk.snapshot() == before
    swapped = ["--test", "good-on-validation.csv", "--validation", "good-on-test.csv"]
    assert "good-on-test.csv" in desk.refused(2, "submit", *swapped, "--check")


AS_NOBODY = """
import contextlib, io, os, sys
from easeml_meter.core.questions.labels import plan_alarm
from easeml_meter.cli import main

def run(arguments):
    try:
        main(arguments)
    except SystemExit as stopped:
        return stopped.code

allowed, folder, *arguments = sys.argv[1:]
with contextlib.redirect_stdout(io.StringIO()):  # nobody may not be able to read the installation
    assert run([*arguments, "-C", allowed]) == 0
os.setgid(65534)
os.setuid(65534)
sys.exit(run([*arguments, "-C", folder]))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="becoming another account needs root")
@pytest.mark.parametrize(("mode", "code"), [(0o700, 2), (0o755, 1)])
def test_a_folder_without_permission(desk: Workbench, mode: int, code: int) -> None:
    """At 700 nothing can be read; at 755 only the key cannot, and nothing can be written."""
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o755)
        folder = Path(place) / "meter"
        shutil.copytree(desk.folder / "meter", folder)
        folder.chmod(mode)
        for name in ("good-on-test.csv", "good-on-validation.csv"):
            shutil.copy(desk.folder / name, place)
        before = Workbench(Path(place)).snapshot()
        files = ["--test", "good-on-test.csv", "--validation", "good-on-validation.csv"]
        done = subprocess.run(
            [sys.executable, "-c", AS_NOBODY, desk.folder / "meter", folder, "submit", *files],
            cwd=place,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == code, done
        assert done.stdout == ""
        assert done.stderr.startswith("meter: ")
        assert done.stderr.count("\n") == 1
        assert Workbench(Path(place)).snapshot() == before
        assert Workbench(Path(place)).left() == 3


def test_the_whole_loop(office: Office) -> None:
    labels = office.ready(inputs="public")
    n = len(labels)
    assert f"{n} rows" in office.ok("testset", "inputs", "--out", "inputs.parquet")
    first = office.ok("submit", *office.predictions(wrong(labels, 1), VALIDATION, name="a"))
    assert first.startswith("Step 1: band 1 of 3, model a-on-test\n")
    second = office.submit(wrong(labels, n // 5), VALIDATION, name="b")
    assert (second["answer"], second["band"], second["steps_left"]) == ("2", 2, 2)
    assert office.left() == 2
    assert len(office.json("history")[0]["signals"]) == 2
    assert "wrote page.html" in office.ok("report", "--html", "page.html")
    assert "20 rows, used from" in office.validate(VALIDATION, verb="replace", seed=5)

    files = office.predictions(wrong(labels, 2), VALIDATION, name="r")
    told = office.acting("runner").ok("submit", *files)
    assert told == (
        "submitted as step 3 of test set 1: the answer is shown to the developers of team 1\n"
    )
    again = office.json("submit", *files)
    assert (again["signal"], again["state"]) == (None, "done")
    assert "may not see answers" in office.refused(5, "status")

    office.acting("developer").submit(labels, VALIDATION, name="d")
    files = office.predictions(wrong(labels, 3), VALIDATION, name="e")
    assert "test set 1 is spent" in office.refused(3, "submit", *files)
    assert "developers may not release" in office.refused(5, "release")
    released = office.acting("labeler").ok("release")
    assert released.startswith("released to released/1: report.html, retrospective.json, testset")
    assert pq.read_table(office.folder / "released/1/testset.parquet").num_rows == n
    assert "only a spent one is released" in office.refused(4, "release")
    assert (
        office.acting("developer").ok("testset", "fetch", 1, "--out", "mine").startswith("fetched")
    )
    assert "the chain is sound\nNext: " in office.ok("audit")
    assert office.acting("labeler").json("testset", "requests")[0]["generation"] == 2


def test_a_runner_gets_a_receipt_whatever_the_answer_is(office: Office) -> None:
    labels = office.ready_for(plan_alarm(40).spec.replace(classes=("cat", "dog")))
    bad = office.predictions(wrong(labels, len(labels)), VALIDATION, name="bad")
    told = office.acting("runner").ok("submit", *bad)
    assert told.startswith("submitted as step 1 of test set 1: the answer is shown to")
    assert office.acting("developer").run("status", "--model", "bad-on-test").code == 6
    assert office.run("submit", *bad).code == 6, "a repeat exits as its answer would have"


def test_ctrl_c_takes_a_waiting_model_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with live(tmp_path / "server", working=False) as site:
        office = Office(site, tmp_path, monkeypatch)
        office.ready(models=True)
        (tmp_path / "net.onnx").write_bytes(classifier(np.eye(2)))
        submit = "from easeml_meter.cli import main; main(['submit', '--onnx', 'net.onnx'])"
        popen = subprocess.Popen(
            [sys.executable, "-c", submit], cwd=tmp_path, stderr=subprocess.PIPE, text=True
        )
        developer = site.served.client(office.user("developer"))
        path = f"/meters/{office.json('meters')[0]['id']}/submissions"
        while not developer.get(path).json()["items"]:
            assert popen.poll() is None
        popen.send_signal(signal.SIGINT)
        _, err = popen.communicate(timeout=60)
        assert popen.returncode == 130
        assert err == "meter: interrupted: the submission was taken back, it cost nothing\n"
        assert developer.get(path).json()["items"] == []


def test_a_runner_reports_scores_and_the_developer_gates(office: Office) -> None:
    n = office.make(loss="score[0-1]", classes=(), metric="includes")
    hidden, visible = [f"h{at}" for at in range(n)], [f"v{at}" for at in range(20)]
    for name, ids in (("hidden", hidden), ("dev", visible)):
        (office.folder / f"{name}.csv").write_text("id\n" + "\n".join(ids))
        scores = "".join(f"{each},1\n" for each in reversed(ids))
        (office.folder / f"{name}-scores.csv").write_text(f"id,score\n{scores}")
    step = "Next, for developers: meter validation set DATA --id COLUMN\n"
    office.acting("labeler").ok("seal", "hidden.csv", "--id", "id", "--out", "t.sealed")
    assert office.ok("testset", "add", "t.sealed").endswith(step)
    office.acting("developer").ok("validation", "set", "dev.csv", "--id", "id")
    files = ["--test", "hidden-scores.csv", "--validation", "dev-scores.csv", "--model", "m"]
    line = "developers may not report scores: a runner submits them"
    assert line in office.refused(5, "submit", *files)
    for option in ("--fail-above=1", "--most-loss=.1", "--summary=s.md", "--junit=j.xml"):
        refused = office.acting("runner").refused(5, "submit", *files, option)
        assert f"{option.split('=')[0]}: the answer is not told to this caller" in refused
    assert "submitted as step 1" in office.ok("submit", *files), "nothing was sent before"
    assert "passed" in office.acting("developer").ok("status", "--model", "m", "--fail-above", "1")

    # What a runner's evaluation has not written, or not to its end, is an answer too.
    unread = ["--test", "nowhere.csv", "--validation", "dev-scores.csv"]
    (office.folder / "cut.json").write_text('{"samples": [')
    logs = ["--from", "inspect", "--test", "cut.json", "--validation", "cut.json"]
    office.acting("runner")
    assert "did you mean" in office.refused(
        2, "submit", "--from", "inspct", *logs[2:], "--model", "t"
    )
    assert "submitted as step 2" in office.ok("submit", *unread, "--model", "absent")
    assert "submitted as step 3" in office.ok("submit", *logs, "--model", "cut")
    office.acting("developer")
    assert "cannot be read" in office.refused(2, "submit", *unread, "--model", "x")
    told = office.json("history")[0]["signals"]
    assert [(each["model"], each["step"]) for each in told] == [("m", 1), ("absent", 2), ("cut", 3)]
    assert told[1]["answer"] != told[0]["answer"]
