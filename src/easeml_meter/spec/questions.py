"""Questions: what each of them refuses, alone and together with others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from easeml_meter.checks import refuse_with, settle
from easeml_meter.conditions import BETTER
from easeml_meter.errors import invalid
from easeml_meter.spec.bands import check_bands
from easeml_meter.spec.names import Count, Gap, Protocol, is_zero_one

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
        "published": spec.published,
        'count = "all"': spec.count is Count.ALL,
        "drawn": spec.drawn is not None,
        "ceiling": spec.ceiling is not None,
        "reverts": spec.reverts,
        "memory": spec.memory is not None,
        "passes and isolated teams": spec.passes is not None and spec.tenants and not spec.handover,
    }
    refuse_with("question", spec.question, unasked, "no gap, so not with {}")


def check_on_demand(spec: MeterSpec) -> None:
    """Refuse what reads labels of rows on which the two models agree."""
    if not spec.on_demand:
        return
    if not spec.compares or spec.disagreement is None:
        needed = 'only with "n - o" and a disagreement, which says how many labels a step needs'
        raise invalid("on_demand", True, needed)
    if spec.condition is not None and spec.condition.reads_every_label:
        raise invalid("on_demand", True, f"{EVERY_LABEL}: leave it or on_demand out")
