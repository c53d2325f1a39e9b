"""Changes that would open the gate, each with the test that catches it.

Each is made in a copy of the program, in which the test has to fail: a test that a mutant passes
decides nothing.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

KERNEL, LEDGER, DECISION = "promise/kernel.py", "client/ledger.py", "client/decision.py"
GATE, COMMAND = "client/gate.py", "cli/gate.py"
AFTER = "share = level if claimed else self.share - level"
ANSWERED, RIGHT = "word = ledger.answer(pending, yes)", "sum(map(bool, cases.values()))"
KINDS = "other.settings.words"
SYNC = "            os.fsync(file.fileno())"

MUTANTS = {
    "client/test_decision.py::test_every_decision_of_a_loop_at_its_bar_and_one_win_below": (
        ("D - a after a keep", KERNEL, AFTER, "share = self.share - level"),
        ("1.5 a after a keep", KERNEL, AFTER, AFTER.replace("level if", "level * 3 / 2 if")),
        ("2 a after a keep", KERNEL, AFTER, AFTER.replace("level if", "2 * level if")),
        ("a share that never moves", KERNEL, AFTER, "share = self.share"),
        ("free discards", KERNEL, AFTER, "share = level if claimed else self.share"),
        ("discards never reset", KERNEL, "0 if claimed else self.since + 1", "self.since + 1"),
        ("10 + since", KERNEL, "(11 + self.since)", "(10 + self.since)"),
        ("21 + since", KERNEL, "(11 + self.since)", "(21 + self.since)"),
        ("a win less than the bar", DECISION, "up) >= bar", "up) >= bar - 1"),
        ("a win more than the bar", DECISION, "up) >= bar", "up) > bar"),
    ),
    "client/test_answers.py::test_two_worlds_with_the_same_bits_look_the_same": (
        ("rows tell in the JSON", GATE, "note=note)", f"note=str({RIGHT}))"),
        ("rows tell in sizes", GATE, ANSWERED, f"{ANSWERED}; ledger.write(b' ' * {RIGHT})"),
        ("ids in the ledger", LEDGER, 'look = {"look"', 'look = {"case": min(cases), "look"'),
        ("a sealed crash is free", GATE, "if not self.sealed:", "if True:"),
    ),
    "client/test_ledger.py::test_an_edited_line_a_fork_and_a_cut_are_named": (
        ("no check of the chain", LEDGER, 'entry["previous"] == previous', "True"),
        ("no check of a line", LEDGER, 'found["digest"] == digest(found)', "True"),
        ("no check of a level", KERNEL, 'Fraction(line["level"]) == level > 0', "True"),
        ("no check of a share", KERNEL, 'Fraction(line["share"]) == state.share', "True"),
    ),
    "client/test_ledger.py::test_eight_processes_at_once_lose_and_double_no_look": (
        ("no lock", LEDGER, "fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)", "pass"),
    ),
    "client/test_ledger.py::test_both_writes_are_synced": (
        ("no fsync", LEDGER, f"{SYNC}\n        if not", "        if not"),
        ("no intent", LEDGER, "self.write(text + json", "self.write(text) or (json"),
    ),
    "client/test_gate.py::test_a_set_of_cases_is_another_only_if_it_shares_none": (
        ("a fresh set shares cases", GATE, "if missing and any(", "if not look.fresh and any("),
    ),
    "client/test_gate.py::test_two_kinds_of_budget_do_not_share_cases": (
        ("two budgets on the same cases", LEDGER, f"{KINDS} == self.settings.words", "True"),
    ),
    "cli/test_gate.py::test_keep_or_discard": (
        ("a repeat exits with 0", COMMAND, "good = advise or", "good = answer.repeated or"),
    ),
    "cli/test_gate.py::test_a_keep_against_another_model_needs_a_word": (
        ("a keep by hand exits with 0", COMMAND, "(by_hand or not answer.by_hand)", "True"),
    ),
}


SOURCE = Path(__file__).parents[2] / "src" / "easeml_meter"


def test_every_mutant_has_one_place() -> None:
    for mutants in MUTANTS.values():
        for name, file, here, _ in mutants:
            assert (SOURCE / file).read_text().count(here) == 1, name


@pytest.mark.verify
@pytest.mark.parametrize(
    ("test", "file", "here", "there"),
    [pytest.param(test, *each, id=name) for test in MUTANTS for name, *each in MUTANTS[test]],
)
def test_a_mutant_is_caught(tmp_path: Path, test: str, file: str, here: str, there: str) -> None:
    tests = Path(__file__).parents[1]
    shutil.copytree(SOURCE, tmp_path / "easeml_meter", ignore=shutil.ignore_patterns("__pycache__"))
    text = (SOURCE / file).read_text()
    (tmp_path / "easeml_meter" / file).write_text(text.replace(here, there))
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, f"--basetemp={tmp_path / 'base'}", str(tests / test)],
        cwd=tests.parent,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, "failed" in done.stdout.lower()) == (1, True), done.stdout
