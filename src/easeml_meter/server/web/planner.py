"""The planner as a page: what a meter costs, before a label is paid for.

A field of the form that holds no number it should is refused in one line that names the field.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any
from urllib.parse import urlencode

from fastapi import APIRouter, Request, Response
from fastapi.concurrency import run_in_threadpool

from easeml_meter import checks
from easeml_meter.conditions import ALARM
from easeml_meter.core.questions.comparison import (
    Form,
    MeterPrices,
    Setting,
    compare,
    compare_forms,
    lines,
    recommended,
)
from easeml_meter.core.questions.labels import (
    FEWEST,
    Way,
    fewer_answers,
    other_ways,
    plan_alarm,
    plan_labels,
    starts_with_alarm,
    validation_noise,
    with_validation,
)
from easeml_meter.core.questions.planning import Plan, plan_of
from easeml_meter.core.questions.sketch import sketch
from easeml_meter.errors import InvalidInput, invalid
from easeml_meter.promise import solve
from easeml_meter.promise.bands import default_edges
from easeml_meter.promise.meter import Meter
from easeml_meter.report.bands import bands_svg
from easeml_meter.report.gains import gate_beside, reach_rows
from easeml_meter.report.labels import labels_svg
from easeml_meter.report.presets import told
from easeml_meter.server.limits import PlannerCounted, planned
from easeml_meter.server.web.pages import MaybeCaller, render
from easeml_meter.service.tokens import Caller
from easeml_meter.spec import DEFAULT_STEPS, GAP, METERS, MeterSpec

router = APIRouter(include_in_schema=False)

DEFAULTS = {
    "want": "tolerance",
    "ask": "",
    "labels": "500",
    "steps": str(DEFAULT_STEPS),
    "validation": "",
    "signals": "",
    "tolerance": "",
    "edges": "",
    "confidence": "90",
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
    "tolerance": "what my labels promise",
    "labels": "how many labels I need",
    "steps": "how many answers my labels give",
}
"""What can be asked; the other two are given, or have defaults."""
ASKS = {"": "what promises most", ALARM: "ok, or an alarm", GAP: "a band of the gap"}
"""What answers tell, where labels are given; without a word, the first offer of `meter plan`."""
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
    forms: tuple[Form, ...]
    rows: tuple[MeterPrices, ...]
    problem: str
    """Why there is no comparison; empty if there is one."""
    chart: str
    few: str
    """That the labels carry fewer answers than ten; empty: they do not."""
    noise: str
    """Of the validation set; nothing is said where edges are not held against it."""
    ways: tuple[Way, ...]

    @property
    def gate(self) -> Sequence[Sequence[str]]:
        """What a gate finds with the same labels, as a table with its heading; empty: nothing."""
        found = gate_beside(self.plan.spec, self.plan.labels) if self.ways else ()
        return reach_rows(found) if found else ()

    @property
    def cost(self) -> float | None:
        """What the labels cost."""
        return None if self.price is None else self.plan.labels * self.price

    @property
    def bands(self) -> str:
        """A picture of the bands with their tolerance."""
        return bands_svg(self.plan.spec)

    def query(self, asked: Mapping[str, str]) -> str:
        """Return the meter that was found, for the form of a new one."""
        spec = self.plan.spec
        asks = GAP if spec.meter.question.reads == GAP else ALARM
        found = {"steps": str(spec.meter.budget.steps), "asks": asks}
        if self.want != "tolerance":
            found |= {"want": "labels", "labels": ""}
        return _query({**asked, **found})

    def of_way(self, way: Way, asked: Mapping[str, str]) -> str:
        """Return the form that asks for another way."""
        spec = way.plan.spec
        question, steps = spec.meter.question, str(spec.meter.budget.steps)
        drawn = "" if question.draws is None else str(float(question.draws))
        found = {"labels": str(way.plan.labels), "steps": steps, "drawn": drawn}
        found |= {
            "ask": GAP if question.reads == GAP else ALARM,
            "confidence": f"{float(100 * (1 - spec.meter.delta)):g}",
        }
        return _query({**asked, **found})

    @property
    def recommended(self) -> Form:
        """The form to take first."""
        return recommended(self.forms)

    @property
    def baseline(self) -> int:
        """Labels that a fresh test set for every step needs, as published."""
        row = next(row for row in self.rows if row.name.startswith("resampling"))
        return row.published.labels


def _query(asked: Mapping[str, str]) -> str:
    return urlencode({name: value for name, value in asked.items() if value})


@router.get("/planner")
async def planner(request: Request, caller: MaybeCaller, _: PlannerCounted) -> Response:
    """Show the form with its answer; everything asked stands in the address."""
    return await _page(request, "planner.html", caller)


@router.get("/planner/answer")
async def planner_answer(request: Request, caller: MaybeCaller, _: PlannerCounted) -> Response:
    """Return the answer alone, for the place beside the form."""
    return await _page(request, "planner_answer.html", caller)


async def _page(request: Request, template: str, caller: Caller | None) -> Response:
    asked = asked_of(request.query_params)
    answer, problem = None, ""
    try:
        answer = await planned(request, answer_to, asked)
    except InvalidInput as error:
        problem = str(error)
    shown = await run_in_threadpool(
        render,
        request,
        template,
        asked=asked,
        answer=answer,
        problem=problem,
        few=gate_of_few(asked) if problem else (),
        query=_query(asked),
        meters=METERS,
        wants=WANTS,
        asks=ASKS,
        stories=stories(),
        losses=LOSSES,
        caller=caller,
    )
    shown.headers["Cache-Control"] = "no-store"
    return shown


@cache
def stories() -> dict[str, str]:
    """Return stories that a plan can start from, each with its query."""
    return {title: _query(_form_of(preset)) for title, preset in told().items()}


def _form_of(preset: Mapping[str, Any]) -> dict[str, str]:
    given = {name: str(value) for name, value in preset.items() if name != "delta"}
    confidence = f"{round(100 - 100 * preset['delta'], 12):g}"
    return (
        DEFAULTS | {"want": "labels", "labels": "", "ask": GAP} | given | {"confidence": confidence}
    )


def asked_of(query: Mapping[str, str]) -> dict[str, str]:
    """Return the fields of the form; those that a link leaves out are as at first."""
    asked = {name: query.get(name, usual).strip()[:_LONGEST] for name, usual in DEFAULTS.items()}
    # The form sends the labels one has, or an example, also where they are asked for.
    return asked | {"labels": ""} if asked["want"] in ("", "labels") else asked


def answer_to(asked: Mapping[str, str]) -> PlannerAnswer:
    """Plan what was asked, and compare it with all other meters."""
    price = optional_share(asked, "price")
    if price is not None and not (math.isfinite(price) and 0 <= price <= 1e9):
        raise invalid("price", asked["price"], "an amount of money, 0 or more")
    if (alarm := _alarm(asked)) is not None:
        ways = tuple(way for way in other_ways(alarm, alarm.labels) if way.added)
        return PlannerAnswer(_want(asked), alarm, price, (), (), "", "", "", "", ways)
    spec, single = _spec(asked)
    plan = _answered(asked, spec)
    spec = plan.spec
    comparison = compared(_setting(spec.meter, single), int(spec.meter.budget.steps), plan.labels)
    want = _want(asked)
    said = beside(plan, asked, alone=want == "tolerance")
    return PlannerAnswer(want, plan, price, *comparison, *said)


_BANDS = ("edges", "signals", "ceiling", "drawn", "models", "clusters")


def _alarm(asked: Mapping[str, str]) -> Plan | None:
    """Plan what ok will mean, if that is the first offer for what was typed; None: bands are."""
    if asked["ask"] not in ASKS:
        raise invalid("ask", asked["ask"], f"one of {', '.join(filter(None, ASKS))}")
    usual = asked["protocol"] == DEFAULTS["protocol"] and asked["loss"] in ("", "0-1")
    if _want(asked) != "tolerance" or asked["ask"] == GAP or not usual:
        return None
    if any(asked[name] for name in _BANDS):
        return None
    labels, steps, delta = _labels(asked), read_steps(asked, _MORE), read_delta(asked)
    if not asked["ask"] and not starts_with_alarm(labels, steps, delta):
        return None
    teams = read_tenants(asked)
    count, shared = sum(teams) or steps, bool(asked["handover"])
    plan = plan_alarm(labels, steps=count, delta=delta, tenants=teams, handover=shared)
    return with_validation(plan, optional_whole(asked, "validation"))


def _labels(asked: Mapping[str, str]) -> int:
    labels = checks.read_whole("labels", asked["labels"])
    if not 1 <= labels <= _MOST_LABELS:
        raise invalid("labels", labels, f"1 to {_MOST_LABELS:,} here; meter plan takes more")
    return labels


def gate_of_few(asked: Mapping[str, str]) -> Sequence[Sequence[str]]:
    """Return what a gate finds with so few labels that they promise nothing else, as a table."""
    try:
        labels = checks.read_whole("labels", asked["labels"])
        if _want(asked) != "tolerance" or labels >= FEWEST:
            return ()
        spec = MeterSpec.uniform(tolerance=0.1, delta=read_delta(asked))
    except InvalidInput:
        return ()
    found = gate_beside(spec, labels)
    return reach_rows(found) if found else ()


def _want(asked: Mapping[str, str]) -> str:
    want = asked["want"] or "labels"
    if want not in WANTS:
        raise invalid("want", want, f"one of {', '.join(WANTS)}")
    return want


def _answered(asked: Mapping[str, str], spec: MeterSpec) -> Plan:
    want = _want(asked)
    if want == "labels":
        return plan_of(spec)
    labels = _labels(asked)
    if want == "tolerance":
        return plan_asked(spec, labels, asked)
    meter = spec.meter
    most = MOST_STEPS if meter.question.limit is None else MOST_WITH_CEILING
    if meter.budget.apart == 1 and solve.labels(solve.with_steps(meter, most)) <= labels:
        allowed = f"fewer here: they give {most:,} answers or more; meter plan counts on"
        raise invalid("labels", labels, allowed)
    return plan_of(spec, labels)


def plan_asked(spec: MeterSpec, labels: int, asked: Mapping[str, str]) -> Plan:
    """Plan what labels promise: ten answers, as nobody asks otherwise, or what they carry."""
    own = bool(asked["edges"] or asked["signals"])
    return plan_labels(spec, labels, _steps(asked), keep_edges=own)


def beside(
    plan: Plan, asked: Mapping[str, str], *, alone: bool
) -> tuple[str, str, tuple[Way, ...]]:
    """Say that labels alone carry few answers, how noisy the validation set is, and other ways."""
    rows = optional_whole(asked, "validation")
    noise = validation_noise(max(1, plan.labels // 2) if rows is None else rows, plan.spec)
    few = fewer_answers(plan, plan.labels, _steps(asked)) if alone else ""
    # Of other losses, they take longer than the half second that a stranger gets.
    ways = other_ways(plan, plan.labels) if alone and plan.spec.meter.sample.zero_one else ()
    return few, noise, tuple(way for way in ways if way.added)


def _steps(asked: Mapping[str, str]) -> int | None:
    """Return the answers that somebody asked for; ten are nobody's choice."""
    steps = optional_whole(asked, "steps")
    return None if steps == DEFAULT_STEPS else steps


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
    ceiling, drawn_edges = (optional_share(asked, name) for name in ("ceiling", "drawn"))
    if drawn_edges is not None and (bands.edges or bands.signals):
        raise invalid(
            "drawn", drawn_edges, "the meter draws the edges: leave bands and edges empty"
        )
    spec = MeterSpec.uniform(
        **bands.settings, steps=steps, delta=delta, protocol=asked["protocol"]
    ).replace(
        ceiling=ceiling,
        drawn=drawn_edges,
        loss=loss,
        tenants=read_tenants(asked),
        **{name: bool(asked[name]) for name in _CHOICES},
    )
    return spec, len(bands.tolerances) == 1


_GUESSES = {"steps": {"steps": "1"}, "tolerance": {"tolerance": "0.1"}}
"""What stands in place of a number that has yet to be found."""


def _setting(meter: Meter, single: bool) -> Setting:
    """Return what all meters are compared by; drawn edges are compared with the default ones."""
    question = meter.question
    tolerances, edges = tuple(map(float, question.tolerances)), question.ends[1:-1]
    if not question.numbered:
        edges = default_edges(question.tolerances[0])
    if single or not question.numbered:  # as `meter compare` does, after the paper
        tolerances = tuple(tolerances[0] * (k + 1) for k in range(len(edges) + 1))
    limit = None if question.limit is None else float(question.limit)
    inner = tuple(map(float, edges))
    return Setting(len(inner) + 1, tolerances, float(meter.delta), limit, inner)


MOST_STEPS, MOST_SIGNALS = 10_000, 20
"""What is answered in a blink; the command line takes more."""
MOST_WITH_CEILING = 1_000


def optional_whole(asked: Mapping[str, str], name: str) -> int | None:
    """Read a field that may be empty."""
    return checks.read_whole(name, asked[name]) if asked[name] else None


def optional_share(asked: Mapping[str, str], name: str) -> float | None:
    """Read a field that may be empty."""
    return checks.read_share(name, asked[name]) if asked[name] else None


def read_tenants(asked: Mapping[str, str]) -> tuple[int, ...]:
    """Read the steps of each team, such as 5,5; it may be empty."""
    given = asked["tenants"]
    return tuple(checks.read_whole("tenants", part) for part in given.split(",") if given)


def read_steps(asked: Mapping[str, str], more: str) -> int:
    """Read how many answers a meter gives; `more` says who plans larger ones."""
    steps = optional_whole(asked, "steps")
    steps = DEFAULT_STEPS if steps is None else steps
    if not 1 <= steps <= MOST_STEPS:
        raise invalid("steps", steps, f"1 to {MOST_STEPS:,} here; {more}")
    if asked["ceiling"] and steps > MOST_WITH_CEILING:
        raise invalid("steps", steps, f"1 to {MOST_WITH_CEILING:,} here with a ceiling; {more}")
    return steps


def read_delta(asked: Mapping[str, str]) -> float:
    """Read the confidence that people choose; return the delta that a meter has instead."""
    return checks.read_confidence(asked["confidence"] or DEFAULTS["confidence"])


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
        if not asked["tolerance"]:
            raise invalid("tolerance", "", allowed)
        tolerances = tuple(checks.read_shares("tolerance", asked["tolerance"]))
        edges = tuple(checks.read_shares("edges", asked["edges"])) if asked["edges"] else ()
        signals = optional_whole(asked, "signals")
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
