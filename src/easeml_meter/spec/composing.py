"""The flat settings of a meter as a composition, and back: question, budget, sample, renewal."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from easeml_meter.conditions import ALARM, BETTER, Variable
from easeml_meter.errors import InvalidInput, invalid
from easeml_meter.promise.alarm import Alarm
from easeml_meter.promise.budgets import Memory, Reverts, Steps
from easeml_meter.promise.closing import Closing, Shares
from easeml_meter.promise.condition import Change, Condition
from easeml_meter.promise.gap import Gap
from easeml_meter.promise.keep import Keep
from easeml_meter.promise.meter import Budget, Meter, Question, Renewal
from easeml_meter.promise.renewals import EveryStep, Fresh, TopUp, Window
from easeml_meter.promise.samples import Clusters, Judge, OnDemand, Rows, Strata
from easeml_meter.promise.schema import NO_END, exact
from easeml_meter.promise.teams import Teams
from easeml_meter.spec.bands import Band
from easeml_meter.spec.names import Gap as Sign
from easeml_meter.spec.names import Protocol

if TYPE_CHECKING:
    from easeml_meter.spec.meter import MeterSpec

_PLAIN = (
    *("loss", "labels", "classes", "inputs", "models", "commands_may_carry_inputs_out"),
    *("metric", "rows", "tries"),
)
"""What is called the same in flat settings and in the table of a sample."""


def compose(spec: MeterSpec) -> Meter:
    """Return the meter that flat settings describe; counts as published have no place in one."""
    return Meter(
        question=_question(spec),
        budget=_budget(spec),
        sample=_sample(spec),
        renewal=_renewal(spec),
        delta=exact(spec.delta),
    )


def _question(spec: MeterSpec) -> Question:
    disagreement = None if spec.disagreement is None else exact(spec.disagreement)
    if spec.vouches:
        return Alarm(g=spec.g, expects=spec.expects)  # type: ignore[arg-type]
    if spec.difference is not None:
        return Change(ask=str(spec.difference), disagreement=disagreement or exact(1))
    if spec.condition is not None:
        better = spec.question.strip() == BETTER
        return Condition(
            ask=str(spec.condition),
            disagreement=disagreement,
            than="kept" if better else "deployed",
        )
    equal = len(set(spec.tolerances)) == 1
    floor = spec.floor
    return Gap(
        tolerance=spec.tolerances[:1] if equal else spec.tolerances,  # type: ignore[arg-type]
        edges=None if spec.drawn is not None else tuple(map(exact, spec.edges)),
        drawn=spec.drawn,  # type: ignore[arg-type]
        worst=spec.protocol is Protocol.INCREMENTAL,
        signed=spec.gap is Sign.SIGNED,
        ceiling=spec.ceiling if floor is None else None,  # type: ignore[arg-type]
        floor=floor,  # type: ignore[arg-type]
    )


def _budget(spec: MeterSpec) -> Budget:
    steps, first = spec.steps, spec.topped_up or spec.steps
    closing = None
    if spec.vouches:
        no_end: Any = NO_END
        count = no_end if spec.endless else steps
        closing = Closing(alarms=spec.alarms, steps=count)
    elif spec.passes is not None:
        closing = Closing(passes=spec.passes + 1, steps=steps)
    if len(spec.tenants) > 1:
        return Teams(teams=spec.tenants, handover=spec.handover, each=closing)
    if spec.protocol is Protocol.INDEPENDENT:
        return Memory(steps=steps, memory=0)
    if spec.memory is not None:
        return Memory(steps=steps, memory=spec.memory)
    if spec.reverts:
        return Reverts(steps=steps, reverts=spec.reverts)
    return closing or Steps(steps=first)


def _sample(spec: MeterSpec) -> Rows:
    plain: dict[str, Any] = {name: getattr(spec, name) for name in _PLAIN}
    if spec.clusters:
        return Clusters(cluster=str(spec.clusters), **plain)
    if spec.stratified:
        parts = {"strata": spec.strata, "weights": spec.weights, "sizes": spec.sizes}
        return Strata(stratum=spec.stratum, **parts, **plain)  # type: ignore[arg-type]
    if spec.judge_error is not None and spec.pool is not None:
        return Judge(judge_error=spec.judge_error, pool=spec.pool, **plain)  # type: ignore[arg-type]
    return OnDemand(**plain) if spec.on_demand else Rows(**plain)


def _renewal(spec: MeterSpec) -> Renewal:
    if spec.window is not None:
        return Window(window=spec.window, answers=spec.submissions)
    if spec.top_up is not None or spec.topped_up:
        return TopUp(then=spec.top_up or spec.steps)
    return EveryStep() if spec.protocol is Protocol.RESAMPLING else Fresh()


def flatten(meter: Meter) -> MeterSpec:
    """Return the flat settings of a meter.

    Raises:
        InvalidInput: the meter can be planned, and not be asked yet.
    """
    from easeml_meter.spec.meter import DEFAULT_STEPS, MeterSpec

    budget, renewal = meter.budget, meter.renewal
    question, protocol = _flat_question(meter.question), _protocol(meter)
    steps, endless = budget.steps, budget.steps == NO_END
    if not isinstance(steps, int):
        if not isinstance(meter.question, Alarm):
            raise _not_yet("budget.steps", steps, "a number of answers; alarms alone have no end")
        steps = DEFAULT_STEPS
    if protocol is Protocol.INDEPENDENT:  # which remembers nothing, by another name
        budget = Steps(steps=steps)
    return MeterSpec(
        delta=float(meter.delta),
        steps=steps,
        endless=endless,
        protocol=protocol,
        **question,
        **_flat_budget(budget),
        **_flat_sample(meter),
        window=renewal.window if isinstance(renewal, Window) else None,
        submissions=renewal.answers if isinstance(renewal, Window) else 1,
        top_up=renewal.then if isinstance(renewal, TopUp) else None,
    )


def _not_yet(name: str, value: object, needed: str) -> InvalidInput:
    return invalid(name, value, f"no meter has it yet: {needed}")


def _protocol(meter: Meter) -> Protocol:
    if isinstance(meter.renewal, EveryStep):
        if isinstance(meter.question, Gap) and meter.question.worst:
            raise _not_yet("question.worst", True, "leave it out, or every_step")
        return Protocol.RESAMPLING
    if isinstance(meter.question, Gap) and meter.question.worst:
        return Protocol.INCREMENTAL
    unseen = isinstance(meter.budget, Memory) and meter.budget.memory == 0
    return Protocol.INDEPENDENT if unseen else Protocol.REGULAR


def _flat_question(question: Question) -> dict[str, Any]:
    if isinstance(question, Keep):
        raise _not_yet("question.ask", "keep", "ask alarm, gap or a condition, or use meter gate")
    if isinstance(question, Alarm):
        if question.g is not None and len(question.g) > 1:
            raise _not_yet("question.g", list(map(float, question.g)), "one number")
        g = None if question.g is None else float(question.g[0])
        return {"bands": (), "question": ALARM, "g": g, "expects": float(question.expects)}
    if isinstance(question, Gap):
        return _flat_gap(question)
    limit = None if question.disagreement is None else float(question.disagreement)
    found = {"bands": (), "question": question.ask, "disagreement": limit}
    if not isinstance(question, Condition) or question.than == "deployed":
        return found
    first, *others = question.clauses.clauses
    if others or (first.variable, first.above, first.threshold) != (Variable.CHANGE, True, 0):
        raise _not_yet("question.than", "kept", 'ask = "n - o > 0 +/- 0.02" alone has it')
    return {**found, "question": BETTER, "tolerance": first.tolerance}


def _flat_gap(question: Gap) -> dict[str, Any]:
    if question.drawn is not None and question.worst:
        raise _not_yet("question.worst", True, "leave out drawn, or worst")
    ends = itertools.pairwise(map(float, question.ends))
    tolerances = map(float, question.tolerances)
    return {
        "bands": tuple(Band(*each, eps) for each, eps in zip(ends, tolerances, strict=True)),
        "gap": Sign.SIGNED if question.signed else Sign.ABSOLUTE,
        **{
            name: None if number is None else float(number)
            for name in ("drawn", "ceiling", "floor")
            if (number := getattr(question, name)) is not None
        },
    }


def _flat_budget(budget: Budget) -> dict[str, Any]:
    if isinstance(budget, Teams):
        closing = {} if budget.each is None else _flat_budget(budget.each)  # type: ignore[arg-type]
        return {"tenants": budget.teams, "handover": budget.handover, **closing}
    if isinstance(budget, Reverts):
        return {"reverts": budget.reverts}
    if isinstance(budget, Memory):
        return {"memory": budget.memory}
    if isinstance(budget, Shares):
        raise _not_yet("budget.gate", True, "leave it out, or use meter gate")
    if isinstance(budget, Steps):
        if budget.levels != "equal":
            raise _not_yet("budget.levels", budget.levels, "leave it out")
        return {}
    for name in ("fails", "keeps", "shares"):
        if (value := getattr(budget, name)) is not None:
            raise _not_yet(f"budget.{name}", value, "alarms, passes and steps close a test set")
    return {
        "alarms": budget.alarms,
        "passes": None if budget.passes is None else budget.passes - 1,
    }


def _flat_sample(meter: Meter) -> dict[str, Any]:
    sample = meter.sample
    found = {name: getattr(sample, name) for name in _PLAIN}
    if isinstance(sample, Clusters):
        if sample.largest is not None:
            raise _not_yet("sample.largest", sample.largest, "leave it out")
        return {**found, "clusters": sample.cluster}
    if isinstance(sample, Strata):
        weights = tuple(map(float, sample.weights))
        parts = {"stratum": sample.stratum, "strata": sample.strata, "sizes": sample.sizes}
        return {**found, **parts, "weights": weights}
    if isinstance(sample, Judge):
        return {**found, "judge_error": float(sample.judge_error), "pool": sample.pool}
    return {**found, "on_demand": isinstance(sample, OnDemand)}
