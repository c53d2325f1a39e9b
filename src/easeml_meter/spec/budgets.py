"""Budgets: whose steps they are, which are undone or forgotten, and windows that roll on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from easeml_meter.checks import refuse_with, whole
from easeml_meter.errors import invalid
from easeml_meter.spec.names import GAP, METERS, Count, Protocol, is_zero_one

if TYPE_CHECKING:
    from easeml_meter.spec.meter import MeterSpec


def check_tenants(spec: MeterSpec) -> None:
    """Check that teams share the steps."""
    for share in spec.tenants:
        whole("tenants", share, at_least=1)
    if spec.tenants and sum(spec.tenants) != spec.steps:
        given = ",".join(map(str, spec.tenants))
        raise invalid("tenants", given, f"must sum to the steps, {spec.steps}")
    if spec.handover and not spec.tenants:
        raise invalid("handover", True, "only with several teams: give their steps as tenants")


def check_reverts(spec: MeterSpec) -> None:
    """Check steps that are undone by a schedule."""
    for index, step in enumerate(spec.reverts):
        whole("reverts", step, at_least=1)
        if step > spec.steps:
            raise invalid("reverts", step, f"a step from 1 to {spec.steps}")
        if index and step < spec.reverts[index - 1]:
            raise invalid("reverts", step, "steps in increasing order")
        if step - index < 1:
            raise invalid("reverts", step, "one revert undoes one step: too many too early")


def check_memory(spec: MeterSpec) -> None:
    """Refuse what no count is known for."""
    if spec.memory is not None:
        whole("memory", spec.memory, at_least=0)
    special = {
        "reverts": bool(spec.reverts),
        "memory": spec.memory is not None,
    }
    named = [name for name, used in special.items() if used]
    if len(named) > 1:
        raise invalid(named[0], f"with {named[1]}", "no count is known for both at once")
    if named and spec.tenants:
        raise invalid("tenants", ",".join(map(str, spec.tenants)), f"not with {named[0]}")
    if spec.protocol not in METERS:
        for name in [*named, *(["tenants"] if spec.tenants else [])]:
            raise invalid(name, f"with the {spec.protocol} protocol", "only meters have it")


def check_top_up(spec: MeterSpec) -> None:
    """Refuse what the proof for topped-up test sets does not cover."""
    whole("topped up", spec.topped_up, at_least=0)
    if spec.top_up is not None:
        whole("top up", spec.top_up, at_least=1)
    if spec.stages == 1:
        return
    unproved = {
        f'the question "{spec.question}"': spec.question != GAP,
        f"the {spec.protocol} protocol": spec.protocol is not Protocol.REGULAR,
        f"the loss {spec.loss}": spec.corpus is not None,
        "judge_error": spec.judged,
        "published": spec.published,
        "tenants": spec.tenants,
        "reverts": spec.reverts,
        "memory": spec.memory is not None,
        "window": spec.window is not None,
        "clusters": spec.clusters,
    }
    given = spec.top_up or spec.steps
    refuse_with("top up", given, unproved, "not with {}: no proof covers it")


def check_window(spec: MeterSpec) -> None:
    """Refuse what the proof for rolling test sets does not cover."""
    whole("submissions", spec.submissions, at_least=1)
    if spec.window is None:
        if spec.submissions != 1:
            raise invalid("submissions", spec.submissions, "only with a window")
        return
    whole("window", spec.window, at_least=1)
    unproved = {
        f'the question "{spec.question}"': spec.question != GAP,
        f"the {spec.protocol} protocol": spec.protocol is not Protocol.REGULAR,
        f"the loss {spec.loss}": not is_zero_one(spec.loss),
        "unequal tolerances": len(set(spec.tolerances)) > 1,
        "published": spec.published,
        'count = "all"': spec.count is Count.ALL,
        "ceiling": spec.ceiling is not None,
        "tenants": spec.tenants,
        "reverts": spec.reverts,
        "memory": spec.memory is not None,
        "clusters": spec.clusters,
    }
    refuse_with("window", spec.window, unproved, "not with {}: no proof covers it")
