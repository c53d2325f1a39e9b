"""What a gate finds, in words: for the planner, its page, and noise between two runs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from fractions import Fraction

from easeml_meter.errors import InvalidInput
from easeml_meter.promise.gains import (
    LOSSES,
    POWER,
    Need,
    Noise,
    Reach,
    cases_for,
    fewest_cases,
    least_gain,
    levels,
    reaches,
)
from easeml_meter.spec import MeterSpec

HEADING = (
    "Keep or discard (meter gate), the least gain kept 4 times in 5 where 2 % of the cases get "
    "worse:"
)
_FEW = 50
"""Below so many cases the plan says how many wins a keep takes."""
_MOST_BESIDE = 100_000
"""Of more labels, another plan does not say what a gate finds: that would take a while."""
_STEP = 0.05
"""What people hope for."""
_RUNS = (1, 3, 5)


def points(gain: float | None, digits: int = 1) -> str:
    """Write a gain in points, rounded up; a dash if there is none."""
    if gain is None:
        return "-"
    return f"{math.ceil(round(100 * gain * 10**digits, 6)) / 10**digits:.{digits}f}"


def answers_words(answers: int | None) -> str:
    """Name the first column of a plan."""
    return "no end" if answers is None else "one, ever" if answers == 1 else f"{answers:,}"


def _counted(cases: int | None) -> str:
    return "-" if cases is None else f"{cases:,}"


def reach_rows(rows: Sequence[Reach]) -> list[tuple[str, str, str, str]]:
    """Return a table of what so many cases find, with its heading."""
    heading = ("answers", "first keep", "a second at once", "half of the first takes")
    return [heading] + [
        (
            answers_words(row.answers),
            f"{points(row.first)} points" if row.first else "-",
            points(row.second),
            f"{_counted(row.half)} cases" if row.half else "-",
        )
        for row in rows
    ]


def need_lines(gain: float, needs: Sequence[Need]) -> list[str]:
    """Say what cases a gain takes."""
    said = f"A gain of {100 * gain:g} points, kept 4 times in 5 where 2 % of the cases get worse:"
    rows = [("answers", "first keep", "a second at once")] + [
        (answers_words(row.answers), f"{_counted(row.first)} cases", _counted(row.second))
        for row in needs
    ]
    return [said, *table(rows)]


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Align the columns of a table."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  " + "  ".join(map(str.ljust, row, widths)).rstrip()  # as the other ways of a plan
        for row in rows
    ]


def reach_lines(cases: int, delta: Fraction, rows: Sequence[Reach]) -> list[str]:
    """Say what cases find; of few, also what a keep takes."""
    lines = [HEADING, *table(reach_rows(rows))]
    if cases < _FEW:
        answers = rows[min(1, len(rows) - 1)].answers
        level = levels(delta, answers)[0]
        said = "one answer" if answers == 1 else f"{answers:,} answers"
        lines += [
            f"  In {said} a gain of 5 points takes {_counted(cases_for(_STEP, level))} cases. A "
            f"change is kept if it",
            f"  wins, for example, {fewest_cases(level)} disputed cases and loses none.",
        ]
    return lines


def gate_beside(spec: MeterSpec, labels: int) -> list[Reach]:
    """Plan what a gate finds with the labels of another plan; nothing where there is no gate."""
    if (
        labels > _MOST_BESIDE
        or not spec.meter.sample.zero_one
        or spec.meter.sample.parts is not None
    ):
        return []
    try:
        return reaches(labels, spec.meter.delta)
    except InvalidInput:  # so few labels find nothing, or so large a delta is no gate's
        return []


def reach_json(rows: Sequence[Reach]) -> list[dict[str, object]]:
    """Return what so many cases find for programs: gains rounded up to a tenth of a point."""

    def share(gain: float | None) -> float | None:
        return None if gain is None else round(float(points(gain)) / 100, 3)

    return [{**asdict(row), "first": share(row.first), "second": share(row.second)} for row in rows]


def conditions() -> dict[str, float]:
    """Return what a plan of a gate rests on, for programs."""
    return {"losses": LOSSES, "power": POWER}


def noise_lines(noise: Noise, cases: int, answers: int, delta: Fraction) -> list[str]:
    """Say what flips, what luck does, and what a gate finds all the same."""
    level = levels(delta, answers)[0]
    flips = f"{noise.flips:.1f}".removesuffix(".0")
    pairs = f", on average over the pairs of {noise.runs} runs" if noise.runs > 2 else ""
    low, high = (round(1000 * end, 6) for end in noise.interval)
    once, three, five = (points(noise.least_gain(cases, level, runs)) for runs in _RUNS)
    still = points(least_gain(cases, level))
    return [
        f"Unchanged, {flips} of {noise.cases:,} cases flip between two runs{pairs} "
        f"({math.floor(low) / 10:g} to {math.ceil(high) / 10:g} %, 95 % sure).",
        f"Luck moves the score by {100 * noise.luck:.1f} points (95 %). Keeping what scores higher "
        f"keeps an unchanged\nsystem {100 * noise.greedy:.0f} times in 100; the gate at most once "
        f"in {math.floor(1 / level):,}.",
        f"Least gain found 4 times in 5 with {cases:,} cases and {answers:,} answers: {once} "
        f"points; with the vote of 3 runs\na case {three}, of 5 runs {five}; if nothing flipped "
        f"{still}.",
        "Figures to plan with, no promise. Run visible cases only: which hidden ones flip would be "
        "one more answer.",
    ]


def noise_json(noise: Noise, cases: int, answers: int, delta: Fraction) -> dict[str, object]:
    """Return it for programs."""
    level = levels(delta, answers)[0]
    return {
        "cases": noise.cases,
        "runs": noise.runs,
        "flips": noise.flips,
        "interval": noise.interval,
        "luck": noise.luck,
        "greedy": noise.greedy,
        "labels": cases,
        "steps": answers,
        "delta": float(delta),
        "least_gain": {runs: noise.least_gain(cases, level, runs) for runs in _RUNS},
        "least_gain_without_flips": least_gain(cases, level),
    }
