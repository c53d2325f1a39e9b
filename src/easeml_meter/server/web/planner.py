"""The planner as a page: whoever wants to know what a meter costs, before a label is paid for."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar
from urllib.parse import urlencode

from fastapi import APIRouter, Request, Response

from easeml_meter.errors import InvalidInput, invalid
from easeml_meter.report.labels import labels_svg
from easeml_meter.server.limits import PlannerCounted
from easeml_meter.server.web.pages import MaybeCaller, render
from easeml_meter.service.tokens import Caller
from easeml_meter.spec import METERS, MeterSpec
from easeml_meter.stats.bands import with_another_edge
from easeml_meter.stats.comparison import (
    Comparison,
    Form,
    Setting,
    compare,
    forms,
    lines,
    recommended,
)
from easeml_meter.stats.planning import Plan, required_labels
from easeml_meter.stats.sketch import sketch

router = APIRouter(include_in_schema=False)

Number = TypeVar("Number", int, float)

DEFAULTS = {
    "steps": "10",
    "signals": "",
    "tolerance": "0.01",
    "edges": "",
    "confidence": "0.99",
    "protocol": "regular",
    "ceiling": "",
    "drawn": "",
    "above": "",
    "loss": "0-1",
    "variance_ceiling": "",
    "sticky": "",
    "tenants": "",
    "handover": "",
    "models": "",
    "elastic": "",
    "price": "",
}
LOSSES = ("0-1", "absolute", "squared", "brier")
MOST_STEPS, MOST_SIGNALS = 10_000, 20
"""What is answered in a blink; the command line takes more."""
_MOST_MASKED = 300
_MOST_WITH_CEILING = 1_000
_LONGEST = 300


@dataclass(frozen=True)
class PlannerAnswer:
    """What the planner says to one form."""

    plan: Plan
    price: float | None
    another_edge: tuple[int, int] | None
    forms: tuple[Form, ...]
    rows: tuple[Comparison, ...]
    problem: str
    """Why there is no comparison; empty if there is one."""
    chart: str

    @property
    def cost(self) -> float | None:
        """What the labels cost."""
        return None if self.price is None else self.plan.labels * self.price

    @property
    def toml(self) -> str:
        """The meter.toml of this meter."""
        return toml_of(self.plan.spec)

    @property
    def recommended(self) -> Form:
        """The form to take first."""
        return recommended(self.forms)

    @property
    def baseline(self) -> int:
        """Labels that a fresh test set for every step needs, as published."""
        row = next(row for row in self.rows if row.name.startswith("resampling"))
        return (row.published or row.consistent).labels


@router.get("/planner")
def planner(request: Request, caller: MaybeCaller, _: PlannerCounted) -> Response:
    """Show the form with its answer; everything asked stands in the address."""
    return _page(request, "planner.html", caller)


@router.get("/planner/answer")
def planner_answer(request: Request, caller: MaybeCaller, _: PlannerCounted) -> Response:
    """Give the answer alone, to be put beside the form."""
    return _page(request, "planner_answer.html", caller)


def _page(request: Request, template: str, caller: Caller | None) -> Response:
    asked = asked_of(request.query_params)
    answer, problem = None, ""
    try:
        answer = answer_to(asked)
    except InvalidInput as error:
        problem = str(error)
    shown = render(
        request,
        template,
        asked=asked,
        answer=answer,
        problem=problem,
        query=urlencode({name: value for name, value in asked.items() if value}),
        meters=METERS,
        losses=LOSSES,
        most_steps=MOST_STEPS,
        most_signals=MOST_SIGNALS,
        caller=caller,
    )
    shown.headers["Cache-Control"] = "no-store"
    return shown


def asked_of(query: Mapping[str, str]) -> dict[str, str]:
    """Give the fields of the form; who gives none sees an example."""
    if not any(name in query for name in DEFAULTS):
        return dict(DEFAULTS)
    return {name: query.get(name, "").strip()[:_LONGEST] for name in DEFAULTS}


def answer_to(asked: Mapping[str, str]) -> PlannerAnswer:
    """Plan what was asked, and compare it with all other meters."""
    spec, setting = _spec(asked)
    price = _optional(asked, "price", float, "an amount of money")
    if price is not None and not (math.isfinite(price) and 0 <= price <= 1e9):
        raise invalid("price", asked["price"], "an amount of money, 0 or more")
    plan = planned(spec)
    found: tuple[Form, ...] = ()
    rows: tuple[Comparison, ...] = ()
    chart = problem = ""
    try:
        found = formed(setting, spec.steps)
        rows, chart = compared(setting, spec.steps), drawn(setting, spec.steps, plan.labels)
    except InvalidInput as error:
        problem = str(error)
    return PlannerAnswer(plan, price, with_another_edge(spec), found, rows, problem, chart)


def spec_of(asked: Mapping[str, str]) -> MeterSpec:
    """Give the meter that was asked for."""
    return _spec(asked)[0]


def toml_of(spec: MeterSpec) -> str:
    """Write a meter as meter.toml."""
    import tomli_w

    return tomli_w.dumps(spec.to_mapping())


# The same questions come again: with a price, from a link, and from the page without scripts.
@lru_cache(maxsize=500)
def planned(spec: MeterSpec) -> Plan:
    """Plan a meter."""
    return required_labels(spec)


@lru_cache(maxsize=500)
def formed(setting: Setting, steps: int) -> tuple[Form, ...]:
    """Plan the forms of the regular meter with one tolerance."""
    return forms(dict(lines(setting, steps))["regular, uniform"], setting.ceiling)


@lru_cache(maxsize=500)
def compared(setting: Setting, steps: int) -> tuple[Comparison, ...]:
    """Plan all meters."""
    return compare(setting, steps, most_masked=_MOST_MASKED)


@lru_cache(maxsize=500)
def drawn(setting: Setting, steps: int, labels: int) -> str:
    """Draw all meters, and the one asked for."""
    at = grid(steps)
    return labels_svg(at, {"": sketch(setting, at)}, steps, labels)


def grid(steps: int) -> list[int]:
    """Give the steps at which the chart is drawn: a tenth to ten times as many."""
    return sorted({max(1, round(steps * 10 ** (place / 4))) for place in range(-4, 5)})


def _spec(asked: Mapping[str, str]) -> tuple[MeterSpec, Setting]:
    steps = _read(asked, "steps", int, "a whole number")
    if not 1 <= steps <= MOST_STEPS:
        raise invalid("steps", steps, f"1 to {MOST_STEPS:,} here; meter plan takes more")
    signals = _optional(asked, "signals", int, "a whole number")
    allowed = "one number, or one for each band with commas between them"
    tolerances = _several(asked, "tolerance", float, allowed)
    if not tolerances:
        raise invalid("tolerance", asked["tolerance"], allowed)
    edges = _several(asked, "edges", float, "numbers with commas between them")
    many = max(len(tolerances), len(edges) + 1) if signals is None else signals
    if not 1 <= many <= MOST_SIGNALS:
        raise invalid("signals", many, f"1 to {MOST_SIGNALS} here; meter plan takes more")
    confidence = _read(asked, "confidence", float, "a number between 0 and 1")
    if not 0 < confidence < 1:
        raise invalid("confidence", confidence, "a number between 0 and 1 (both excluded)")
    if asked["protocol"] not in METERS:
        raise invalid("protocol", asked["protocol"], f"one of {', '.join(METERS)}")
    loss = asked["loss"] or LOSSES[0]
    if loss not in LOSSES:
        raise invalid("loss", loss, f"one of {', '.join(LOSSES)} here; meter plan takes more")
    ceiling = _optional(asked, "ceiling", float, "a loss")
    drawn_edges = _optional(asked, "drawn", float, "how far apart drawn edges are")
    if drawn_edges is not None and (edges or signals):
        raise invalid(
            "drawn", drawn_edges, "the meter draws the edges: leave bands and edges empty"
        )
    if ceiling is not None and steps > _MOST_WITH_CEILING:
        allowed = f"1 to {_MOST_WITH_CEILING:,} here with a ceiling; meter plan takes more"
        raise invalid("steps", steps, allowed)
    bare = MeterSpec.uniform(
        signals=signals,
        tolerance=tolerances[0] if len(tolerances) == 1 else tolerances,
        edges=edges or None,
        steps=steps,
        delta=round(1 - confidence, 15),  # 1 - 0.99 is 0.010000000000000009
    )
    spec = bare.replace(
        protocol=asked["protocol"],
        ceiling=ceiling,
        drawn=drawn_edges,
        above=_optional(asked, "above", int, "a whole number"),
        loss=loss,
        variance_ceiling=_optional(asked, "variance_ceiling", float, "a variance"),
        tenants=_several(asked, "tenants", int, "the steps of each, such as 5,5"),
        **{name: bool(asked[name]) for name in ("sticky", "handover", "models", "elastic")},
    )
    if len(tolerances) == 1:  # as `meter compare` does, after the paper
        tolerances = tuple(tolerances[0] * (k + 1) for k in range(bare.signals))
    return spec, Setting(bare.signals, tolerances, bare.delta, ceiling, bare.edges)


def _read(
    asked: Mapping[str, str], name: str, kind: Callable[[str], Number], allowed: str
) -> Number:
    try:
        return kind(asked[name])
    except (ValueError, OverflowError):
        raise invalid(name, asked[name], allowed) from None


def _optional(
    asked: Mapping[str, str], name: str, kind: Callable[[str], Number], allowed: str
) -> Number | None:
    return _read(asked, name, kind, f"{allowed}, or nothing") if asked[name] else None


def _several(
    asked: Mapping[str, str], name: str, kind: Callable[[str], Number], allowed: str
) -> tuple[Number, ...]:
    if not asked[name]:
        return ()
    try:
        return tuple(kind(part) for part in asked[name].split(","))
    except (ValueError, OverflowError):
        raise invalid(name, asked[name], allowed) from None
