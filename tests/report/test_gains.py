"""The words of what a gate finds: rounded up, and with a dash where it finds nothing."""

from __future__ import annotations

from fractions import Fraction

import pytest

from easeml_meter.promise.gains import Need, Noise, Reach, reaches
from easeml_meter.report.gains import (
    gate_beside,
    need_lines,
    noise_lines,
    points,
    reach_json,
    reach_lines,
)
from easeml_meter.spec import MeterSpec

TENTH = Fraction(1, 10)


@pytest.mark.parametrize(
    ("gain", "written"),
    [(0.0639, "6.4"), (0.064, "6.4"), (0.06401, "6.5"), (0.3, "30.0"), (None, "-"), (1e-4, "0.1")],
)
def test_points_are_rounded_up(gain: float | None, written: str) -> None:
    assert points(gain) == written


def test_a_table_of_what_cases_find() -> None:
    rows = [
        Reach(1, 0.036, None, 887),
        Reach(20, 0.0639, 0.0867, 1_846),
        Reach(None, None, None, None),
    ]
    heading, *lines = reach_lines(300, TENTH, rows)
    assert heading.endswith("4 times in 5 where 2 % of the cases get worse:")
    assert [" ".join(line.split()) for line in lines] == [
        "answers first keep a second at once half of the first takes",
        "one, ever 3.6 points - 887 cases",
        "20 6.4 points 8.7 1,846 cases",
        "no end - - -",
    ]
    assert reach_json(rows)[1] == {"answers": 20, "first": 0.064, "second": 0.087, "half": 1_846}


def test_few_cases_are_told_the_wins_of_a_keep() -> None:
    assert len(reach_lines(50, TENTH, reaches(50, TENTH))) == 7
    assert reach_lines(49, TENTH, reaches(49, TENTH))[-2:] == [
        "  In 10 answers a gain of 5 points takes 376 cases. A change is kept if it",
        "  wins, for example, 7 disputed cases and loses none.",
    ]
    assert "In one answer a gain" in reach_lines(5, TENTH, reaches(5, TENTH, 1))[-2]


def test_what_a_gain_takes() -> None:
    lines = need_lines(0.05, [Need(1, 188, None), Need(None, 1_381, 2_569)])
    assert lines[0].startswith("A gain of 5 points, kept 4 times in 5")
    assert [" ".join(line.split()) for line in lines[2:]] == [
        "one, ever 188 cases -",
        "no end 1,381 cases 2,569",
    ]


def test_another_plan_has_a_gate_where_there_is_one() -> None:
    spec = MeterSpec.uniform(tolerance=0.1, delta=0.1)
    assert [row.answers for row in gate_beside(spec, 300)] == [1, 10, 20, 100, None]
    assert gate_beside(spec, 7)
    assert gate_beside(spec.replace(delta=0.25), 300)
    for other in (
        gate_beside(spec, 6),
        gate_beside(spec, 100_001),
        gate_beside(spec.replace(delta=0.26), 300),
        gate_beside(spec.replace(loss="brier"), 300),
        gate_beside(spec.replace(clusters=True), 300),
    ):
        assert other == []


def test_noise_in_words() -> None:
    said = noise_lines(Noise(100, 2, 27), 100, 20, TENTH)
    assert " ".join(" ".join(said).split()) == (
        "Unchanged, 27 of 100 cases flip between two runs (18.6 to 36.9 %, 95 % sure). Luck moves "
        "the score by 10.2 points (95 %). Keeping what scores higher keeps an unchanged system 46 "
        "times in 100; the gate at most once in 200. Least gain found 4 times in 5 with 100 cases "
        "and 20 answers: 26.1 points; with the vote of 3 runs a case 19.6, of 5 runs 17.8; if "
        "nothing flipped 14.5. Figures to plan with, no promise. Run visible cases only: which "
        "hidden ones flip would be one more answer."
    )
    said = noise_lines(Noise(3, 3, 4 / 3), 300, 100, TENTH)
    assert said[0].startswith("Unchanged, 1.3 of 3 cases flip between two runs, on average over")
    assert "with 300 cases and 100 answers: " in said[2]
    assert "at most once in 1,000." in said[1]
