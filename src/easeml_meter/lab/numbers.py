"""Every number printed in the paper's text, and how to compute it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from easeml_meter.core.questions.planning import required_labels
from easeml_meter.lab.curves import (
    ALL_METERS,
    DELTAS,
    HEADLINE,
    IDEAL,
    INCREMENTAL,
    INCREMENTAL_NONUNIFORM,
    REGULAR,
    REGULAR_NONUNIFORM,
    REGULAR_TENANTS,
    REGULAR_TRAVEL,
    RESAMPLING,
    Case,
    Curve,
    CurveForm,
    labels,
    ratio,
    spec_of,
)
from easeml_meter.lab.paper import Number, PrintedNumber, compare
from easeml_meter.lab.trees import tree
from easeml_meter.spec import Protocol


def case_ratios(form: CurveForm, pairs: Sequence[tuple[Curve, Curve]]) -> list[float]:
    """Return the ratios of pairs of meters over the reliabilities of the case study (T = 8)."""
    return [ratio(a, b, Case(8, delta), form) for delta in DELTAS for a, b in pairs]


METERS_OF_THE_CASE = [
    (RESAMPLING, meter) for meter in ALL_METERS if meter not in (RESAMPLING, IDEAL)
]
INCREMENTAL_OVER_REGULAR = [
    (REGULAR, INCREMENTAL),
    (REGULAR_NONUNIFORM, INCREMENTAL_NONUNIFORM),
]


def _bound_on_improvement(form: CurveForm) -> float:
    """Return 1 + ln m / ln(2/delta), or what distinct models leave of it: nothing."""
    if form is CurveForm.TIGHTENED:
        return max(ratio(REGULAR, REGULAR_NONUNIFORM, Case(t), form) for t in (1, 10, 100))
    return 1 + math.log(HEADLINE.signals) / math.log(2 / HEADLINE.delta)


def _at(meter: Curve, setting: Case = HEADLINE) -> Callable[[CurveForm], float]:
    return lambda form: labels(meter, setting, form)


def _over(
    first: Curve, second: Curve, setting: Case = HEADLINE, other: Case | None = None
) -> Callable[[CurveForm], float]:
    return lambda form: labels(first, setting, form) / labels(second, other or setting, form)


def _nodes(level: int) -> Callable[[CurveForm], float]:
    return lambda _: len(tree(2, 2, Protocol.REGULAR).at_level(level))


def _note_tenants() -> str:
    uniform = spec_of(REGULAR_TENANTS, HEADLINE).with_tolerances([HEADLINE.tolerance] * 5)
    size = required_labels(uniform).labels
    factor = labels(REGULAR_NONUNIFORM, HEADLINE) / size
    return (
        f"the uniform meter with two tenants gives {size:,} ({factor:.2f}x): "
        "every signal counted at the smallest tolerance"
    )


def _note_travel() -> str:
    without = labels(REGULAR_NONUNIFORM, HEADLINE)
    return f"{without:,} / {labels(REGULAR_TRAVEL, Case(10, reverts=10)):,}"


def _note_from_printed() -> str:
    return f"from the printed numbers, 380/66 = {380 / 66:.2f}; from the formulas themselves, less"


def _note_lower_end() -> str:
    by_delta = {
        delta: ratio(REGULAR, INCREMENTAL, Case(8, delta)) for delta in (DELTAS[0], DELTAS[-1])
    }
    first, last = by_delta.values()
    return f"uniform meters: {first:.2f}x at delta = 0.1, but {last:.2f}x at delta = 0.01"


def _note_bound() -> str:
    found = {t: ratio(REGULAR, REGULAR_NONUNIFORM, Case(t)) for t in (1, 10, 100)}
    return "reached at T = 1 only: " + ", ".join(f"{r:.2f}x at T = {t}" for t, r in found.items())


NUMBERS = (
    Number(
        "185",
        "one model, eps = 0.1, delta = 0.05",
        ("A.2.1",),
        _at(IDEAL, Case(1, 0.05, 0.1)),
    ),
    Number("26,492", "one model, eps = delta = 0.01", ("A.2.1",), _at(IDEAL, Case(1))),
    Number("38K", "no adaptivity", ("4.1", "A.2.2"), _at(IDEAL)),
    Number("380K", "resampling", ("4.1", "4.3", "4.4", "A.2.3"), _at(RESAMPLING)),
    Number("108K", "regular meter", ("4.3", "5.1"), _at(REGULAR)),
    Number("3.5x", "resampling / regular", ("4.3",), _over(RESAMPLING, REGULAR)),
    Number("66K", "incremental meter", ("4.4", "5.1"), _at(INCREMENTAL)),
    Number(
        "5.8x",
        "resampling / incremental",
        ("4.4",),
        _over(RESAMPLING, INCREMENTAL),
        note=_note_from_printed,
    ),
    Number("100K", "regular, nonuniform", ("5.1", "5.2", "5.3"), _at(REGULAR_NONUNIFORM)),
    Number(
        "1.3x",
        "most that nonuniform tolerances improve a regular meter, 1 + ln m / ln(2/delta)",
        ("5.1",),
        _bound_on_improvement,
        note=_note_bound,
    ),
    Number("38K", "incremental, nonuniform", ("5.1",), _at(INCREMENTAL_NONUNIFORM)),
    Number(
        "1.75x",
        "incremental, uniform / nonuniform",
        ("5.1",),
        _over(INCREMENTAL, INCREMENTAL_NONUNIFORM),
    ),
    Number("71K", "regular, two tenants", ("5.2",), _at(REGULAR_TENANTS), note=_note_tenants),
    Number(
        "1.4x",
        "regular, one tenant / two",
        ("5.2",),
        _over(REGULAR_NONUNIFORM, REGULAR_TENANTS),
        note=_note_tenants,
    ),
    Number(
        "2x",
        "regular, one tenant / two, as T grows (computed at T = 100,000)",
        ("5.2",),
        _over(REGULAR_NONUNIFORM, REGULAR_TENANTS, Case(100_000)),
    ),
    Number(
        "2x",
        'regular, one tenant / two, "roughly", in Figure 11 (computed at its right end, T = 100)',
        ("6.2.2",),
        _over(REGULAR_NONUNIFORM, REGULAR_TENANTS, Case(100)),
        about=True,
    ),
    Number(
        "76K",
        "regular, time travel (1, 2, 3)",
        ("5.3",),
        _at(REGULAR_TRAVEL, Case(10, reverts=3)),
    ),
    Number(
        "1.32x",
        "regular, without / with time travel (1, 2, 3)",
        ("5.3",),
        _over(REGULAR_NONUNIFORM, REGULAR_TRAVEL, HEADLINE, Case(10, reverts=3)),
    ),
    Number(
        "2.64x",
        "regular, without / with time travel, B = 10, the most there is",
        ("5.3",),
        _over(REGULAR_NONUNIFORM, REGULAR_TRAVEL, HEADLINE, Case(10, reverts=10)),
        note=_note_travel,
    ),
    Number(
        "50K",
        "incremental meter, T = 8, delta = 0.1",
        ("3.3",),
        _at(INCREMENTAL, Case(8, 0.1)),
    ),
    Number("80K", "regular meter, T = 8, delta = 0.1", ("3.3",), _at(REGULAR, Case(8, 0.1))),
    Number(
        "25x",
        "eps = 0.01 / eps = 0.05 (regular, T = 100, delta = 0.05)",
        ("6.1",),
        _over(REGULAR, REGULAR, Case(100, 0.05, 0.01), Case(100, 0.05, 0.05)),
        about=True,
    ),
    Number(
        "200K",
        "resampling, T = 8, delta = 0.1",
        ("6.3",),
        _at(RESAMPLING, Case(8, 0.1)),
        about=True,
    ),
    Number(
        "300K",
        "resampling, T = 8, delta = 0.01",
        ("6.3",),
        _at(RESAMPLING, Case(8, 0.01)),
        about=True,
    ),
    Number(
        "2.5x",
        "resampling / any meter, T = 8: the least",
        ("6.3",),
        lambda form: min(case_ratios(form, METERS_OF_THE_CASE)),
    ),
    Number(
        "8x",
        "resampling / any meter, T = 8: the most",
        ("6.3",),
        lambda form: max(case_ratios(form, METERS_OF_THE_CASE)),
    ),
    Number(
        "1.6x",
        "regular / incremental, T = 8, delta from 0.1 to 0.01: the least",
        ("6.3",),
        lambda form: min(case_ratios(form, INCREMENTAL_OVER_REGULAR)),
        note=_note_lower_end,
    ),
    Number(
        "3x",
        "regular / incremental, T = 8, delta from 0.1 to 0.01: the most",
        ("6.3",),
        lambda form: max(case_ratios(form, INCREMENTAL_OVER_REGULAR)),
    ),
    Number(
        "25K",
        "incremental, nonuniform, T = 8, reliability 0.9",
        ("6.3",),
        _at(INCREMENTAL_NONUNIFORM, Case(8, 0.1)),
    ),
    Number(
        "37K",
        "incremental, nonuniform, T = 8, reliability 0.99",
        ("6.3",),
        _at(INCREMENTAL_NONUNIFORM, Case(8, 0.01)),
    ),
    Number(
        "millions",
        "what standard inequalities can ask for (resampling, T = 100)",
        ("1",),
        _at(RESAMPLING, Case(100)),
        at_least=2e6,
    ),
    Number(
        "an order of magnitude",
        "resampling / incremental meter (uniform, T = 100)",
        ("1", "8"),
        _over(RESAMPLING, INCREMENTAL, Case(100)),
        at_least=10,
    ),
    Number(
        "several orders of magnitude",
        "resampling / best optimised meter (T = 100), read as two orders or more",
        ("2",),
        _over(RESAMPLING, INCREMENTAL_NONUNIFORM, Case(100)),
        at_least=100,
    ),
    Number(
        "3",
        "levels of the tree for m = 2, T = 2",
        ("4.2",),
        lambda _: 1 + max(node.level for node in tree(2, 2, Protocol.REGULAR).nodes),
        tightens=False,
    ),
    Number("2", "nodes of that tree at level 1", ("4.2",), _nodes(1), tightens=False),
    Number("4", "nodes of that tree at level 2", ("4.2",), _nodes(2), tightens=False),
)


def compare_numbers() -> tuple[PrintedNumber, ...]:
    """Compare every printed number."""
    return tuple(compare(number) for number in NUMBERS)
