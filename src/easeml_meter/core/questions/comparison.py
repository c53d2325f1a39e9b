"""All meters side by side, for one budget of steps and one promise; and one meter's forms.

A meter's *form* is how its promise is proved and what that asks of its users: as published, for all
answers, for consistent ones, with drawn edges, with a ceiling.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from easeml_meter.core.questions.assumptions import gap_assumptions
from easeml_meter.core.questions.planning import Plan, reachable_tolerance, required_labels
from easeml_meter.errors import InvalidInput
from easeml_meter.promise.assumptions import BLIND_VALIDATION
from easeml_meter.promise.numbers.rounding import as_written
from easeml_meter.showing import Shown
from easeml_meter.spec import Count, MeterSpec, Protocol
from easeml_meter.spec.questions import NARROWEST_DRAWN


@dataclass(frozen=True)
class MeterPrices:
    """One meter's three prices."""

    name: str
    published: Plan
    consistent: Plan
    with_ceiling: Plan | None

    @property
    def rests_on_people(self) -> bool:
        """Whether the promise holds only if people behave as assumed."""
        return any("about people" in line for line in gap_assumptions(self.consistent.spec))


@dataclass(frozen=True)
class Setting:
    """What all compared meters have in common; the first tolerance is the uniform one."""

    signals: int
    tolerances: tuple[float, ...]
    delta: float
    ceiling: float | None
    """None: no column for it."""
    edges: tuple[float, ...] | None = None
    """None: equally wide bands."""


@dataclass(frozen=True)
class Form:
    """One way to keep the same promise, and what it asks for besides labels."""

    name: str
    plan: Plan
    asks: str

    def to_dict(self) -> dict[str, Any]:
        """Return the form and its plan as JSON has them."""
        return {"form": self.name, "asks": self.asks, **self.plan.to_dict()}


class Forms(Shown, tuple[Form, ...]):
    """The forms of one meter, side by side: the same promise at several prices."""

    __slots__ = ()

    @property
    def recommended(self) -> Form:
        """The form to take first."""
        return recommended(self)

    def to_dict(self) -> dict[str, Any]:
        """Return the forms as `meter compare --json` has them."""
        return {
            "forms": [form.to_dict() for form in self],
            "recommended": self.recommended.name,
        }

    def to_pandas(self) -> Any:
        """Return a DataFrame with a row for every form.

        Raises:
            ImportError: pandas is not installed.
        """
        import pandas as pd

        columns = ["form", "labels", "asks"]
        return pd.DataFrame([form.to_dict() for form in self])[columns]


DRAWN_TOLERANCES = 5
"""How far apart drawn edges are in the comparison, in tolerances."""
_DECIMALS = 6
"""Those of the edges that a meter draws."""
_WIDE = 0.2
"""The wide drawn edges of the comparison: nearly a single random alarm."""


def usually_apart(tolerance: float) -> float:
    """Return how far apart the edges are to be drawn for a tolerance, in the decimals they have."""
    parts = math.ceil(DRAWN_TOLERANCES * as_written(tolerance) * 10**_DECIMALS)
    apart = max(as_written(NARROWEST_DRAWN), Fraction(parts, 10**_DECIMALS))
    return float(min(Fraction(1), apart))


def compare_forms(
    spec: MeterSpec, ceiling: float | None = None, labels: int | None = None
) -> Forms:
    """Plan a regular meter with one tolerance in all its forms, the ideal one last.

    With `labels`, each with the smallest tolerance that they support.

    Raises:
        InvalidInput: it is another meter: its forms are not those of the regular one.
    """
    meter, question = spec.meter, spec.meter.question
    regular = question.numbered and question.limit is None and not question.climbs_only
    own = spec.published or spec.count is not Count.CONSISTENT or meter.only_planned
    if own or not regular or len(set(question.tolerances)) != 1:
        raise InvalidInput(
            "forms: those of another meter asked for, give a regular one with one tolerance, and "
            "neither drawn edges nor a ceiling: compare_forms(spec, ceiling=0.3) adds those"
        )
    tolerance = float(question.tolerances[0])
    # For given labels, about a tolerance apart promises most on average.
    apart = usually_apart(tolerance) if labels is None else max(0.01, round(tolerance, 2))
    drawn = spec.replace(drawn=apart)
    worst = spec.replace(protocol=Protocol.INCREMENTAL)
    found = [
        ("published", spec.replace(published=True), "nothing more: this is the paper's own proof"),
        ("all answers", spec.replace(count=Count.ALL), "nothing more"),
        ("consistent", spec, f"{BLIND_VALIDATION}; the answers are the same"),
        (f"drawn {apart:g}", drawn, f"bands {apart:g} wide, whose edges move with every answer"),
    ]
    if apart < _WIDE and labels is None:
        wide = f"bands {_WIDE:g} wide, whose edges move: coarser readings"
        found.append((f"drawn {_WIDE:g}", spec.replace(drawn=_WIDE), wide))
    found.append(("incremental", worst, "you learn the worst band so far, not this model's"))
    if ceiling is not None:
        silent = f"no reading for test losses above {ceiling:g}"
        below = worst.replace(ceiling=ceiling)
        found += [
            (
                f"ceiling {ceiling:g}",
                spec.replace(ceiling=ceiling),
                f"{silent}, wider bands just below",
            ),
            (f"incremental, ceiling {ceiling:g}", below, f"the worst band so far; {silent}"),
        ]
    ideal = spec.replace(protocol=Protocol.INDEPENDENT)
    found.append(("no adaptivity", ideal, "that nobody acts on an answer: a limit, not a meter"))
    if labels is None:
        return Forms(Form(name, required_labels(each), asks) for name, each, asks in found)
    # Those of the paper's proof have its edges, which cost the same wherever they are.
    return Forms(Form(name, reachable_tolerance(each, labels), asks) for name, each, asks in found)


def recommended(found: Sequence[Form]) -> Form:
    """Return the form to take first: that of fixed edges, or of moving ones that promise more.

    What counts is what an answer says on average of a model that does not overfit. A ceiling saves
    more still, but only those who know their models can choose one.
    """
    consistent, *drawn = (
        form for name in ("consistent", "drawn") for form in found if form.name.startswith(name)
    )
    fits = [form for form in drawn if form.plan.labels <= consistent.plan.labels]
    return min([consistent, *fits], key=lambda form: form.plan.question.promised_points or math.inf)


def compare(setting: Setting, steps: int) -> tuple[MeterPrices, ...]:
    """Plan every meter for the same steps and the same promise, the ideal one first."""
    forms = lines(setting, steps)
    if steps >= 2:
        halves = (steps - steps // 2, steps // 2)
        regular = dict(forms)["regular, nonuniform"]
        forms.append(("regular, two teams", regular.replace(tenants=halves)))
    rows = [_compare_one(name, spec, setting.ceiling) for name, spec in forms]
    return tuple(sorted(rows, key=lambda row: row.consistent.labels))


def lines(setting: Setting, steps: int) -> list[tuple[str, MeterSpec]]:
    """Return the meters of the paper's figures."""
    uniform = MeterSpec.uniform(
        signals=setting.signals,
        tolerance=setting.tolerances[0],
        steps=steps,
        delta=setting.delta,
        edges=setting.edges,
    )
    by_band = uniform.with_tolerances(setting.tolerances)
    return [
        ("no adaptivity (ideal)", uniform.replace(protocol=Protocol.INDEPENDENT)),
        ("incremental, nonuniform", by_band.replace(protocol=Protocol.INCREMENTAL)),
        ("incremental, uniform", uniform.replace(protocol=Protocol.INCREMENTAL)),
        ("regular, nonuniform", by_band),
        ("regular, uniform", uniform),
        ("resampling (baseline)", uniform.replace(protocol=Protocol.RESAMPLING)),
    ]


def _compare_one(name: str, spec: MeterSpec, ceiling: float | None) -> MeterPrices:
    return MeterPrices(
        name=name,
        published=required_labels(spec.replace(published=True)),
        consistent=required_labels(spec),
        with_ceiling=None if ceiling is None else required_labels(spec.replace(ceiling=ceiling)),
    )


def labels_by_steps(setting: Setting, steps: Sequence[int]) -> dict[str, dict[str, list[float]]]:
    """Return, for each form and each meter of the paper's figures, the labels at these steps."""
    found: dict[str, dict[str, list[float]]] = {}
    for count in steps:
        for name, spec in lines(setting, count):
            row = _compare_one(name, spec, setting.ceiling)
            forms = {
                "as published": row.published,
                "consistent": row.consistent,
                f"consistent, ceiling {setting.ceiling or 1:g}": row.with_ceiling,
            }
            for form, plan in forms.items():
                if plan is not None:
                    found.setdefault(form, {}).setdefault(name, []).append(plan.labels)
    return found
