"""What settings refuse, alone and together: questions, readings of the gap, scores, budgets."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from easeml_meter.checks import finite, refuse_with, settle, whole
from easeml_meter.conditions import BETTER
from easeml_meter.errors import invalid
from easeml_meter.promise.schema import NO_END
from easeml_meter.spec.bands import Band, check_bands
from easeml_meter.spec.names import GAP, METERS, Count, Gap, Protocol, is_zero_one

if TYPE_CHECKING:
    from easeml_meter.spec.meter import MeterSpec

EVERY_LABEL = (
    'a clause about "n" reads every label, also where both models predict the same, '
    "which no step asks for"
)
"""Why how accurate a model is by itself cannot be asked with labels on demand."""


def check_question(spec: MeterSpec) -> None:
    """Check the bands of a meter for the gap; a condition has none, and refuses the rest."""
    if not isinstance(spec.question, str):
        raise invalid("question", spec.question, 'a text, such as "n > 0.8 +/- 0.01"')
    for name in ("g", "expects", "alarms", "labels"):
        if getattr(spec, name) is not None and not spec.vouches:
            raise invalid(name, getattr(spec, name), 'only with question = "alarm"')
    if spec.endless and not spec.vouches:
        raise invalid("steps", NO_END, 'a number: only question = "alarm" goes on without an end')
    if spec.vouches:
        _check_alarm(spec)
    if spec.asked is None:
        for name in ("passes", "disagreement", "tolerance"):
            if getattr(spec, name) is not None:
                raise invalid(name, getattr(spec, name), "only with a condition, or in the bands")
        check_bands(spec.bands)
        return
    settle(spec, question=BETTER if spec.ladder else str(spec.asked))
    if spec.difference is not None and spec.disagreement is None:
        needed = "a reading of n - o needs one, such as 0.1"
        raise invalid("disagreement", None, needed)
    if spec.compares and spec.models:
        raise invalid("models", spec.models, "only predictions are compared with an old model")
    if not is_zero_one(spec.loss):
        raise invalid("loss", spec.loss, 'a question about n needs "0-1" or "top-K"')
    if spec.clusters:
        raise invalid("clusters", True, "a question about n needs rows that are independent")
    unasked = {
        "bands": spec.bands,
        f"the {spec.protocol} protocol": spec.protocol is not Protocol.REGULAR,
        "a signed gap": spec.gap is not Gap.ABSOLUTE,
        "published": spec.published,
        'count = "all"': spec.count is Count.ALL,
        "drawn": spec.drawn is not None,
        "ceiling": spec.ceiling is not None,
        "reverts": spec.reverts,
        "memory": spec.memory is not None,
        "passes and isolated teams": spec.passes is not None and spec.tenants and not spec.handover,
    }
    refuse_with("question", spec.question, unasked, "no gap, so not with {}")


def _check_alarm(spec: MeterSpec) -> None:
    settle(spec, alarms=spec.alarms or _ALARMS)
    settle(spec, expects=spec.expects or _EXPECTS)
    for name, most in (("g", 1.0), ("expects", 1.0)):
        value = getattr(spec, name)
        if value is not None and not 0 < value < most:
            raise invalid(name, value, "a number between 0 and 1, such as 0.1")
    if spec.g is None and spec.labels is None:
        raise invalid("labels", None, 'an alarm needs the labels there are, or "g"')
    for name in ("alarms", "labels"):
        if getattr(spec, name) is not None:
            whole(name, getattr(spec, name), at_least=1)
    if spec.delta > MOST_DELTA:
        raise invalid("delta", spec.delta, f"at most {MOST_DELTA:g} with an alarm")
    unproved = {
        "teams and no end": spec.endless and spec.tenants,
        "window": spec.window is not None,
        "top_up": spec.top_up is not None or spec.topped_up,
        "a judge": spec.judged,
        f"tries = {spec.tries}": spec.tries > 1,
    }
    refuse_with("question", spec.question, unproved, "not with {}: nobody has proved it")


_ALARMS, _EXPECTS = 3, 0.2
MOST_DELTA = 0.25
"""The largest delta of claims: see `promise.kernel`."""


def check_on_demand(spec: MeterSpec) -> None:
    """Refuse what reads labels of rows on which the two models agree."""
    if not spec.on_demand:
        return
    if not spec.compares or spec.disagreement is None:
        needed = 'only with "n - o" and a disagreement, which says how many labels a step needs'
        raise invalid("on_demand", True, needed)
    if spec.takes_scores:
        raise invalid("on_demand", True, f"a loss with labels: {spec.loss} reads none")
    if spec.condition is not None and spec.condition.reads_every_label:
        raise invalid("on_demand", True, f"{EVERY_LABEL}: leave it or on_demand out")


NARROWEST_DRAWN = 1e-4


def check_drawn(spec: MeterSpec) -> None:
    """Refuse what no proof covers, and leave one band, from 0 to 1, for its tolerance."""
    if spec.drawn is None:
        return
    finite("drawn", spec.drawn)
    settle(spec, drawn=float(spec.drawn))
    if not NARROWEST_DRAWN <= spec.drawn <= 1:
        raise invalid("drawn", spec.drawn, f"a distance from {NARROWEST_DRAWN:g} to 1")
    if round(spec.drawn, 6) != spec.drawn:  # so that every drawn edge is an exact decimal
        raise invalid("drawn", spec.drawn, "at most 6 decimals")
    if len(set(spec.tolerances)) > 1:
        raise invalid("tolerance", list(spec.tolerances), "drawn edges need one for all bands")
    unproved = {
        f"the {spec.protocol} protocol": spec.protocol is not Protocol.REGULAR,
        "published": spec.published,
        'count = "all"': spec.count is Count.ALL,
        "ceiling": spec.ceiling is not None,
        "reverts": spec.reverts,
        "memory": spec.memory is not None,
    }
    refuse_with("drawn", spec.drawn, unproved, "not with {}: nobody has proved that count")
    settle(spec, bands=(Band(0.0, 1.0, spec.tolerances[0]),))


def check_published(spec: MeterSpec) -> None:
    """Refuse what the paper's own analysis does not cover."""
    if not spec.published:
        return
    beyond = {
        "ceiling": spec.ceiling,
        "memory": spec.memory,
    }
    if spec.models:
        raise invalid("models", spec.models, "the paper has no count for it: leave out published")
    if spec.may_fail:
        raise invalid("loss", spec.loss, "the paper has no count for it: leave out published")
    for name, value in beyond.items():
        if value is not None:
            raise invalid(name, value, "the paper has no count for it: leave out published")


_LONGEST_METRIC = 200
_MOST_TRIES = 1_000


def check_corpus(spec: MeterSpec) -> None:
    """Check what belongs to a score of the whole test set; a floor is a ceiling on its loss."""
    corpus = spec.corpus
    whole("tries", spec.tries, at_least=1)
    if spec.tries > _MOST_TRIES:
        raise invalid("tries", spec.tries, f"at most {_MOST_TRIES:,}")
    if spec.rows is not None:
        whole("rows", spec.rows, at_least=1)
    if spec.judged:
        check_judge(spec)
        return
    if spec.pool is not None:
        raise invalid("pool", spec.pool, "only with judge_error")
    if corpus is None:
        for name, default in (("floor", None), ("rows", None), ("tries", 1)):
            if getattr(spec, name) != default:
                allowed = 'only with a score of the whole test set, as in loss = "f1[fraud]"'
                raise invalid(name, getattr(spec, name), allowed)
        return
    if corpus.problem is not None:
        raise invalid("loss", spec.loss, corpus.problem)
    if spec.tries > 1 and not corpus.kind.sealed:
        raise invalid("tries", spec.tries, f"sealing checks nothing for the {corpus.word}")
    names = [str(each) for each in spec.classes]
    if corpus.kind.averaged and len(names) < 2:
        raise invalid("classes", names, f"an average over classes ({spec.loss}) needs the list")
    if corpus.kind.averaged and len(corpus.weights(len(names))) != len(names):
        raise invalid("loss", spec.loss, f"a weight for each of {len(names)} classes")
    if names and corpus.positive and corpus.positive not in names:
        raise invalid("loss", spec.loss, f"one of the classes, {', '.join(names)[:200]}")
    unproved = {
        "published": spec.published,
        "clusters": spec.clusters,
        f"the {spec.protocol} protocol": spec.protocol not in METERS,
    }
    refuse_with("loss", spec.loss, unproved, "not with {}: nobody has proved that count")
    if spec.curve and spec.gap is Gap.SIGNED:
        raise invalid("gap", str(spec.gap), "the distance of two curves has no sign: leave it out")
    if spec.floor is None:
        if spec.ceiling is not None:
            raise invalid("ceiling", spec.ceiling, "a score has a floor: floor = 0.8")
        return
    finite("floor", spec.floor)
    settle(spec, floor=float(spec.floor))
    if not 0 < spec.floor < 1 or round(spec.floor, 6) != spec.floor:
        allowed = "a score between 0 and 1 (both excluded), with at most 6 decimals"
        raise invalid("floor", spec.floor, allowed)
    if not corpus.kind.floor:
        raise invalid("floor", spec.floor, f"it saves no label of the {corpus.word}")
    if spec.drawn is not None:
        raise invalid("floor", spec.floor, "not with drawn edges: nobody has proved it")
    ceiling = float(1 - Fraction(repr(spec.floor)))
    if spec.ceiling not in (None, ceiling):
        raise invalid("ceiling", spec.ceiling, "a floor is one: leave it out")
    settle(spec, ceiling=ceiling)


def check_judge(spec: MeterSpec) -> None:
    """Check what belongs to a judge, whose estimate has a tail of its own."""
    finite("judge_error", spec.judge_error)
    if not 0 < (spec.judge_error or 0) < 1:
        raise invalid("judge_error", spec.judge_error, "a share between 0 and 1")
    if spec.pool is None:
        raise invalid("pool", None, "with judge_error: the rows without a label, as 100000")
    whole("pool", spec.pool, at_least=1)
    if spec.loss != "0-1":
        raise invalid("loss", spec.loss, "a judge needs the loss 0-1")
    unproved = {
        "published": spec.published,
        "ceiling": spec.ceiling is not None,
        "floor": spec.floor is not None,
        "question": spec.asked is not None,
        "window": spec.window is not None,
        "clusters": spec.clusters,
        f"the {spec.protocol} protocol": spec.protocol not in METERS,
    }
    refuse_with("judge_error", spec.judge_error, unproved, "not with {}: nobody has proved it")


def check_scores(spec: MeterSpec) -> None:
    """Check scores that are reported, and what is scored by them."""
    if not isinstance(spec.metric, str) or len(spec.metric) > _LONGEST_METRIC:
        raise invalid("metric", spec.metric, f"a text of at most {_LONGEST_METRIC} characters")
    if spec.metric and not spec.takes_scores:
        raise invalid("metric", spec.metric, 'only with loss = "score"')
    if spec.models and spec.clusters:
        raise invalid("models", spec.models, "not with clusters: submit predictions")
    if spec.models and spec.takes_scores:
        raise invalid("models", spec.models, f"the loss {spec.loss} takes scores, not models")


MOST_TEAMS = 1_000


def check_tenants(spec: MeterSpec) -> None:
    """Check that teams share the steps."""
    if len(spec.tenants) > MOST_TEAMS:
        raise invalid("tenants", f"{len(spec.tenants):,} teams", f"at most {MOST_TEAMS:,}")
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
