"""The gate on two result files: its decisions, its ledger, and what cannot be got out of it.

Mutants that were tried by hand, and what catches each. D - a, 1.5 a or 2 a after a keep, a share
that never moves, free discards, discards never reset, 10 or 21 + since: the vectors and `read`.
k, w or a p-value in ledger or JSON, ids in the ledger: `two_worlds`. A repeat of a discard that
exits with 0: `cli/test_gate.py`. No lock: `eight_processes`. No fsync: `both_writes_are_synced`.
No check of the chain: `an_edited_line`.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from fractions import Fraction
from math import comb
from pathlib import Path
from typing import Any

import pytest

from easeml_meter.client import gate as module
from easeml_meter.client.gate import Answer, BrokenLedger, Gate, gate
from easeml_meter.client.results import read_results
from easeml_meter.errors import InvalidInput, Spent

VECTORS = json.loads(Path("tests/data/vectors.json").read_text())["cases"]
Results = dict[str, Any]


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("METER_KEY", raising=False)


def pair(cases: int, wins: int, losses: int = 0) -> tuple[Results, Results]:
    """Results of two systems of which the new one wins and loses so many cases."""
    old = {f"case-{n}": int(not n < wins) for n in range(cases)}
    new = {f"case-{n}": int(not wins <= n < wins + losses) for n in range(cases)}
    return old, new


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def read(path: Path) -> list[tuple[str, Fraction, Fraction]]:
    """Read a ledger with fractions alone: each look's answer, share and level, as they must be."""
    first, *rest = lines(path)
    settings = first["settings"]
    delta, looks = Fraction(settings["delta"]), settings["looks"]
    usual = settings["question"] == "not-worse"
    share, asked, since, rung, beat = delta, 0, 0, list[int](), first["state"]["incumbent"]
    found, keeps, void = list[tuple[str, Fraction, Fraction]](), list[tuple[int, str]](), set[int]()
    for line in rest:
        if "look" in line:
            if usual:
                level = delta * [Fraction(1, 2), Fraction(1, 4), Fraction(1, 4)][len(rung)]
                for before, at in zip([0, *rung], rung, strict=False):
                    u = at - before
                    level *= 1 if looks else Fraction(10, (9 + u) * (10 + u))
                level /= comb(looks - 1, len(rung)) if looks else 1
            else:
                level = share / (looks - asked if looks else 11 + since)
            found.append((line["answer"], share, level))
            assert (Fraction(line["share"]), Fraction(line["level"])) == (share, level)
            asked += 1
            yes = line["answer"] in ("keep", "ok")
            if usual:
                rung += [] if yes else [asked]
            else:
                share, since = (level, 0) if yes else (share - level, since + 1)
            if yes and line["old"] == beat and not usual:
                beat = line["new"]
                keeps.append((line["look"], beat))
        elif "void" in line:
            void.add(line["void"])
            left = [new for look, new in keeps if look not in void]
            beat = left[-1] if left else first["state"]["incumbent"]
        elif not line["joined"]:
            share, asked, since, rung = delta, 0, 0, []
        state = line["state"]
        assert (Fraction(state["share"]), state["asked"], state["rung"]) == (share, asked, rung)
        assert state["incumbent"] == beat
    assert Gate(path).audit() == len(found)
    return found


# --- the vectors ----------------------------------------------------------------------------------


def case_id(case: Any) -> str:
    return str(case["name"])


@pytest.mark.parametrize(
    "case", [each for each in VECTORS if each["mechanism"] == "gate"], ids=case_id
)
def test_a_loop_goes_as_the_vectors_say(tmp_path: Path, case: Any) -> None:
    settings, path = case["settings"], tmp_path / "gate.jsonl"
    n = settings["n"]
    asked = Gate(path, looks=settings["schedule"].get("looks"), confidence=sure(settings["delta"]))
    for step in case["steps"]:
        if "event" in step:
            asked.void(step["voided"], "broken")
            continue
        told = asked.ask(*pair(n, step["w"], step["k"] - step["w"]))
        assert told.answer == step["answer"]
        line = lines(path)[-1]
        assert (line["share"], line["level"]) == tuple(
            str(Fraction(step[name])) for name in ("share", "level")
        )
        assert Fraction(line["state"]["share"]) == Fraction(step["share_after"])
    if case["end"] == "spent":
        with pytest.raises(Spent if case["steps"] else InvalidInput):
            asked.ask(*pair(n, n))
    if case["steps"]:
        assert len(read(path)) == sum("event" not in step for step in case["steps"])
    else:
        assert not any(tmp_path.iterdir())  # a refusal makes no file


def sure(delta: str | Fraction) -> Fraction:
    return 1 - Fraction(delta)


@pytest.mark.parametrize(
    "case",
    [each for each in VECTORS if each["mechanism"] in ("not_worse", "at_least", "bar")],
    ids=case_id,
)
def test_margins_and_bars_go_as_the_vectors_say(tmp_path: Path, case: Any) -> None:
    settings, kind = case["settings"], case["mechanism"]
    level, n = Fraction(settings["level"]), settings["n"]
    for number, step in enumerate(case["steps"]):
        path = tmp_path / f"{number}.jsonl"
        if kind == "bar":
            asked = Gate(path, looks=1, confidence=sure(level), at_least=Fraction(settings["bar"]))
            files: Any = (pair(n, 0, n - step["right"])[1],)
        else:
            files = pair(n, step["w"], step["k"] - step["w"])
            c = Fraction(settings["c"])
            asked = Gate(path, looks=1, confidence=sure(level), better_by=c)
            if kind == "not_worse":  # the first alarm has half of delta
                asked = Gate(
                    path, looks=1, confidence=sure(2 * level), not_worse=c, reference="main"
                )
        if "cannot" in case["name"]:
            with pytest.raises(InvalidInput, match="cannot show anything"):
                asked.ask(*files)
            assert step["answer"] == "no"
            continue
        told = asked.ask(*files)
        assert told.yes == (step["answer"] == "yes")
        read(path)


@pytest.mark.parametrize(
    "case",
    [each for each in VECTORS if each["mechanism"] == "bet" and each["settings"]["n"] > 1],
    ids=case_id,
)
@pytest.mark.parametrize("lower", [False, True])
def test_bets_go_as_the_vectors_say(tmp_path: Path, case: Any, lower: bool) -> None:
    settings = case["settings"]
    level, margin = Fraction(settings["level"]), Fraction(settings["margin"])
    usual = {"not_worse": -margin, "reference": "main"} if margin < 0 else {}
    asked = Gate(
        tmp_path / "gate.jsonl",
        looks=1,
        confidence=sure(2 * level if margin < 0 else level),
        scores=True,
        range=(-10, 10),
        better_by=margin if margin > 0 else None,
        lower_is_better=lower,
        **usual,  # type: ignore[arg-type]
    )
    gains = [float(Fraction(each) * 10) for each in case["differences"]]
    old = {str(n): -gain if not lower else gain for n, gain in enumerate(gains)}
    told = asked.ask(old, {case: -value for case, value in old.items()})
    assert told.yes == (case["steps"][0]["answer"] == "yes")
    read(tmp_path / "gate.jsonl")


def test_the_vectors_of_two_files_are_45() -> None:
    kinds = [each for each in VECTORS if each["mechanism"] != "alarm"]
    assert len([each for each in kinds if Fraction(each["settings"].get("level", 0)) <= 0.25]) == 45


@pytest.mark.parametrize("looks", [None, 20])
def test_every_look_at_its_bar_and_one_win_below(tmp_path: Path, looks: int | None) -> None:
    path = tmp_path / "gate.jsonl"
    asked = Gate(path, looks=looks)
    for k in (30, 50, 21):
        below = asked.ask(*pair(200, 1, 1))
        (wins, of), *_ = [each for each in below.needs if each[1] == 40]
        assert asked.ask(*pair(200, wins - 1, of - wins + 1)).answer == "discard"
        level = Fraction(lines(path)[-1]["state"]["share"]) / (
            looks - asked.status()["answers"] if looks else 11 + lines(path)[-1]["state"]["since"]
        )
        least = next(w for w in range(k + 1) if tail(k, w) <= level)
        assert asked.ask(*pair(200, least, k - least)).answer == "keep"
    assert len(read(path)) == 9


def tail(k: int, w: int) -> Fraction:
    return Fraction(sum(comb(k, j) for j in range(w, k + 1)), 2**k)


# --- names, repeats, voids ------------------------------------------------------------------------


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


# --- sets of cases --------------------------------------------------------------------------------


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


def test_too_few_cases_are_refused_before_anything_is_made(tmp_path: Path) -> None:
    asked = Gate(tmp_path / "gate.jsonl", looks=10)
    with pytest.raises(
        InvalidInput, match="6 cases cannot show anything in 10 answers: at least 7"
    ):
        asked.ask(*pair(6, 6))
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


# --- settings ---------------------------------------------------------------------------------


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
    with pytest.raises(InvalidInput, match="1 that OLD lacks"):
        filled.ask(short, old)
    lower = Gate(tmp_path / "c.jsonl", missing="wrong", scores=True, lower_is_better=True)
    assert not lower.ask(dict.fromkeys(old, 0.5), dict.fromkeys(list(old)[:9], 0)).yes


# --- runs, scores, clusters -------------------------------------------------------------------


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


def test_a_range_whose_floats_cancel(tmp_path: Path) -> None:
    gains = [Fraction(1, 10)] * 60
    asked = Gate(tmp_path / "gate.jsonl", scores=True, range="1000000,1000001")
    told = asked.ask([1000000.1] * 60, [float(1000000 + Fraction(1, 10) + g) for g in gains])
    plain = Gate(tmp_path / "plain.jsonl", scores=True).ask([0.1] * 60, [0.2] * 60)
    assert told.answer == plain.answer


# --- secrecy ----------------------------------------------------------------------------------


def world(folder: Path, seed: int, *, sealed: bool) -> tuple[list[Answer], dict[str, bytes]]:
    """Run a loop whose bits are fixed, and whose rows are not."""
    folder.mkdir()
    draw = random.Random(seed)  # noqa: S311
    asked = Gate(folder / "gate.jsonl", sealed=sealed)
    told = []
    for number, bit in enumerate((0, 1, 0, 0, 1, 0)):
        losses = draw.randrange(5)
        wins = draw.randrange(60, 90) if bit else draw.randrange(losses + 3)
        old, new = pair(200, wins, losses)
        mixed = [dict(draw.sample(list(each.items()), len(each))) for each in (old, new)]
        results: Any = mixed[1]
        if sealed and not bit and seed:
            broken = [{**results, "case-0": "?"}, {}, {"x": 1}, dict(list(results.items())[:9])]
            results = draw.choice([*broken, folder / "absent.json"])
        told.append(asked.ask(mixed[0], results, name=f"m{number}"))
    return told, {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("sealed", [False, True])
def test_two_worlds_with_the_same_bits_look_the_same(tmp_path: Path, sealed: bool) -> None:
    told, files = world(tmp_path / "0", 0, sealed=sealed)
    assert [each.yes for each in told] == [False, True, False, False, True, False]
    assert set(files) == {"gate.jsonl", "gate.cases"}
    assert b"case-" not in files["gate.jsonl"]
    shown = [repr(each).replace(str(tmp_path / "0"), "") for each in told]
    for seed in (1, 2, 3):
        others, same = world(tmp_path / str(seed), seed, sealed=sealed)
        assert [repr(each).replace(str(tmp_path / str(seed)), "") for each in others] == shown
        assert same == files


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


# --- durability -------------------------------------------------------------------------------


def test_both_writes_are_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    plain = os.fsync
    path = tmp_path / "gate.jsonl"

    def sync(handle: int) -> None:
        synced.append(path.read_text().rsplit("\n", 1)[-1] if path.exists() else "")
        plain(handle)

    monkeypatch.setattr(os, "fsync", sync)
    Gate(path).ask(*pair(60, 0))
    synced.clear()
    Gate(path).ask(*pair(60, 0))
    assert [text.startswith('{"look": 2') for text in synced] == [True, False]


def test_a_ledger_cut_anywhere_loses_no_look(tmp_path: Path) -> None:
    path = tmp_path / "gate.jsonl"
    Gate(path).ask(*pair(60, 0), name="a")
    before = path.read_bytes()
    Gate(path).ask(*pair(60, 30), name="b")
    after = path.read_bytes()
    staked = after.index(b', "answer": "keep"')
    path.write_bytes(before + b'{"look": 2, "new": "' + b"x" * 2000)
    assert Gate(path).ask(*pair(60, 30), name="b").look == 2
    assert path.read_bytes() == after
    for size in range(len(before), len(after) + 1, 3):
        path.write_bytes(after[:size])
        told = Gate(path).ask(*pair(60, 0), name="c")  # another one comes first
        charged = staked <= size
        assert (told.look, told.answer) == (3 if charged else 2, "discard")
        looks = [each["new"] for each in lines(path) if "look" in each]
        assert looks == (["a", "b", "c"] if charged else ["a", "c"])
        read(path)
        path.write_bytes(after[:size])
        assert Gate(path).status()["answers"] == (2 if charged else 1)
        told = Gate(path).ask(*pair(60, 30), name="b")  # the same comes again
        assert (told.look, told.answer, told.repeated) == (2, "keep", size == len(after))
        assert path.read_bytes() == after


KILLED = """
import os, signal, sys
from easeml_meter.client import gate
name, where = sys.argv[1:]
real = getattr(gate, where, None) or getattr(gate.Ledger, where)
def kill(*given, **named):
    if where == "write":
        real(*given)
    os.kill(os.getpid(), signal.SIGKILL)
setattr(gate if hasattr(gate, where) else gate.Ledger, where, kill)
gate.Gate("gate.jsonl").ask([0] * 60, [1] * 30 + [0] * 30, name=name)
"""


@pytest.mark.slow
@pytest.mark.parametrize("where", ["decide", "write", "answer", "_answer", "_digest_of"])
def test_a_process_that_is_killed_used_its_look_once(tmp_path: Path, where: str) -> None:
    Gate(tmp_path / "gate.jsonl").ask([0] * 60, [0] * 60, name="first")
    for name in ("a", "a", "b"):
        done = subprocess.run(
            [sys.executable, "-c", KILLED, name, where], cwd=tmp_path, check=False
        )
        assert done.returncode == -signal.SIGKILL
    asked = Gate(tmp_path / "gate.jsonl")
    for name in ("a", "b", "a"):
        asked.ask([0] * 60, [1] * 30 + [0] * 30, name=name)
    names = [each["new"] for each in lines(asked.path) if "look" in each]
    assert sorted(names) == ["a", "b", "first"]
    read(asked.path)


MANY = """
import sys
from easeml_meter.client.gate import Gate
for number in range(6):
    Gate("gate.jsonl").ask([0] * 60, [0] * 60, name=f"{sys.argv[1]}-{number}")
    Gate("gate.jsonl").ask([0] * 60, [0] * 60, name=f"common-{number}")
"""


@pytest.mark.slow
def test_eight_processes_at_once_lose_and_double_no_look(tmp_path: Path) -> None:
    started = [
        subprocess.Popen([sys.executable, "-c", MANY, str(number)], cwd=tmp_path)
        for number in range(8)
    ]
    assert [each.wait(60) for each in started] == [0] * 8
    names = [each["new"] for each in lines(tmp_path / "gate.jsonl") if "look" in each]
    assert len(names) == len(set(names)) == 8 * 6 + 6
    read(tmp_path / "gate.jsonl")
    assert {path.name for path in tmp_path.iterdir()} == {"gate.jsonl", "gate.cases"}


def test_an_edited_line_a_fork_and_a_cut_are_named(tmp_path: Path) -> None:
    path = tmp_path / "gate.jsonl"
    asked = Gate(path)
    heads = [asked.ask(*pair(60, 0), name=f"m{n}").head for n in range(4)]
    text = path.read_text()
    assert Gate(path).audit(heads[2]) == 4
    path.write_bytes(text.replace("\n", "\r\n").encode())  # a checkout of Windows
    assert Gate(path).audit() == 4
    written = text.splitlines()

    def broken(*changed: str) -> str:
        path.write_text("".join(f"{line}\n" for line in changed))
        with pytest.raises(BrokenLedger) as error:
            Gate(path).audit(heads[3])
        return str(error.value)

    edited = [*written[:3], written[3].replace('"discard"', '"keep"'), *written[4:]]
    assert "line 4" in broken(*edited)
    assert "line 4" in broken(*written[:3], *written[4:])  # one look is gone
    assert "line 7" in broken(*written, written[4])  # of another branch
    assert "no line" in broken(*written[:-1])  # cut: the rest follows
    forged = {**json.loads(written[-1]), "level": "1/2"}  # with a digest that fits
    forged["digest"] = module.digest(forged)
    assert "(level)" in broken(*written[:-1], json.dumps(forged))
    forged = {**json.loads(written[-1]), "share": "1/2"}
    forged["digest"] = module.digest(forged)
    assert "(share)" in broken(*written[:-1], json.dumps(forged))
    forged = {**json.loads(written[3]), "new": "m9"}
    forged["digest"] = module.digest(forged)
    assert "line 5" in broken(*written[:3], json.dumps(forged), *written[4:])
    path.write_text(text.replace('"delta": "1/10"', '"delta": "1/4"'))
    with pytest.raises(BrokenLedger, match="line 1 was changed"):
        asked.ask(*pair(60, 0))
    path.write_text(text[:-2] + "\n")
    with pytest.raises(BrokenLedger, match="line 6 was changed"):
        asked.ask(*pair(60, 0))
    path.write_text(text.replace('"m3"', '"m9"'))
    with pytest.raises(BrokenLedger, match="line 6 was changed"):
        asked.ask(*pair(60, 0))


def test_git_merges_no_ledger_and_ignores_the_ids(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".gitignore").write_text("*.pyc")
    Gate(tmp_path / "gate.jsonl").ask(*pair(60, 0))
    assert (tmp_path / ".gitignore").read_text() == "*.pyc\ngate.cases\n"
    assert (tmp_path / ".gitattributes").read_text() == "gate.jsonl merge=binary -text\n"


# --- first contact ----------------------------------------------------------------------------


def test_a_look_imports_nothing_heavy() -> None:
    code = (
        "import sys, tempfile; from easeml_meter import Gate, gate\n"
        "Gate(tempfile.mkdtemp() + '/gate.jsonl').ask([0] * 20, [1] * 20); gate([0], [1])\n"
        "heavy = {'numpy', 'pyarrow', 'sqlalchemy', 'rich', 'httpx', 'click'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
        "assert 'easeml_meter.report.looks' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "CI": ""})


def test_the_thousandth_look_takes_no_longer(tmp_path: Path) -> None:
    asked = Gate(tmp_path / "gate.jsonl")
    asked.ask(*pair(60, 0), name="first")
    ledger = module.Ledger(asked.path)
    text = bytearray(ledger.text)
    for number in range(2_000):  # as a loop writes them
        look = {"look": number + 2, "new": f"m{number}", "old": "main", "by_hand": False}
        state = ledger.state.after(ledger.settings, look, yes=False)
        level = str(ledger.state.level(ledger.settings))
        text += ledger.line(
            {**look, "share": str(ledger.state.share), "level": level, "answer": "discard"}, state
        )
    asked.path.write_bytes(text)
    began = time.perf_counter()
    assert asked.ask(*pair(60, 0), name="last").look == 2_002
    assert time.perf_counter() - began < 0.5
    assert asked.audit() == 2_002
