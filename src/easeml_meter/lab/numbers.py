"""Every number printed in the paper's text, how to compute it, and the misprints among them.

A claim is judged by a comparison, never by hand.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any

from easeml_meter.lab.curves import (
    ALL_METERS,
    DELTAS,
    HEADLINE,
    IDEAL,
    INCREMENTAL,
    INCREMENTAL_NONUNIFORM,
    INCREMENTAL_TENANTS,
    REGULAR,
    REGULAR_NONUNIFORM,
    REGULAR_TENANTS,
    REGULAR_TRAVEL,
    RESAMPLING,
    Case,
    Curve,
    CurveForm,
    halves,
    labels,
    labels_of,
    meter_of,
    ratio,
)
from easeml_meter.lab.meters import Protocol, equal_edges, gap_meter, gap_of, with_tolerances
from easeml_meter.lab.trees import tree
from easeml_meter.promise import solve
from easeml_meter.promise.budgets import Memory, Reverts
from easeml_meter.promise.compare import all_answers, as_published
from easeml_meter.promise.numbers.plain import log_sum

CLOSE = 0.05
"""Relative distance up to which a number still counts as close."""
SLIGHT = 0.1
"""A change up to this share is slight."""
SIGNIFICANT = 1.5
"""An improvement by this factor or more is significant."""
MUCH = 2.0
"""One thing is much larger than another from this factor on."""


class ClaimVerdict(StrEnum):
    """What became of a claim."""

    HOLDS = "holds"
    ROUGHLY = "holds roughly"
    FAILS = "does not hold"


def graded(holds: bool, roughly: bool) -> ClaimVerdict:
    """Judge by a strict and a lenient condition."""
    if holds:
        return ClaimVerdict.HOLDS
    return ClaimVerdict.ROUGHLY if roughly else ClaimVerdict.FAILS


@dataclass(frozen=True)
class ClaimFinding:
    """What was found when a claim was checked."""

    verdict: ClaimVerdict
    found: str


@dataclass(frozen=True)
class Claim:
    """Something the paper says about one of its figures, and how to check it."""

    place: str
    says: str
    check: Callable[[], ClaimFinding]


def claims(*checks: Callable[[], ClaimFinding]) -> tuple[Claim, ...]:
    """Return the claims that these functions check: each has a place and words for docstring."""
    said = [" ".join((check.__doc__ or "").split()).partition(": ") for check in checks]
    return tuple(
        Claim(at, words, check) for (at, _, words), check in zip(said, checks, strict=True)
    )


def worst(judged: Iterable[ClaimVerdict]) -> ClaimVerdict:
    """Return the worst of several verdicts."""
    return max(judged, key=list(ClaimVerdict).index)


def close(value: float, reference: float) -> bool:
    """Whether two numbers are close."""
    return abs(value - reference) <= CLOSE * abs(reference)


def read_number(text: str) -> tuple[float, float]:
    """Read a printed number such as 380K, 3.5x or 26,492: its value and that of its last digit."""
    match = re.fullmatch(r"([\d,]+)(?:\.(\d+))?([Kx]?)", text)
    if match is None:
        raise ValueError(f"not a printed number: {text}")
    whole, decimals, unit = match[1].replace(",", ""), match[2] or "", match[3]
    scale = 1000 if unit == "K" else 1
    return float(f"{whole}.{decimals or 0}") * scale, scale * 10.0 ** -len(decimals)


def of_number(text: str, computed: float, *, about: bool = False) -> ClaimVerdict:
    """Judge a printed number by the computed one.

    It holds when the computed number, rounded to the digits printed, is the printed one (or when
    it is close, where the paper itself says "around"); it holds roughly when it is close.
    """
    value, digit = read_number(text)
    rounded = math.floor(computed / digit + 0.5) * digit
    near = close(computed, value)
    return graded(math.isclose(rounded, value) or (about and near), near)


def cut_off(text: str, computed: float) -> bool:
    """Whether the printed number is the computed one with its digits cut off, not rounded."""
    value, digit = read_number(text)
    return math.isclose(math.floor(computed / digit) * digit, value)


@dataclass(frozen=True)
class Number:
    """A number that the paper prints, and what is computed in its place."""

    printed: str
    what: str
    places: str
    """Sections, by spaces."""
    compute: Callable[[CurveForm], float]
    about: bool = False
    """The paper itself says "around" or "roughly"."""
    at_least: float | None = None
    """For a number given in words, such as "millions": what it asks for."""
    tightens: bool = True
    """Whether the tightened bound has something to say about it."""
    why: Callable[[], str] | None = None
    meter: Curve | None = None
    """The meter that it is about, if it is what that needs at its place."""
    at: Case = HEADLINE

    @cached_property
    def computed(self) -> float:
        """What the paper's own formula gives."""
        return self.compute(CurveForm.PUBLISHED)

    @cached_property
    def tightened(self) -> float | None:
        """What the tightened bound gives, if it says anything."""
        return self.compute(CurveForm.TIGHTENED) if self.tightens else None

    @property
    def verdict(self) -> ClaimVerdict:
        """The printed number, judged by the computed one."""
        if (least := self.at_least) is not None:
            return graded(self.computed >= least, self.computed >= least / 2)
        return of_number(self.printed, self.computed, about=self.about)

    @cached_property
    def note(self) -> str:
        """What there is to say about it."""
        roughly = self.at_least is None and self.verdict is ClaimVerdict.ROUGHLY
        cut = roughly and cut_off(self.printed, self.computed)
        notes = [
            *(["digits cut off, not rounded"] if cut else []),
            *([self.why()] if self.why else []),
        ]
        return "; ".join(notes)

    def sections(self, by: str = ", ") -> str:
        """List where it is printed."""
        return by.join(self.places.split())

    @property
    def shown(self) -> str:
        """The computed value, as people write it."""
        return self.write(self.computed)

    def write(self, value: float | None) -> str:
        """Write a value in the manner of the printed one."""
        if value is None:
            return ""
        if "x" in self.printed or "magnitude" in self.printed:
            return f"{value:,.2f}x" if value < 100 else f"{value:,.0f}x"
        return f"{value:,.0f}"


Pairs = Sequence[tuple[Curve, Curve]]


def case_ratios(form: CurveForm, pairs: Pairs) -> list[float]:
    """Return the ratios of pairs of meters over the reliabilities of the case study (T = 8)."""
    return [ratio(a, b, Case(8, delta), form) for delta in DELTAS for a, b in pairs]


METERS_OF_THE_CASE = [
    (RESAMPLING, meter) for meter in ALL_METERS if meter not in (RESAMPLING, IDEAL)
]
INCREMENTAL_OVER_REGULAR = [
    (REGULAR, INCREMENTAL),
    (REGULAR_NONUNIFORM, INCREMENTAL_NONUNIFORM),
]


def _of(
    printed: str,
    what: str,
    places: str,
    meter: Curve,
    at: Case = HEADLINE,
    *,
    over: Curve | None = None,
    there: Case | None = None,
    **more: Any,
) -> Number:
    """Labels of one meter, or how many times those of another, at the same place or `there`."""

    def compute(form: CurveForm) -> float:
        found = labels(meter, at, form)
        return found if over is None else found / labels(over, there or at, form)

    return Number(printed, what, places, compute, meter=None if over else meter, at=at, **more)


def _case(
    printed: str, what: str, end: Callable[[list[float]], float], pairs: Pairs, **more: Any
) -> Number:
    return Number(printed, what, "6.3", lambda form: end(case_ratios(form, pairs)), **more)


def _nodes(printed: str, level: int) -> Number:
    def count(_: CurveForm) -> int:
        return len(tree(2, 2, Protocol.REGULAR).at_level(level))

    return Number(printed, f"nodes of that tree at level {level}", "4.2", count, tightens=False)


def _bound_on_improvement(form: CurveForm) -> float:
    """Return 1 + ln m / ln(2/delta), or what distinct models leave of it: nothing."""
    if form is CurveForm.TIGHTENED:
        return max(ratio(REGULAR, REGULAR_NONUNIFORM, Case(t), form) for t in (1, 10, 100))
    return 1 + math.log(HEADLINE.signals) / math.log(2 / HEADLINE.delta)


def improvement_by_steps() -> str:
    """Say what nonuniform tolerances gain a regular meter at some T."""
    found = {t: ratio(REGULAR, REGULAR_NONUNIFORM, Case(t)) for t in (1, 10, 100)}
    return ", ".join(f"{gain:.2f}x at T = {t}" for t, gain in found.items())


def _why_tenants() -> str:
    size = labels_of(with_tolerances(meter_of(REGULAR_TENANTS, HEADLINE), [HEADLINE.tolerance]))
    factor = labels(REGULAR_NONUNIFORM, HEADLINE) / size
    return (
        f"the uniform meter with two tenants gives {size:,} ({factor:.2f}x): "
        "every signal counted at the smallest tolerance"
    )


def _why_lower_end() -> str:
    first, last = (ratio(REGULAR, INCREMENTAL, Case(8, delta)) for delta in (0.1, 0.01))
    return f"uniform meters: {first:.2f}x at delta = 0.1, but {last:.2f}x at delta = 0.01"


NUMBERS = (
    _of("185", "one model, eps = 0.1, delta = 0.05", "A.2.1", IDEAL, Case(1, 0.05, 0.1)),
    _of("26,492", "one model, eps = delta = 0.01", "A.2.1", IDEAL, Case(1)),
    _of("38K", "no adaptivity", "4.1 A.2.2", IDEAL),
    _of("380K", "resampling", "4.1 4.3 4.4 A.2.3", RESAMPLING),
    _of("108K", "regular meter", "4.3 5.1", REGULAR),
    _of("3.5x", "resampling / regular", "4.3", RESAMPLING, over=REGULAR),
    _of("66K", "incremental meter", "4.4 5.1", INCREMENTAL),
    _of(
        "5.8x",
        "resampling / incremental",
        "4.4",
        RESAMPLING,
        over=INCREMENTAL,
        why=lambda: (
            f"from the printed numbers, 380/66 = {380 / 66:.2f}; from the formulas themselves, less"
        ),
    ),
    _of("100K", "regular, nonuniform", "5.1 5.2 5.3", REGULAR_NONUNIFORM),
    Number(
        "1.3x",
        "most that nonuniform tolerances improve a regular meter, 1 + ln m / ln(2/delta)",
        "5.1",
        _bound_on_improvement,
        why=lambda: f"reached at T = 1 only: {improvement_by_steps()}",
    ),
    _of("38K", "incremental, nonuniform", "5.1", INCREMENTAL_NONUNIFORM),
    _of(
        "1.75x",
        "incremental, uniform / nonuniform",
        "5.1",
        INCREMENTAL,
        over=INCREMENTAL_NONUNIFORM,
    ),
    _of("71K", "regular, two tenants", "5.2", REGULAR_TENANTS, why=_why_tenants),
    _of(
        "1.4x",
        "regular, one tenant / two",
        "5.2",
        REGULAR_NONUNIFORM,
        over=REGULAR_TENANTS,
        why=_why_tenants,
    ),
    _of(
        "2x",
        "regular, one tenant / two, as T grows (computed at T = 100,000)",
        "5.2",
        REGULAR_NONUNIFORM,
        over=REGULAR_TENANTS,
        at=Case(100_000),
    ),
    _of(
        "2x",
        'regular, one tenant / two, "roughly", in Figure 11 (computed at its right end, T = 100)',
        "6.2.2",
        REGULAR_NONUNIFORM,
        over=REGULAR_TENANTS,
        at=Case(100),
        about=True,
    ),
    _of("76K", "regular, time travel (1, 2, 3)", "5.3", REGULAR_TRAVEL, Case(10, reverts=3)),
    _of(
        "1.32x",
        "regular, without / with time travel (1, 2, 3)",
        "5.3",
        REGULAR_NONUNIFORM,
        over=REGULAR_TRAVEL,
        there=Case(10, reverts=3),
    ),
    _of(
        "2.64x",
        "regular, without / with time travel, B = 10, the most there is",
        "5.3",
        REGULAR_NONUNIFORM,
        over=REGULAR_TRAVEL,
        there=Case(10, reverts=10),
        why=lambda: (
            f"{labels(REGULAR_NONUNIFORM, HEADLINE):,} / "
            f"{labels(REGULAR_TRAVEL, Case(10, reverts=10)):,}"
        ),
    ),
    _of("50K", "incremental meter, T = 8, delta = 0.1", "3.3", INCREMENTAL, Case(8, 0.1)),
    _of("80K", "regular meter, T = 8, delta = 0.1", "3.3", REGULAR, Case(8, 0.1)),
    _of(
        "25x",
        "eps = 0.01 / eps = 0.05 (regular, T = 100, delta = 0.05)",
        "6.1",
        REGULAR,
        over=REGULAR,
        at=Case(100, 0.05, 0.01),
        there=Case(100, 0.05, 0.05),
        about=True,
    ),
    _of("200K", "resampling, T = 8, delta = 0.1", "6.3", RESAMPLING, Case(8, 0.1), about=True),
    _of("300K", "resampling, T = 8, delta = 0.01", "6.3", RESAMPLING, Case(8, 0.01), about=True),
    _case("2.5x", "resampling / any meter, T = 8: the least", min, METERS_OF_THE_CASE),
    _case("8x", "resampling / any meter, T = 8: the most", max, METERS_OF_THE_CASE),
    _case(
        "1.6x",
        "regular / incremental, T = 8, delta from 0.1 to 0.01: the least",
        min,
        INCREMENTAL_OVER_REGULAR,
        why=_why_lower_end,
    ),
    _case(
        "3x",
        "regular / incremental, T = 8, delta from 0.1 to 0.01: the most",
        max,
        INCREMENTAL_OVER_REGULAR,
    ),
    _of(
        "25K",
        "incremental, nonuniform, T = 8, reliability 0.9",
        "6.3",
        INCREMENTAL_NONUNIFORM,
        Case(8, 0.1),
    ),
    _of(
        "37K",
        "incremental, nonuniform, T = 8, reliability 0.99",
        "6.3",
        INCREMENTAL_NONUNIFORM,
        Case(8, 0.01),
    ),
    _of(
        "millions",
        "what standard inequalities can ask for (resampling, T = 100)",
        "1",
        RESAMPLING,
        Case(100),
        at_least=2e6,
    ),
    _of(
        "an order of magnitude",
        "resampling / incremental meter (uniform, T = 100)",
        "1 8",
        RESAMPLING,
        over=INCREMENTAL,
        at=Case(100),
        at_least=10,
    ),
    _of(
        "several orders of magnitude",
        "resampling / best optimised meter (T = 100), read as two orders or more",
        "2",
        RESAMPLING,
        over=INCREMENTAL_NONUNIFORM,
        at=Case(100),
        at_least=100,
    ),
    Number(
        "3",
        "levels of the tree for m = 2, T = 2",
        "4.2",
        lambda _: 1 + max(node.level for node in tree(2, 2, Protocol.REGULAR).nodes),
        tightens=False,
    ),
    _nodes("2", 1),
    _nodes("4", 2),
)


_HERE = {
    Protocol.RESAMPLING: "resampling: a fresh test set for each answer",
    Protocol.INDEPENDENT: "independent: nobody acts on an answer",
}
_QUESTIONS = {
    "(Q1) How large does my validation set need to be?": "--labels 1000 --steps 10 --ask gap",
    "(Q2) How large does my test set need to be?": "--steps 10 --tolerance 0.05",
}
"""The two that the paper begins with, and an example of what answers them here."""


def side_by_side() -> list[dict[str, Any]]:
    """Return each meter of the paper at T = 10 beside ours, with the command that plans it."""
    found: list[dict[str, Any]] = [
        {"paper": asked, "command": f"meter plan {options}"}
        for asked, options in _QUESTIONS.items()
    ]
    for number in NUMBERS:
        curve, at = number.meter, number.at
        if curve is None or (at.steps, at.tolerance) != (HEADLINE.steps, HEADLINE.tolerance):
            continue
        meter, tolerances = meter_of(curve, at), gap_of(meter_of(curve, at)).tolerance
        plan = f"--steps {at.steps} --signals {at.signals} --delta {at.delta:g}"
        plan += f" --tolerance {','.join(f'{float(each):g}' for each in tolerances)}"
        here = [_HERE.get(curve.protocol, str(curve.protocol))]
        teams = ",".join(map(str, halves(at.steps)))
        reverts = meter.budget.reverts if isinstance(meter.budget, Reverts) else ()
        for given, option, name in (
            (curve.nonuniform, "", "a tolerance for each band"),
            (curve.protocol is not Protocol.REGULAR, f" --protocol {curve.protocol}", ""),
            (curve.two_tenants, f" --tenants {teams}", "two teams"),
            (reverts, f" --reverts {','.join(map(str, reverts))}", "steps undone"),
        ):
            plan += option if given else ""
            here += [name] if given and name else []
        row: dict[str, Any] = {"paper": curve.name, "here": ", ".join(here)}
        row |= {"command": f"meter plan {plan}", "printed": number.printed}
        row |= {"formula": int(number.computed), "labels": solve.labels(meter)}
        found.append(row)
    return found


@dataclass(frozen=True)
class Misprint:
    """Something printed, and what the formula gives instead."""

    place: str
    printed: str
    formula: str
    why: str


def misprints() -> tuple[Misprint, ...]:
    """List every number that is not what its formula gives, then the slips in the text."""
    found = [
        Misprint(each.sections(), f"{each.printed} ({each.what})", each.shown, each.note)
        for each in NUMBERS
        if each.verdict is not ClaimVerdict.HOLDS
    ]
    drawn, named = tree(2, 2, Protocol.REGULAR), tree(2, 3, Protocol.REGULAR)
    budget = Memory(steps=10, memory=2)
    forgetful = gap_meter(equal_edges(5), [0.01], budget=budget, delta=0.01)
    models = round(math.exp(log_sum([each.log_count for each in all_answers(forgetful)])))
    return (
        *found,
        Misprint(
            "5.1",
            "the best improvement of the regular meter would be 1.3x regardless of T",
            improvement_by_steps(),
            "1 + ln m / ln(2/delta) bounds it, but is reached at T = 1 only; counted as distinct "
            "models, nonuniform tolerances gain a regular meter nothing at any T",
        ),
        _tenant_equation(
            9,
            REGULAR_TENANTS,
            "the count per signal is already the m-th part of the tree (Corollary 1)",
        ),
        _tenant_equation(
            10, INCREMENTAL_TENANTS, "the count per signal needs no 1/m (Corollary 2)"
        ),
        Misprint(
            "4.2, Example 1",
            "the tree T(2, 3) for m = 2 and T = 2",
            f"T(2, 2), which has {drawn.published} nodes",
            f"T(2, 3) has {named.published}",
        ),
        Misprint(
            "6.2.1",
            "compares Equation 7 with 5, and 8 with 6, to show what nonuniformity gains",
            "3 and 4 are the uniform meters",
            f"Equation 3 gives {labels(REGULAR, HEADLINE):,} at T = 10, Equation 5 itself "
            f"{labels(REGULAR_NONUNIFORM, HEADLINE):,}",
        ),
        Misprint(
            "Figure 3 (c)",
            "System Y (SemEval 2019)",
            "SemEval 2018",
            "as in Figure 3 (b) and in section 3.3",
        ),
        Misprint(
            "1, C2 (3)",
            'the optimisation "non-adversarial developers"',
            "no formula",
            "named, never defined; for developers who remember only the last 2 signals there "
            f"are {models:,} distinct models at T = 10",
        ),
    )


def _tenant_equation(number: int, curve: Curve, why: str) -> Misprint:
    """Take the first line of Equation 9 or 10 at its word."""
    found = meter_of(curve, HEADLINE)
    pairs = [each.log_count for each in as_published(found)]
    literal = [count - math.log(HEADLINE.signals) for count in pairs]
    tolerances = [*map(float, found.question.tolerances)]
    size = hoeffding_labels(literal, tolerances, HEADLINE.delta)
    printed = f"first line, with the factor 1/m: {size:,} labels at T = 10"
    formula = f"{labels(curve, HEADLINE):,} by its second line"
    return Misprint(f"5.2, Equation {number}", printed, formula, why)


def hoeffding_labels(log_counts: Sequence[float], tolerances: Sequence[float], delta: float) -> int:
    """Solve sum of 2 count exp(-2 n eps^2) <= delta for n, as section 6.1 says.

    For equations taken literally, misprints included; the planner never uses it.
    """

    def excess(size: int) -> float:
        terms = [
            count + math.log(2) - 2 * size * eps**2
            for count, eps in zip(log_counts, tolerances, strict=True)
        ]
        return log_sum(terms) - math.log(delta)

    return solve.smallest(excess, 1 << 40)
