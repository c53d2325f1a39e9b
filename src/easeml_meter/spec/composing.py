"""The flat settings of a meter as a composition: question, budget, sample, renewal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from easeml_meter.conditions import BETTER
from easeml_meter.promise.alarm import Alarm
from easeml_meter.promise.budgets import Memory, Reverts, Steps
from easeml_meter.promise.closing import Closing
from easeml_meter.promise.condition import Change, Condition
from easeml_meter.promise.gap import Gap
from easeml_meter.promise.meter import Budget, Meter, Question, Renewal
from easeml_meter.promise.renewals import EveryStep, Fresh, TopUp, Window
from easeml_meter.promise.samples import Clusters, Judge, OnDemand, Rows, Strata
from easeml_meter.promise.schema import NO_END, exact
from easeml_meter.promise.teams import Teams
from easeml_meter.spec.names import Gap as Sign
from easeml_meter.spec.names import Protocol

if TYPE_CHECKING:
    from easeml_meter.spec.meter import MeterSpec

_THREE = 3
"""Alarms that close a test set, unless a meter says another number."""


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
        question = Alarm(g=spec.g)  # type: ignore[arg-type]
        return question if spec.expects is None else Alarm(g=question.g, expects=spec.expects)  # type: ignore[arg-type]
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
        closing = Closing(alarms=spec.alarms or _THREE, steps=count)
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
    plain: dict[str, Any] = {
        "loss": spec.loss,
        "labels": spec.labels,
        "classes": spec.classes,
        "inputs": spec.inputs,
        "models": spec.models,
        "commands_may_carry_inputs_out": spec.commands_may_carry_inputs_out,
        "metric": spec.metric,
        "rows": spec.rows,
        "tries": spec.tries,
    }
    if spec.clusters:
        return Clusters(cluster="cluster", **plain)
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
