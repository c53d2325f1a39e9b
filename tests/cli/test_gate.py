"""`meter gate`: exit codes and words."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from tests import forking

MAIN, SAME, BETTER = (
    [int(n > 20) for n in range(300)],
    [int(n > 20) for n in range(300)],
    [1] * 300,
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, right in (("main", MAIN), ("same", SAME), ("better", BETTER)):
        cases = [{"id": n, "score": score} for n, score in enumerate(right)]
        (tmp_path / f"{name}.json").write_text(json.dumps(cases))
    return tmp_path


def run(folder: Path, *arguments: str, **environment: str) -> tuple[int, str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in ("CI", "METER_KEY")}
    done = forking.run(arguments, {**kept, "COLUMNS": "80", **environment}, folder=folder)
    return done.returncode, done.stdout, done.stderr


def test_keep_or_discard(folder: Path) -> None:
    code, out, err = run(folder, "gate", "main.json", "better.json", "--name", "4f1c2e")
    first, second, head = out.splitlines()
    assert code == 0
    assert first == (
        "keep      4f1c2e is better than main. 90 % sure of this and of every other keep of this "
        "test set, before and after."
    )
    assert second == (
        "          No limit of answers. The next keep needs, for example, 11 wins of 11 disputed "
        "cases, 18 of 20 or 31 of 40."
    )
    assert "New ledger gate.jsonl" in err
    assert "an honour system" in err
    assert err.endswith(" From now on, OLD is the results of 4f1c2e.\n")
    code, _, err = run(folder, "gate", "main.json")
    assert (code, err) == (2, "meter: results: 'one file' given, OLD and NEW needed\n")
    code, _, err = run(folder, "gate", "main.json", "same.json", "--looks", "20")
    said = "gate.jsonl was made without it: leave it out, or name another --ledger"
    assert (code, err) == (2, f"meter: looks: 20 given, {said}\n")
    for _ in range(2):
        code, out, err = run(folder, "gate", "main.json", "same.json", "--name", "b")
        assert (code, err) == (6, "")
    assert out.startswith("discard   as at look 2: b was asked before. No answer was used.")
    code, out, _ = run(folder, "gate", "main.json", "better.json", "--name", "4f1c2e")
    assert (code, out.split(": ")[0]) == (0, "keep      as at look 1")
    advised = run(folder, "gate", "main.json", "same.json", "--name", "b", "--advise")
    assert (advised[0], advised[1].startswith("discard")) == (0, True)
    code, out, _ = run(folder, "gate")
    assert (code, "1 of 2 said yes: 4f1c2e. The model to beat is 4f1c2e." in out) == (0, True)
    assert run(folder, "audit")[:2] == (0, "the chain is sound: 2 looks\n")
    assert run(folder, "audit", "gate.jsonl", "--head", head.split()[1][:-1])[0] == 0
    code, out, _ = run(folder, "audit", "gate.jsonl", "--head", "0" * 12)
    assert (code, "it was cut, or put back" in out) == (1, True)


def test_a_keep_against_another_model_needs_a_word(folder: Path) -> None:
    run(folder, "gate", "main.json", "better.json", "--name", "a")
    asked = ("gate", "main.json", "better.json", "--name", "b", "--old-name", "main")
    code, out, _ = run(folder, *asked)
    assert (code, "this does not continue the chain" in out) == (6, True)
    assert run(folder, *asked, "--by-hand")[0] == 0


def test_exit_codes_and_json(folder: Path) -> None:
    asked = ("gate", "main.json", "same.json", "--looks", "1", "--json")
    code, out, _ = run(folder, "gate")
    assert (code, out) == (2, "")
    code, out, _ = run(folder, *asked)
    told = json.loads(out)
    assert (code, told["answer"], told["answers_left"]) == (6, "discard", 0)
    code, out, err = run(folder, *asked)
    assert (code, json.loads(out)["error"], err) == (3, "spent", "")
    for wrong in (
        ("absent.json",),
        ("better.json", "--looks", "2"),
        ("better.json", "--name", "#"),
    ):
        code, out, err = run(folder, "gate", "main.json", *wrong, "--json")
        assert (code, json.loads(out)["exit_code"], err) == (2, 2, "")
    code, out, _ = run(folder, "gate", "--void", "1", "--reason", "the grader timed out")
    assert (code, out.split(".")[0]) == (0, "void      look 1: the grader timed out")
    assert run(folder, "gate", "--void", "1", "--reason", "again")[0] == 2
    (folder / "gate.jsonl").write_text("{}\n")
    assert run(folder, "gate", "main.json", "same.json")[0] == 2
    assert run(folder, "audit")[0] == 1


def test_continuous_integration_makes_no_ledger_by_itself(folder: Path) -> None:
    code, _, err = run(folder, "gate", "main.json", "same.json", CI="true")
    assert (code, "--new" in err) == (2, True)
    assert not (folder / "gate.jsonl").exists()
    assert run(folder, "gate", "main.json", "same.json", "--new", CI="true")[0] == 6


def test_one_file_and_a_bar(folder: Path) -> None:
    code, out, _ = run(folder, "gate", "better.json", "--at-least", "80%", "--name", "a")
    assert (code, "a is right on more than 80 % of cases." in out) == (0, True)
    assert run(folder, "gate", "main.json", "--name", "b")[0] == 0
    assert run(folder, "gate", "main.json", "better.json")[0] == 2
    code, out, _ = run(folder, "gate")
    assert (code, "of 300 cases right" in out) == (0, True)


def test_not_worse_and_scores_have_their_words(folder: Path) -> None:
    ledger = ("--ledger", "alarm.jsonl")
    asked = ("gate", "main.json", "same.json", "--not-worse", "5%", "--reference", "prod", *ledger)
    code, out, _ = run(folder, *asked)
    assert (code, "#1 is not worse than prod by more than 5 points." in out) == (0, True)
    code, out, _ = run(folder, "gate", "better.json", "main.json", "--name", "x", *ledger)
    assert (code, "Alarms left: 2." in out) == (6, True)
    for name, old in (("main", MAIN), ("better", BETTER)):
        text = "".join(f"{n};{8 * score}\n" for n, score in enumerate(old, 1000))
        (folder / f"{name}.csv").write_text(f"id;score\n{text}")
    scored = ("gate", "main.csv", "better.csv", "--scores", "--range", "0,10")
    code, out, _ = run(folder, *scored, "--ledger", "s.jsonl")
    assert (code, "an equal gain of 0." in out) == (0, True)


def test_an_answer_that_cannot_be_shown_is_no_keep(folder: Path) -> None:
    asked = [sys.executable, "-m", "easeml_meter", "gate", "main.json", "better.json", "--name"]
    plain = {name: value for name, value in os.environ.items() if name != "CI"}
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([*asked, "a"], cwd=folder, env=plain, stdout=full, check=False)
    assert done.returncode == 1
    code, out, _ = run(folder, *asked[3:], "a")
    assert (code, out.split(":")[0]) == (0, "keep      as at look 1")
    command = " ".join((*asked, "b", ">&-"))
    done = subprocess.run(command, shell=True, cwd=folder, env=plain, check=False)  # noqa: S602
    assert done.returncode == 2
    assert run(folder, "gate", "--json")[1].count('"answers": 1,') == 1  # nothing was asked
    narrow = {**plain, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run([*asked, "caf\xe9"], cwd=folder, env=narrow, check=False)
    assert done.returncode == 0


def world(folder: Path, worse: tuple[str, ...], *, sealed: bool) -> tuple[object, object]:
    """Ask the same loop of other results: what is printed, and what lies in the folder then."""
    folder.mkdir()
    draw = random.Random(folder.name)  # noqa: S311
    told = []
    for name, keeps in (("a", False), ("b", True), ("c", False), ("d", False), ("e", True)):
        wins = draw.randrange(70, 99) if keeps else 0
        for file, from_ in (("old", wins), ("new", 0 if keeps else draw.randrange(40))):
            rows = [{"id": f"case-{n}", "score": int(n >= from_)} for n in range(300)]
            draw.shuffle(rows)
            (folder / f"{file}.json").write_text(json.dumps(rows))
        new = "new.json" if keeps else draw.choice(worse)
        (folder / "broken.json").write_text('[{"id": "case-7", "score": "?"}')
        (folder / "few.json").write_text('[{"id": "case-7", "score": 1}]')
        told.append(
            run(folder, "gate", "old.json", new, "--name", name, *(["--sealed"] if sealed else []))
        )
    told += [run(folder, "gate"), run(folder, "gate", "--json"), run(folder, "audit")]
    files = {path.name: path.read_bytes() for path in folder.glob("gate*")}
    return told, files


@pytest.mark.parametrize("sealed", [False, True])
def test_two_worlds_with_the_same_bits_look_the_same(tmp_path: Path, sealed: bool) -> None:
    broken = ("absent.json", "broken.json", "few.json", ".") if sealed else ("new.json",)
    told, files = world(tmp_path / "0", ("new.json",), sealed=sealed)
    assert world(tmp_path / "1", broken, sealed=sealed) == (told, files)
