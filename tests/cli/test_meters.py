"""`meter init`, and a meter from there to its next test set."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from tests.cli.workbench import (
    VALIDATION,
    Workbench,
    animals,
    ready,
    rows,
    wrong,
)
from tests.live import Live
from tests.server.driving import begin
from tests.service.helpers import condition_spec, make_session, small_spec
from tests.service.sharing import made

from easeml_meter.cli import main
from easeml_meter.service.actor import SYSTEM
from easeml_meter.service.handovers import hand_over
from easeml_meter.storage.store import Store
from easeml_meter.vault.keys import Identity
from easeml_meter.vault.sealing import SealedTestSet


def test_a_second_meter_in_the_same_folder(desk: Workbench) -> None:
    assert "already holds a meter" in desk.refused(2, "init", "--spec", "spec.toml")


def test_folders_with_odd_names_share_nothing(desk: Workbench) -> None:
    """The second one was refused: it "already holds a meter", which was that of the first."""
    for name in ("run?1", "run?2", "a b", "a%20b", "feature%2Fx"):
        made = desk.run("init", "--spec", "spec.toml", "--yes", "-C", f"ws/{name}")
        assert (made.code, made.err) == (0, "")
        assert desk.run("key", "rotate", "-C", f"ws/{name}").code == 0
    assert len(list((desk.folder / "ws").iterdir())) == 5


@pytest.mark.parametrize(
    ("table", "change", "words"),
    [
        ("sample", 'loss = "0-2"', "loss"),
        ("sample", 'loss = "no.such.module:loss"', "cannot be imported"),
        ("renewal", "every_step = true", "protocol"),
        ("budget", "typo = 1", "typo"),
        ("budget", "steps = 0", "steps"),
        ("meter", "= broken", "TOML"),
        ("meter", "steps = 10", "write [budget] steps"),
    ],
)
def test_a_meter_toml_that_makes_no_meter(
    tmp_path: Path, table: str, change: str, words: str
) -> None:
    desk = Workbench(tmp_path)
    desk.init()
    lines = (tmp_path / "spec.toml").read_text(encoding="utf-8").splitlines()
    lines = [line for line in lines if line.split("=")[0] != change.split("=", maxsplit=1)[0]]
    if f"[{table}]" not in lines:
        lines.append(f"[{table}]")
    lines.insert(lines.index(f"[{table}]") + 1, change)
    (tmp_path / "bad.toml").write_text("\n".join(lines), encoding="utf-8")
    shown = desk.run("init", "--spec", "bad.toml", "-C", "other")
    assert (shown.code, shown.out, shown.err.count("\n")) == (2, "", 1)
    assert words in shown.err
    assert not (tmp_path / "other").exists()


def test_an_init_that_was_killed_is_simply_done_again(tmp_path: Path) -> None:
    desk = Workbench(tmp_path)
    desk.init()
    folder = tmp_path / "other"
    (folder / ".meter").mkdir(parents=True)
    Store.at(folder / ".meter" / "meter.db").close()  # the tables were made, the meter was not
    assert desk.run("init", "--spec", "spec.toml", "-C", "other").code == 0
    assert desk.run("status", "-C", "other").code == 0


def hand_in(desk: Workbench, labels: list[str]) -> None:
    """Seal a test set to two labelers as well, each of whom can open it, and add it."""
    public = [desk.run("key", "new", f"{who}.key").out.strip() for who in ("alice", "bob")]
    source = desk.write("test", rows(labels, seed=0))
    recipients = ["--recipient", public[0], "--recipient", public[1]]
    seal = ["seal", source, "--label", "label", "--id", "id", "--out", "set.sealed"]
    manifest = desk.json(*seal, *recipients)
    assert (manifest["rows"], manifest["generation"]) == (len(labels), 1)
    for who in ("alice", "bob"):
        key = Identity.read(desk.folder / f"{who}.key")
        with SealedTestSet.open(
            desk.folder / "set.sealed", key, meter=manifest["meter"], generation=1
        ) as opened:
            assert opened.rows == len(labels)
    added = desk.json("testset", "add", "set.sealed")
    assert added == {"generation": 1, "rows": len(labels), "steps_left": 4, "notices": []}


def develop(desk: Workbench, labels: list[str]) -> None:
    """Use up the four steps: two, a new validation set, two more."""
    n = len(labels)
    assert f"{n} rows" in desk.ok("testset", "inputs", "--out", "inputs.parquet")
    assert pq.read_schema(desk.folder / "inputs.parquet").names == ["id", "x", "y"]
    said = desk.validate(VALIDATION)
    assert "20 rows, used from the next submission" in said
    noise = "Validation set of 20 rows: 10 % wrong may be "
    assert noise in said
    assert noise in desk.ok("status")
    first = desk.ok("submit", *desk.predictions(wrong(labels, 1), VALIDATION, name="a"))
    assert first.startswith("Step 1: band 1 of 3, model a-on-test\n")
    assert "75 %, 3 steps promised" in first
    second = desk.submit(wrong(labels, n // 5), VALIDATION, name="b")
    assert (second["answer"], second["band"], second["steps_left"]) == ("2", 2, 2)
    assert second["gap"] == [0.1, 0.3]
    assert second["true_gap"] == pytest.approx([0.0164, 0.5350], abs=1e-4)  # within 0.25 of it
    again = desk.submit(wrong(labels, n // 5), VALIDATION, name="b")
    assert (again["repeated"], again["step"], again["steps_left"]) == (True, 2, 2)
    assert "test set 1: active" in desk.ok("status")
    assert desk.json("status")["signals"][1]["model"] == "b"
    history = desk.ok("history")
    assert "band 1" in history
    assert "band 2" in history

    desk.validate(wrong(VALIDATION, 20), verb="replace", seed=1001)
    third = desk.submit(labels, VALIDATION, name="c")
    assert (third["band"], third["steps_left"]) == (3, 1)
    assert desk.submit(labels, wrong(VALIDATION, 20), name="d")["steps_left"] == 0


@pytest.mark.parametrize("kind", ["csv", "parquet", "arrow", "jsonl"])
def test_the_whole_loop(tmp_path: Path, kind: str) -> None:
    desk = Workbench(tmp_path, kind)
    n = desk.init()
    labels = animals(n)
    hand_in(desk, labels)
    develop(desk, labels)

    drawn = {"--html": "r.html", "--svg": "r.svg", "--badge": "b.svg"}
    said = desk.ok("report", *(word for pair in drawn.items() for word in pair))
    assert said == "wrote r.html\nwrote r.svg\nwrote b.svg\nNext: open r.html in a browser\n"
    assert desk.ok("report", "--svg", "r.svg") == "wrote r.svg\nNext: meter status -C meter\n"
    assert (tmp_path / "r.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert "<svg" in (tmp_path / "r.svg").read_text(encoding="utf-8")
    assert "band 1" in (tmp_path / "b.svg").read_text(encoding="utf-8")

    # Spent: a request for exactly n labels, and only then the truth.
    files = desk.predictions(wrong(labels, 1), VALIDATION, name="e")
    asked = f"meter: test set 1 is spent: {n} fresh labels are needed (test set 2)"
    assert desk.refused(3, "submit", *files) == asked + "\n"
    released = desk.json("release")
    assert released["files"] == ["report.html", "retrospective.json", "testset.parquet"]
    table = pq.read_table(tmp_path / released["folder"] / "testset.parquet")
    assert table["label"].to_pylist() == labels
    assert [truth["band"] for truth in desk.json("status")["retrospective"]] == [1, 2, 3, 1]
    assert "yes" in desk.ok("history")
    audit = desk.ok("audit")
    assert "the chain is sound\nNext: keep the last digest" in audit
    assert max(map(len, audit.splitlines())) <= 120
    events = [link["event"] for link in desk.json("audit")["links"]]
    told = ["told", "told", "validation replaced", "told", "told"]
    before = ["created", "requested", "test set added", "validation set"]
    assert events == [*before, *told, "spent", "requested", "released"]

    # The next test set.
    fresh = animals(n, seed=2)
    desk.deliver(fresh, seed=2)
    last = desk.submit(fresh, wrong(VALIDATION, 20), name="f")
    assert (last["generation"], last["step"], last["steps_left"]) == (2, 1, 3)
    assert [view["phase"] for view in desk.json("history")] == ["released", "active"]


def test_init_shows_the_plan(tmp_path: Path) -> None:
    desk = Workbench(tmp_path)
    n = desk.init()
    spec = ["init", "--spec", "spec.toml", "-C", "other"]
    plain = desk.run(*spec).out
    assert f"labels needed          {n} " in plain
    assert "This rests on:" in plain
    assert "Embedded mode is an honour system" in plain


def test_init_takes_the_meter_toml_of_the_folder_and_keeps_it(tmp_path: Path) -> None:
    Workbench(tmp_path).init()
    folder = tmp_path / "own"
    folder.mkdir()
    text = "# why these bands\n" + (tmp_path / "spec.toml").read_text(encoding="utf-8")
    (folder / "meter.toml").write_text(text, encoding="utf-8")
    assert Workbench(folder).run("init").code == 0
    assert (folder / "meter.toml").read_text(encoding="utf-8") == text
    assert Workbench(folder).run("status").out.startswith("Meter own, test set 1: requested")


@pytest.mark.parametrize("says", ["[sample]\nlabels = 50", "tolerance = 0.3"])
def test_a_meter_toml_says_labels_or_a_tolerance_alone(tmp_path: Path, says: str) -> None:
    text = f'[question]\nask = "gap"\n{says}\n[budget]\nsteps = 3\n'
    (tmp_path / "meter.toml").write_text(text, encoding="utf-8")
    assert Workbench(tmp_path).run("init", "--name", "m").code == 0
    assert "3 steps promised" in Workbench(tmp_path).run("status").out


def at_a_terminal(
    folder: Path, *answers: str, command: Sequence[str] = ("init",)
) -> tuple[int, str]:
    """Run a command with a terminal on both sides."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "from easeml_meter.cli import main; main()",
            *command,
            "-C",
            "meter",
        ],
        cwd=folder,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, "TERM": "dumb", "COLUMNS": "80"},
    )
    os.close(theirs)
    # The end of the input after the last answer: one question more fails, instead of waiting.
    os.write(ours, "".join(f"{answer}\n" for answer in answers).encode() + b"\x04")
    shown = b""
    while True:
        try:
            part = os.read(ours, 4096)
        except OSError:  # the other side has closed its terminal
            break
        if not part:
            break
        shown += part
    os.close(ours)
    return process.wait(), shown.decode().replace("\r\n", "\n")


ANSWERS = ("1k", "4", "95", "0-1", "cat, dog")


def test_init_by_questions(tmp_path: Path) -> None:
    code, shown = at_a_terminal(tmp_path, *ANSWERS, "y")
    assert code == 0, shown
    spec = (tmp_path / "meter" / "meter.toml").read_text(encoding="utf-8")
    assert 'inputs = "public"' in spec
    assert tomllib.loads(spec)["meter"]["delta"] == 0.05
    assert tomllib.loads(spec)["sample"]["classes"] == ["cat", "dog"]
    hidden = shown.index("How many labelled examples can stay hidden?")
    promised = shown.index("true error at most the validation error")
    asked = shown.index("Make this meter?")
    made = shown.index("meter made in meter")
    assert hidden < promised < asked < made


def test_nothing_is_written_without_consent(tmp_path: Path) -> None:
    code, shown = at_a_terminal(tmp_path, *ANSWERS, "n")
    assert code == 1
    assert "This rests on:" in shown
    assert "nothing was made" in shown
    assert list(tmp_path.iterdir()) == []


def test_at_a_terminal_a_submission_says_which_answer_it_uses_and_asks(tmp_path: Path) -> None:
    desk = Workbench(tmp_path)
    files = desk.predictions(ready(desk), VALIDATION)
    code, shown = at_a_terminal(tmp_path, "n", command=["submit", *files])
    assert code == 1
    assert "Uses answer 1 of 4, unless it repeats one. Submit?" in shown
    assert "nothing was done" in shown
    assert desk.left() == 4
    code, shown = at_a_terminal(tmp_path, "y", command=["submit", *files])
    assert (code, desk.left()) == (0, 3)
    code, shown = at_a_terminal(tmp_path, command=["submit", *files, "--yes"])
    assert (code, "Submit?" in shown) == (0, False)


def test_without_a_terminal_nothing_is_asked(tmp_path: Path) -> None:
    assert "meter init --labels 500" in Workbench(tmp_path).refused(2, "init")
    assert list(tmp_path.iterdir()) == []


def git(folder: Path, *arguments: str) -> str:
    command = ["git", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout


def test_git_takes_along_the_specification_and_nothing_else(tmp_path: Path) -> None:
    """Before, the key lay beside the code, ready for `git add .`."""
    git(tmp_path, "init", "--quiet")
    desk = Workbench(tmp_path)
    desk.deliver(animals(desk.init()))
    desk.validate(VALIDATION)
    git(tmp_path, "add", "meter")
    assert git(tmp_path, "ls-files").split() == ["meter/meter.toml"]
    assert sorted(path.name for path in (tmp_path / "meter").iterdir()) == [".meter", "meter.toml"]


def test_a_meter_is_archived_before_its_first_answer(tmp_path: Path) -> None:
    desk = Workbench(tmp_path)
    desk.init()
    assert "Confirm it with --yes" in desk.refused(1, "archive")
    assert "is archived" in desk.ok("archive", "--yes")
    assert "is archived" in desk.ok("archive", "--yes")  # done already
    assert "This meter is archived" in desk.ok("status")


def test_from_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    session = made(tmp_path)
    folder = str(tmp_path / "meter")

    def run(*more: str) -> list[str]:
        with pytest.raises(SystemExit) as ended:
            main(["handover", "1", "2", "-C", folder, *more])
        assert ended.value.code == 0
        return capsys.readouterr().out.splitlines()

    told = hand_over(SYSTEM, session.meter.workspace, 1, 2).sentence
    assert run() == [told, "nothing was recorded: add --confirm"]
    assert run("--confirm") == [told, "recorded"]
    assert session.meter.audit().links[-1].event == "handed over"


def test_refused_from_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_session(tmp_path, condition_spec(steps=6, tenants=(3, 3))).meter.close()
    for more in ([], ["--confirm"]):
        with pytest.raises(SystemExit) as ended:
            main(["handover", "1", "2", "-C", str(tmp_path / "meter"), *more])
        assert ended.value.code == 2
        assert "their levels use up delta" in capsys.readouterr().err


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    with pytest.raises(SystemExit) as ended:
        main(["handover", *arguments])
    return int(ended.value.code or 0), "".join(capsys.readouterr())


def test_at_a_server_the_other_team_answers(
    site: Live, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    served = site.served
    meter = served.add_meter(small_spec(steps=6, tenants=(3, 3)), prefix="ho-")
    begin(served, meter, tmp_path, prefix="ho-")
    place = ["--server", site.address, "--meter", meter]

    def as_user(user: str, *arguments: str) -> tuple[int, str]:
        monkeypatch.setenv("METER_TOKEN", served.tokens[f"ho-{user}"])
        return run(capsys, *arguments, *place)

    code, shown = as_user("developer", "1", "2", "--confirm")
    assert code == 0
    assert "Team 2 has to agree: meter handover 1 2 --accept or --decline." in shown
    code, shown = as_user("developer2")
    assert shown.startswith("1 to 2: Teams 1 and 2 will share one history")
    assert as_user("developer2", "1", "2", "--decline")[1].endswith("declined\n")
    assert as_user("developer")[1] == "no hand-over waits for a team to agree\n"
    assert as_user("developer2", "1", "2", "--accept")[0] == 2  # nobody asks any more
    assert as_user("developer", "1", "2", "--confirm")[0] == 0
    assert as_user("developer2", "1", "2", "--accept")[1].endswith("recorded\n")


def test_one_team_is_too_few(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made(tmp_path).meter.close()
    folder = ["-C", str(tmp_path / "meter")]
    for given in (["1"], ["--accept"]):
        code, shown = run(capsys, *given, *folder)
        assert (code, shown.count("\n")) == (2, 1)
        assert "give both" in shown
