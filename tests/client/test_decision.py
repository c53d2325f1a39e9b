"""What a look decides: the vectors, and every bar at its edge."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from tests.client.loops import lines, pair, read, sure, tail

from easeml_meter.client.gate import Gate
from easeml_meter.errors import InvalidInput, Spent

VECTORS = json.loads(Path("tests/data/vectors.json").read_text())["cases"]


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


def test_a_range_whose_floats_cancel(tmp_path: Path) -> None:
    gains = [Fraction(1, 10)] * 60
    asked = Gate(tmp_path / "gate.jsonl", scores=True, range="1000000,1000001")
    told = asked.ask([1000000.1] * 60, [float(1000000 + Fraction(1, 10) + g) for g in gains])
    plain = Gate(tmp_path / "plain.jsonl", scores=True).ask([0.1] * 60, [0.2] * 60)
    assert told.answer == plain.answer
