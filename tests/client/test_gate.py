"""The gate on two result files: names, sets of cases, settings, runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from tests.client.loops import lines, pair, read

from easeml_meter.client import gate as module
from easeml_meter.client.gate import Gate, gate
from easeml_meter.client.results import read_results
from easeml_meter.errors import InvalidInput, Spent


def test_a_name_that_was_asked_before_repeats_its_answer(tmp_path: Path) -> None:
    asked = Gate(tmp_path / "gate.jsonl", looks=3)
    assert asked.ask(*pair(100, 20), name="a").answer == "keep"
    for results in (pair(100, 0, 50), pair(100, 20)):  # by its name, not by its results
        again = asked.ask(*results, name="a")
        assert (again.answer, again.repeated, again.answers_left) == ("keep", True, 2)
    assert asked.ask(*pair(100, 0), name="b").answer == "discard"
    assert asked.ask(*pair(100, 40), name="b", old_name="a").repeated
    assert asked.ask(*pair(100, 40), name="b", old_name="main").by_hand  # another pair
    assert asked.ask(*pair(100, 50), name="b").repeated  # also when all answers are used
    with pytest.raises(Spent, match="3 of 3 answers"):
        asked.ask(*pair(100, 50), name="c")
    with pytest.raises(Spent):
        asked.ask(*pair(100, 50), name="b", again=True)
    assert [look[0] for look in read(asked.path)] == ["keep", "discard", "keep"]


def test_without_a_name_every_call_is_a_look(tmp_path: Path) -> None:
    asked = Gate(tmp_path / "gate.jsonl")
    told = [asked.ask(*pair(50, 0)) for _ in range(3)]
    assert [each.new for each in told] == ["#1", "#2", "#3"]
    with pytest.raises(InvalidInput, match="no #"):
        asked.ask(*pair(50, 0), name="#2")
    for name in ("", "x" * 201, "a\nb", "a\u202eb", "main"):
        with pytest.raises(InvalidInput, match="name"):
            asked.ask(*pair(50, 0), name=name)
    assert asked.ask(*pair(50, 0), name="cafe\u0301").new == "caf\xe9"


def test_a_keep_against_another_model_moves_nothing(tmp_path: Path) -> None:
    asked = Gate(tmp_path / "gate.jsonl")
    asked.ask(*pair(100, 20), name="a")
    told = asked.ask(*pair(100, 30), name="b", old_name="main")
    assert told.yes
    assert told.by_hand
    assert asked.status()["model_to_beat"] == "a"
    read(asked.path)


def test_a_void_look_stays_counted_and_promises_nothing(tmp_path: Path) -> None:
    asked = Gate(tmp_path / "gate.jsonl", looks=9)
    for name in ("a", "b"):
        assert asked.ask(*pair(100, 40), name=name).yes
    assert asked.void(1, "the grader timed out") == "b"
    assert asked.void(2, "and again") == "main"
    for look in (0, 1, 3):
        with pytest.raises(InvalidInput, match="not void"):
            asked.void(look, "twice")
    share = Fraction(lines(asked.path)[-1]["state"]["share"])
    assert share == Fraction(1, 720)
    told = asked.ask(*pair(100, 0), name="a")  # no repeat, and charged
    assert (told.answer, told.old, told.repeated, told.answers_left) == (
        "discard",
        "main",
        False,
        6,
    )
    read(asked.path)


def test_the_model_to_beat_changed_while_a_call_went_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, other = (Gate(tmp_path / "gate.jsonl") for _ in range(2))
    asked.ask(*pair(60, 0), name="a")
    plain = read_results

    def slow(*arguments: Any) -> Any:
        monkeypatch.setattr(module, "read_results", plain)
        other.ask(*pair(60, 30), name="b")
        return plain(*arguments)

    monkeypatch.setattr(module, "read_results", slow)
    with pytest.raises(InvalidInput, match="is b by now"):
        asked.ask(*pair(60, 30), name="c")
    assert len(read(asked.path)) == 2


def test_a_set_of_cases_is_another_only_if_it_shares_none(tmp_path: Path) -> None:
    asked = Gate(tmp_path / "gate.jsonl")
    old, new = pair(60, 20)
    asked.ask(old, new)

    def cases(*ids: int) -> Any:
        return [{f"case-{n}": 1 for n in ids}] * 2

    for wrong, said in (
        (cases(*range(1, 60)), "1 of 60 cases are missing"),
        (cases(*range(30, 90)), "30 of 60 cases are missing"),
        (cases(*range(70)), "10 cases are new"),
        (cases(*range(100, 160)), "none of the 60"),
    ):
        with pytest.raises(InvalidInput, match=said):
            asked.ask(*wrong, joined=said.startswith("30"), fresh=said.startswith(("1 ", "30")))
    joined = asked.ask(*cases(*range(70)), joined=True, name="j")
    assert "70 cases now" in joined.note
    fresh = asked.ask(*cases(*range(100, 170)), fresh=True, name="j")
    assert (fresh.repeated, asked.status()["answers"]) == (False, 1)
    with pytest.raises(InvalidInput, match="missing"):
        asked.ask(*cases(*range(60)), fresh=True)  # those of the first test set
    with pytest.raises(InvalidInput, match="of an earlier test set"):
        asked.ask(*cases(*range(100, 170), 1), joined=True)
    read(asked.path)
    listed = tmp_path / "gate.cases"
    listed.write_text(f'{{"set": 3, "ids\n{listed.read_text()}')  # a line that was torn
    assert listed.stat().st_mode & 0o777 == 0o600
    listed.unlink()
    with pytest.raises(InvalidInput, match="is not here"):
        asked.ask(*cases(*range(200, 290)), fresh=True)
    assert asked.ask(*cases(*range(100, 170))).answer == "discard"


def test_a_key_hides_what_the_ids_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Gate(tmp_path / "gate.jsonl")
    monkeypatch.setenv("METER_KEY", "secret")
    asked.ask(*pair(60, 0))
    keyed = lines(asked.path)[-1]["state"]["ids"]
    monkeypatch.delenv("METER_KEY")
    asked.ask(*pair(60, 0))  # the same cases
    assert lines(asked.path)[-1]["state"]["set"] == 1
    Gate(tmp_path / "plain.jsonl").ask(*pair(60, 0))
    assert lines(tmp_path / "plain.jsonl")[-1]["state"]["ids"] != keyed


def test_a_spent_gate_says_what_a_fresh_set_finds(tmp_path: Path) -> None:
    asked = Gate(tmp_path / "gate.jsonl", looks=1)
    asked.ask(*pair(300, 0))
    with pytest.raises(Spent, match=r"300 cases .* share\): gains of 3.7 points in 1 answer\.$"):
        asked.ask(*pair(300, 40))
    scored = Gate(tmp_path / "scores.jsonl", looks=1, scores=True)
    scored.ask(*pair(300, 0))
    with pytest.raises(Spent, match=r"starts again \(its own share\)\.$"):
        scored.ask(*pair(300, 40))


def test_too_few_cases_are_refused_before_anything_is_made(tmp_path: Path) -> None:
    asked = Gate(tmp_path / "gate.jsonl", looks=10)
    with pytest.raises(
        InvalidInput,
        match=r"^6 cases .* in 10 answers: at least 7 are needed, 60 for a gain of 20 points$",
    ):
        asked.ask(*pair(6, 6))
    with pytest.raises(InvalidInput, match=r"at least \d+ are needed$"):  # no sign test
        Gate(tmp_path / "gate.jsonl", at_least="80%").ask([1] * 6)
    assert not any(tmp_path.iterdir())
    few = Gate(tmp_path / "gate.jsonl")
    few.ask(*pair(12, 10))
    few.ask(*pair(12, 12))
    with pytest.raises(Spent, match="12 of 12 is luck once in 4,096, the level is once in 13310"):
        few.ask(*pair(12, 12))


def test_two_kinds_of_budget_do_not_share_cases(tmp_path: Path) -> None:
    Gate(tmp_path / "gate.jsonl").ask(*pair(300, 0))
    alarms = Gate(tmp_path / "alarm.jsonl", not_worse="5%", reference="prod")
    with pytest.raises(InvalidInput, match="another way"):
        alarms.ask(*pair(300, 0))
    with pytest.raises(InvalidInput, match="question"):
        Gate(tmp_path / "gate.jsonl", better_by="2%").ask(*pair(300, 0))
    hidden = Gate(tmp_path / "alarm.log", not_worse="5%", reference="prod")
    with pytest.raises(InvalidInput, match=r"ends in \.jsonl"):
        hidden.ask(*pair(300, 0))
    apart = [{f"other-{n}": 1 for n in range(300)}] * 2
    assert alarms.ask(*apart).answer == "ok"
    bad = {case: int(n > 99) for n, case in enumerate(apart[0])}
    for left in (2, 1, 0):
        told = alarms.ask(apart[0], bad)
        assert (told.answer, told.alarms_left) == ("alarm", left)
    with pytest.raises(Spent, match="third alarm"):
        alarms.ask(*apart)
    assert len(read(alarms.path)) == 4
    with pytest.raises(InvalidInput, match="the reference is prod"):
        alarms.ask(*apart, old_name="main")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"confidence": 60}, "confidence"),
        ({"confidence": "no"}, "confidence"),
        ({"looks": 0}, "looks"),
        ({"vote": True, "scores": True}, "vote"),
        ({"range": "0,10"}, "range"),
        ({"range": "10,0", "scores": True}, "range"),
        ({"cluster": "user"}, "cluster"),
        ({"not_worse": "2%"}, "reference"),
        ({"reference": "main"}, "reference"),
        ({"at_least": 0.8, "scores": True}, "at-least"),
        ({"at_least": 0.8, "better_by": 0.1}, "one of them"),
        ({"missing": "right"}, "missing"),
        ({"better_by": 2}, "better-by"),
    ],
)
def test_settings_that_make_no_sense(tmp_path: Path, given: Any, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        Gate(tmp_path / "gate.jsonl", **given).ask(*pair(60, 0))
    assert not any(tmp_path.iterdir())


def test_the_first_use_fixes_the_settings(tmp_path: Path) -> None:
    path = tmp_path / "gate.jsonl"
    Gate(path, looks=20, confidence="95%").ask(*pair(60, 0))
    for given in ({"looks": 30}, {"confidence": 0.9}, {"scores": True}, {"missing": "wrong"}):
        with pytest.raises(InvalidInput, match="was made with"):
            Gate(path, **given).ask(*pair(60, 0))
    Gate(path, looks=20).ask(*pair(60, 0))
    Gate(path, confidence=95).ask(*pair(60, 0))
    assert Gate(path).ask(*pair(60, 0)).answers_left == 16


def test_one_look_without_a_ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert gate([0] * 20, [1] * 4 + [0] * 16)
    assert not gate([0] * 20, [1] * 3 + [0] * 17)
    assert gate([0.1] * 20, [0.9] * 20, scores=True)
    with pytest.raises(InvalidInput, match="1 cases missing"):
        gate([0] * 20, [0] * 19)
    assert not any(tmp_path.iterdir())


def test_missing_cases_count_as_wrong_only_if_that_was_fixed(tmp_path: Path) -> None:
    old, new = pair(60, 30)
    short = {case: value for case, value in new.items() if case != "case-59"}
    with pytest.raises(InvalidInput, match="1 cases missing, 0 that OLD lacks"):
        Gate(tmp_path / "a.jsonl").ask(old, short)
    filled = Gate(tmp_path / "b.jsonl", missing="wrong")
    told = filled.ask(old, short)
    assert told.yes
    assert "missing" not in " ".join(told.text)
    with pytest.raises(InvalidInput, match="1 cases that OLD lacks"):
        filled.ask(short, old)
    with pytest.raises(InvalidInput, match=r"new results: 1 cases that OLD lacks$"):
        filled.ask(old, {"case-1": 1, "other": 1})  # and how many are missing is not said
    with pytest.raises(InvalidInput, match="missing"):
        Gate(tmp_path / "one.jsonl", missing="wrong", at_least="80%").ask(old)
    lower = Gate(tmp_path / "c.jsonl", missing="wrong", scores=True, lower_is_better=True)
    assert not lower.ask(dict.fromkeys(old, 0.5), dict.fromkeys(list(old)[:9], 0)).yes


def rows(path: Path, values: Mapping[str, Any], runs: int = 1, **more: Any) -> Path:
    found = [{"id": case, "score": value, **more} for case, value in values.items()] * runs
    path.write_text("\n".join(json.dumps(row) for row in found))
    return path


def test_runs_are_voted_or_averaged(tmp_path: Path) -> None:
    old, new = pair(60, 30)
    files = rows(tmp_path / "old.jsonl", old, 3), rows(tmp_path / "new.jsonl", new, 3)
    with pytest.raises(InvalidInput, match="60 ids stand there twice"):
        Gate(tmp_path / "a.jsonl").ask(*files)
    assert Gate(tmp_path / "b.jsonl", vote=True).ask(*files).yes
    assert Gate(tmp_path / "c.jsonl", scores=True).ask(*files).yes
    few = {case: new[case] for case in list(new)[1:]}  # the first is missing
    filled = Gate(tmp_path / "f.jsonl", scores=True, missing="wrong")
    assert filled.ask(files[0], rows(tmp_path / "few.jsonl", few, 3)).yes
    assert filled.ask(old, rows(tmp_path / "few.jsonl", few, 3)).yes
    assert not filled.ask(files[0], dict.fromkeys(list(new)[:9], 1)).yes
    with pytest.raises(InvalidInput, match="odd number"):
        Gate(tmp_path / "d.jsonl", vote=True).ask(rows(files[0], old, 2), files[1])
    with files[1].open("a") as file:
        file.write('\n{"id": "case-1", "score": 1}')
    with pytest.raises(InvalidInput, match="same number of runs"):
        Gate(tmp_path / "e.jsonl", scores=True).ask(*files)


def test_cases_of_a_cluster_are_one_factor(tmp_path: Path) -> None:
    old, new = pair(60, 60)
    apart = [{"id": case, "score": 0, "user": f"u{n}"} for n, case in enumerate(old)]
    alike = [{**row, "user": "the same"} for row in apart]
    winner = rows(tmp_path / "new.jsonl", new)
    for name, content in (("apart", apart), ("alike", alike)):
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
    clusters = Gate(tmp_path / "a.jsonl", scores=True, cluster="user")
    assert clusters.ask(tmp_path / "apart.json", winner).yes
    with pytest.raises(InvalidInput, match="cannot show anything"):  # one factor
        Gate(tmp_path / "b.jsonl", scores=True, cluster="user").ask(tmp_path / "alike.json", winner)


def test_a_sealed_gate_charges_whatever_is_wrong_with_the_new_results(tmp_path: Path) -> None:
    old, _ = pair(60, 30)
    asked = Gate(tmp_path / "gate.jsonl", sealed=True, not_worse="40%", reference="main")
    assert asked.ask(dict.fromkeys(old, 0), dict.fromkeys(old, 0)).answer == "ok"
    # Nothing was read of it, and all wrong would be as good as OLD.
    assert asked.ask(dict.fromkeys(old, 0), {}).answer == "alarm"
    with pytest.raises(InvalidInput, match="old results"):  # what is wrong with OLD is nobody's
        asked.ask({}, old)
    one = Gate(tmp_path / "one.jsonl", sealed=True, at_least="10%")
    with pytest.raises(InvalidInput, match="no case is known"):
        one.ask(tmp_path / "absent.json")
    assert one.ask({f"one-{n}": 1 for n in range(60)}).answer == "keep"
    for wrong in ({}, {"x": 1}, {f"one-{n}": 1 for n in range(59)}):
        assert one.ask(wrong).answer == "discard"
    read(one.path)


def test_a_look_imports_nothing_heavy() -> None:
    code = (
        "import sys, tempfile; from easeml_meter import Gate, gate\n"
        "Gate(tempfile.mkdtemp() + '/gate.jsonl').ask([0] * 20, [1] * 20); gate([0], [1])\n"
        "heavy = {'numpy', 'pyarrow', 'sqlalchemy', 'rich', 'httpx', 'click'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
        "assert 'easeml_meter.report.looks' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "CI": ""})
