"""Scores: of a whole test set, by a judge, or reported by whoever submits."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from easeml_meter.checks import finite, refuse_with, settle, whole
from easeml_meter.errors import invalid
from easeml_meter.spec.names import METERS, Gap

if TYPE_CHECKING:
    from easeml_meter.spec.meter import MeterSpec

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
