"""The planner as a page: what a meter costs, before a label is paid for.

A field of the form that holds no number it should is refused in one line that names the field.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, TypeVar
from urllib.parse import urlencode

from fastapi import APIRouter, Request, Response

from easeml_meter.core.questions.comparison import (
    Form,
    MeterPrices,
    Setting,
    compare,
    compare_forms,
    lines,
    recommended,
)
from easeml_meter.core.questions.edges import reachable_with_default_bands, with_another_edge
from easeml_meter.core.questions.planning import (
    Plan,
    plan_of,
    reachable_tolerance,
)
from easeml_meter.core.questions.sketch import sketch
from easeml_meter.errors import InvalidInput, invalid
from easeml_meter.report.bands import bands_svg
from easeml_meter.report.labels import labels_svg
from easeml_meter.report.presets import told
from easeml_meter.server.limits import PlannerCounted
from easeml_meter.server.web.pages import MaybeCaller, render
from easeml_meter.service.tokens import Caller
from easeml_meter.spec import METERS, MeterSpec
from easeml_meter.stats.rounding import at_most

router = APIRouter(include_in_schema=False)

DEFAULTS = {
    "want": "labels",
    "labels": "",
    "steps": "10",
    "signals": "",
    "tolerance": "0.01",
    "edges": "",
    "confidence": "0.99",
    "protocol": "regular",
    "ceiling": "",
    "drawn": "",
    "loss": "0-1",
    "tenants": "",
    "handover": "",
    "models": "",
    "clusters": "",
    "price": "",
}
WANTS = {
    "labels": "how many labels I need",
    "steps": "how many answers my labels give",
    "tolerance": "how exact my labels can be",
}
"""What can be asked; the other two are given."""
_CHOICES = ("handover", "models", "clusters")
LOSSES = ("0-1", "absolute", "squared", "brier")
_MORE = "meter plan takes more"
_MOST_LABELS = 10**8
_LONGEST = 300

Comparison = tuple[tuple[Form, ...], tuple[MeterPrices, ...], str, str]
"""The forms, all meters, why there is no comparison, and the chart."""


@dataclass(frozen=True)
class PlannerAnswer:
    """What the planner says to one form."""

    want: str
    """What was asked for; the plan has it, and what was given."""
    plan: Plan
    price: float | None
    another_edge: tuple[int, int] | None
    forms: tuple[Form, ...]
    rows: tuple[MeterPrices, ...]
    problem: str
    """Why there is no comparison; empty if there is one."""
    chart: str

    @property
    def cost(self) -> float | None:
        """What the labels cost."""
        return None if self.price is None else self.plan.labels * self.price

    @property
    def figure(self) -> tuple[str, str]:
        """What was asked for, as a number, and what it is a number of."""
        spec = self.plan.spec
        if self.want == "steps":
            return f"{spec.steps:,}", f"answer{'' if spec.steps == 1 else 's'}"
        if self.want == "tolerance":
            return " / ".join(at_most(each) for each in dict.fromkeys(spec.tolerances)), "tolerance"
        return f"{self.plan.labels:,}", "labels"

    @property
    def bands(self) -> str:
        """A picture of the bands with their tolerance."""
        return bands_svg(self.plan.spec)

    def query(self, asked: dict[str, str]) -> str:
        """Return the meter that was found, for the form of a new one."""
        spec = self.plan.spec
        several = [repr(each) for each in spec.tolerances]
        found = {"want": "", "labels": "", "steps": str(spec.steps)}
        if self.want == "tolerance":
            found |= {"tolerance": several[0] if len(set(several)) == 1 else ",".join(several)}
            found |= {"signals": "", "edges": ",".join(map(repr, spec.edges))}
        return urlencode({name: value for name, value in (asked | found).items() if value})

    @property
    def recommended(self) -> Form:
        """The form to take first."""
        return recommended(self.forms)

    @property
    def baseline(self) -> int:
        """Labels that a fresh test set for every step needs, as published."""
        row = next(row for row in self.rows if row.name.startswith("resampling"))
        return row.published.labels


@router.get("/planner")
def planner(request: Request, caller: MaybeCaller, _: PlannerCounted) -> Response:
    """Show the form with its answer; everything asked stands in the address."""
    return _page(request, "planner.html", caller)


@router.get("/planner/answer")
def planner_answer(request: Request, caller: MaybeCaller, _: PlannerCounted) -> Response:
    """Return the answer alone, for the place beside the form."""
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
        wants=WANTS,
        stories=stories(),
        losses=LOSSES,
        most_steps=MOST_STEPS,
        most_signals=MOST_SIGNALS,
        caller=caller,
    )
    shown.headers["Cache-Control"] = "no-store"
    return shown


@cache
def stories() -> dict[str, str]:
    """Return stories that a plan can start from, each with its query."""
    every = {title: _form_of(preset) for title, preset in told().items()}
    return {name: urlencode({k: v for k, v in form.items() if v}) for name, form in every.items()}


def _form_of(preset: Mapping[str, Any]) -> dict[str, str]:
    """Return the fields of the form for a story of the command line."""
    given = {name: str(value) for name, value in preset.items() if name != "delta"}
    confidence = f"{round(1 - preset['delta'], 12):g}"
    return DEFAULTS | {"signals": ""} | given | {"confidence": confidence}


def asked_of(query: Mapping[str, str]) -> dict[str, str]:
    """Return the fields of the form; without any input, an example."""
    if not any(name in query for name in DEFAULTS):
        return dict(DEFAULTS)
    asked = {name: query.get(name, "").strip()[:_LONGEST] for name in DEFAULTS}
    # The form sends the labels one has, or an example, also where they are asked for.
    return asked | {"labels": ""} if asked["want"] in ("", "labels") else asked


def answer_to(asked: Mapping[str, str]) -> PlannerAnswer:
    """Plan what was asked, and compare it with all other meters."""
    spec, single = _spec(asked)
    price = optional(asked, "price", float, "an amount of money")
    if price is not None and not (math.isfinite(price) and 0 <= price <= 1e9):
        raise invalid("price", asked["price"], "an amount of money, 0 or more")
    plan = _answered(asked, spec)
    spec = plan.spec
    setting = _setting(spec, single)
    comparison = compared(setting, spec.steps, plan.labels)
    return PlannerAnswer(_want(asked), plan, price, with_another_edge(spec), *comparison)


def spec_of(asked: Mapping[str, str]) -> MeterSpec:
    """Return the meter that was asked for."""
    return _answered(asked, _spec(asked)[0]).spec


def _want(asked: Mapping[str, str]) -> str:
    want = asked["want"] or "labels"
    if want not in WANTS:
        raise invalid("want", want, f"one of {', '.join(WANTS)}")
    return want


def _answered(asked: Mapping[str, str], spec: MeterSpec) -> Plan:
    """Find out what was asked for."""
    want = _want(asked)
    if want == "labels":
        return plan_of(spec)
    labels = read(asked, "labels", int, "a whole number: the labels you have")
    if not 1 <= labels <= _MOST_LABELS:
        raise invalid("labels", labels, f"1 to {_MOST_LABELS:,} here; meter plan takes more")
    if want == "tolerance":
        return reached(spec, labels, by_default=not (asked["edges"] or asked["signals"]))
    most = MOST_WITH_CEILING if spec.ceiling is not None else MOST_STEPS
    if not spec.tenants and plan_of(spec.replace(steps=most)).labels <= labels:
        allowed = f"fewer here: they give {most:,} answers or more; meter plan counts on"
        raise invalid("labels", labels, allowed)
    return plan_of(spec, labels)


# The same questions come again: with a price, from a link, and from the page without scripts.
@lru_cache(maxsize=500)
def reached(spec: MeterSpec, labels: int, *, by_default: bool) -> Plan:
    """Plan the smallest tolerance that labels support, with the default bands for it or others."""
    if by_default and spec.drawn is None and len(set(spec.tolerances)) == 1:
        return reachable_with_default_bands(spec, labels)
    return reachable_tolerance(spec, labels)


@lru_cache(maxsize=500)
def compared(setting: Setting, steps: int, labels: int) -> Comparison:
    """Plan all meters, and draw them beside the one asked for."""
    forms: tuple[Form, ...] = ()
    try:
        forms = compare_forms(dict(lines(setting, steps))["regular, uniform"], setting.ceiling)
        rows, at = compare(setting, steps), grid(steps)
        return forms, rows, "", labels_svg(at, {"": sketch(setting, at)}, steps, labels)
    except InvalidInput as error:
        return forms, (), str(error), ""


def grid(steps: int) -> list[int]:
    """Return the steps at which the chart is drawn: a tenth to ten times as many."""
    return sorted({max(1, round(steps * 10 ** (place / 4))) for place in range(-4, 5)})


def _spec(asked: Mapping[str, str]) -> tuple[MeterSpec, bool]:
    """Read the meter, and whether it has one tolerance; a number yet to be found is a guess."""
    asked = {**asked, **_GUESSES.get(_want(asked), {})}
    steps, bands = read_steps(asked, _MORE), BandFields.read(asked, "signals", _MORE)
    delta = read_delta(asked)
    if asked["protocol"] not in METERS:
        raise invalid("protocol", asked["protocol"], f"one of {', '.join(METERS)}")
    loss = asked["loss"] or LOSSES[0]
    if loss not in LOSSES:
        raise invalid("loss", loss, f"one of {', '.join(LOSSES)} here; meter plan takes more")
    ceiling = optional(asked, "ceiling", float, "a loss")
    drawn_edges = optional(asked, "drawn", float, "how far apart drawn edges are")
    if drawn_edges is not None and (bands.edges or bands.signals):
        raise invalid(
            "drawn", drawn_edges, "the meter draws the edges: leave bands and edges empty"
        )
    spec = MeterSpec.uniform(**bands.settings, steps=steps, delta=delta).replace(
        protocol=asked["protocol"],
        ceiling=ceiling,
        drawn=drawn_edges,
        loss=loss,
        tenants=several(asked, "tenants", int, "the steps of each, such as 5,5"),
        **{name: bool(asked[name]) for name in _CHOICES},
    )
    return spec, len(bands.tolerances) == 1


_GUESSES = {"steps": {"steps": "1"}, "tolerance": {"tolerance": "0.1"}}
"""What stands in place of a number that has yet to be found."""


def _setting(spec: MeterSpec, single: bool) -> Setting:
    """Return what all meters are compared by; drawn edges are compared with the default ones."""
    tolerances = spec.tolerances
    bare = spec
    if spec.drawn is not None:
        bare = MeterSpec.uniform(tolerance=tolerances[0], steps=spec.steps, delta=spec.delta)
    if single or spec.drawn is not None:  # as `meter compare` does, after the paper
        tolerances = tuple(tolerances[0] * (k + 1) for k in range(bare.signals))
    return Setting(bare.signals, tolerances, bare.delta, spec.ceiling, bare.edges)


Number = TypeVar("Number", int, float)

MOST_STEPS, MOST_SIGNALS = 10_000, 20
"""What is answered in a blink; the command line takes more."""
MOST_WITH_CEILING = 1_000


def read(
    asked: Mapping[str, str], name: str, kind: Callable[[str], Number], allowed: str
) -> Number:
    """Read a field that must be filled."""
    try:
        return kind(asked[name])
    except (ValueError, OverflowError):
        raise invalid(name, asked[name], allowed) from None


def optional(
    asked: Mapping[str, str], name: str, kind: Callable[[str], Number], allowed: str
) -> Number | None:
    """Read a field that may be empty."""
    return read(asked, name, kind, f"{allowed}, or nothing") if asked[name] else None


def several(
    asked: Mapping[str, str], name: str, kind: Callable[[str], Number], allowed: str
) -> tuple[Number, ...]:
    """Read a field of numbers with commas between them; it may be empty."""
    if not asked[name]:
        return ()
    try:
        return tuple(kind(part) for part in asked[name].split(","))
    except (ValueError, OverflowError):
        raise invalid(name, asked[name], allowed) from None


def read_steps(asked: Mapping[str, str], more: str) -> int:
    """Read how many answers a meter gives; `more` says who plans larger ones."""
    steps = read(asked, "steps", int, "a whole number")
    if not 1 <= steps <= MOST_STEPS:
        raise invalid("steps", steps, f"1 to {MOST_STEPS:,} here; {more}")
    if asked["ceiling"] and steps > MOST_WITH_CEILING:
        raise invalid("steps", steps, f"1 to {MOST_WITH_CEILING:,} here with a ceiling; {more}")
    return steps


def read_delta(asked: Mapping[str, str]) -> float:
    """Read the confidence that people choose; return the delta that a meter has instead."""
    confidence = read(asked, "confidence", float, "a number between 0 and 1")
    if not 0 < confidence < 1:
        raise invalid("confidence", confidence, "a number between 0 and 1 (both excluded)")
    return round(1 - confidence, 15)  # 1 - 0.99 is 0.010000000000000009


@dataclass(frozen=True)
class BandFields:
    """The bands of a meter, as a form describes them."""

    signals: int | None
    tolerances: tuple[float, ...]
    edges: tuple[float, ...]

    @classmethod
    def read(cls, asked: Mapping[str, str], field: str, more: str) -> BandFields:
        """Read the fields; a refusal of too many bands is about `field`."""
        allowed = "one number, such as 0.05 for 5 %, or one for each band with commas between them"
        tolerances = several(asked, "tolerance", float, allowed)
        if not tolerances:
            raise invalid("tolerance", asked["tolerance"], allowed)
        edges = several(asked, "edges", float, "numbers with commas between them")
        signals = optional(asked, "signals", int, "a whole number")
        many = max(len(tolerances), len(edges) + 1) if signals is None else signals
        if not 1 <= many <= MOST_SIGNALS:
            raise invalid(field, many, f"1 to {MOST_SIGNALS} here; {more}")
        return cls(signals, tolerances, edges)

    @property
    def settings(self) -> dict[str, Any]:
        """What `MeterSpec.uniform` takes: one tolerance stands for all bands."""
        single = len(self.tolerances) == 1
        tolerance = self.tolerances[0] if single else self.tolerances
        return {"signals": self.signals, "tolerance": tolerance, "edges": self.edges or None}
