"""Questions: what each of them refuses, alone and together with others."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

from easeml_meter.checks import refuse_with, settle
from easeml_meter.conditions import BETTER
from easeml_meter.errors import invalid
from easeml_meter.spec.bands import check_bands
from easeml_meter.spec.names import GAP, Bound, Count, Gap, Protocol, is_zero_one

if TYPE_CHECKING:
    from easeml_meter.spec.meter import MeterSpec

_MOST_ALSO = 19
"""Questions are counted one by one: more of them than anybody reads are refused."""
OF_THE_GAP = ("gap", "bound", "drawn", "ceiling", "variance_ceiling")
"""Settings of a meter's bands, which no other question has."""


EVERY_LABEL = (
    'a clause about "n" reads every label, also where both models predict the same, '
    "which no step asks for"
)
"""Why how accurate a model is by itself cannot be asked with labels on demand."""


def check_question(spec: MeterSpec) -> None:
    """Check the bands of a meter for the gap; a condition has none, and refuses the rest."""
    for text in spec.questions:
        if not isinstance(text, str):
            raise invalid("question", text, 'a text, such as "n > 0.8 +/- 0.01"')
    if spec.also:
        check_also(spec)
        return
    if spec.asked is None:
        for name in ("passes", "disagreement", "tolerance"):
            if getattr(spec, name) is not None:
                raise invalid(name, getattr(spec, name), "only with a question, or in [[bands]]")
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
        f"the bound {spec.bound}": spec.bound not in (None, Bound.EXACT),
        "published": spec.published,
        'count = "all"': spec.count is Count.ALL,
        "drawn": spec.drawn is not None,
        "above": spec.above is not None,
        "ceiling": spec.ceiling is not None,
        "variance ceiling": spec.variance_ceiling is not None,
        "elastic": spec.elastic,
        "sticky": spec.sticky,
        "reverts": spec.reverts,
        "masked reverts": spec.masked_reverts,
        "memory": spec.memory is not None,
        "resets": spec.resets,
        "passes and isolated teams": spec.passes is not None and spec.tenants and not spec.handover,
    }
    refuse_with("question", spec.question, unasked, "no gap, so not with {}")


def check_also(spec: MeterSpec) -> None:
    """Check each question as if it were the only one, and that together they are counted."""
    if len(spec.also) > _MOST_ALSO:
        raise invalid("also", f"{len(spec.also)} questions", f"at most {_MOST_ALSO}")
    if GAP in spec.also:
        raise invalid("also", GAP, 'bands are those of the question: write question = "gap"')
    uncounted = {
        f"the {spec.protocol} protocol": spec.protocol is not Protocol.REGULAR,
        "passes": spec.passes is not None,
        "tenants": spec.tenants,
        "above": spec.above is not None,
        "elastic": spec.elastic,
        "published": spec.published,
        'count = "all"': spec.count is Count.ALL,
        "reverts": spec.reverts,
        "masked reverts": spec.masked_reverts,
        "resets": spec.resets,
        "memory": spec.memory is not None,
        "clusters": spec.clusters,
        "on_demand": spec.on_demand,
    }
    if spec.question.strip() != GAP:
        of_bands = {
            name: getattr(spec, name) != default for name, default in of_the_gap(spec).items()
        }
        uncounted |= of_bands | {"bands": spec.bands}
    refuse_with("also", "; ".join(spec.questions), uncounted, "not with {}")
    if spec.disagreement is not None and not any(each.disagreement for each in spec.each):
        raise invalid("disagreement", spec.disagreement, 'only with "n - o"')
    if spec.tolerance is not None and BETTER not in (each.question for each in spec.each):
        raise invalid("tolerance", spec.tolerance, "conditions have their own, after +/-")
    names = tuple(each.question for each in spec.each)
    if len(set(names)) < len(names):
        raise invalid("also", list(spec.also), "each question once")
    settle(spec, question=names[0], also=names[1:])


def check_on_demand(spec: MeterSpec) -> None:
    """Refuse what reads labels of rows on which the two models agree."""
    if not spec.on_demand:
        return
    if not spec.compares or spec.disagreement is None:
        needed = 'only with "n - o" and a disagreement, which says how many labels a step needs'
        raise invalid("on_demand", True, needed)
    if spec.condition is not None and spec.condition.reads_every_label:
        raise invalid("on_demand", True, f"{EVERY_LABEL}: leave it or on_demand out")


def of_the_gap(spec: MeterSpec) -> dict[str, object]:
    """Return what `OF_THE_GAP` is where nothing is said."""
    return {field.name: field.default for field in fields(spec) if field.name in OF_THE_GAP}
