"""Strata: parts of the distribution, each with a sample of its own of a fixed size."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

from easeml_meter.checks import MAX_NAME, finite, refuse_with, settle, whole
from easeml_meter.errors import invalid
from easeml_meter.spec.names import GAP, METERS

if TYPE_CHECKING:
    from easeml_meter.spec.meter import MeterSpec

MOST_STRATA = 1_000
_MOST_DECIMALS = 6


def check_strata(spec: MeterSpec) -> None:
    """Check the strata of a meter, and refuse what no proof covers with them."""
    if not isinstance(spec.stratum, str) or len(spec.stratum) > MAX_NAME:
        raise invalid("stratum", spec.stratum, f"a column's name of at most {MAX_NAME} characters")
    if not spec.stratified:
        for name in ("strata", "weights", "sizes"):
            if getattr(spec, name):
                raise invalid(name, list(getattr(spec, name)), 'only with stratum = "COLUMN"')
        return
    names = spec.strata
    if not all(isinstance(each, str | int) and not isinstance(each, bool) for each in names):
        raise invalid("strata", list(names), "a list of texts or whole numbers")
    if len({str(each) for each in names}) != len(names) or not 2 <= len(names) <= MOST_STRATA:
        raise invalid(
            "strata", list(names)[:20], f"each stratum once, 2 to {MOST_STRATA:,} of them"
        )
    _check_weights(spec)
    for size in spec.sizes:
        whole("sizes", size, at_least=1)
    if spec.sizes and len(spec.sizes) != len(names):
        raise invalid("sizes", list(spec.sizes), f"the rows of each of {len(names)} strata")
    unproved = {
        f"the loss {spec.loss}": spec.corpus is not None or spec.takes_scores,
        f'the question "{spec.question}"': spec.question != GAP,
        f"the {spec.protocol} protocol": spec.protocol not in METERS,
        "published": spec.published,
        "ceiling": spec.ceiling is not None,
        "a judge": spec.judged,
        "window": spec.window is not None,
        "clusters": spec.clusters,
    }
    refuse_with("stratum", spec.stratum, unproved, "not with {}: nobody has proved it")
    if spec.models:
        raise invalid("models", spec.models, "not with strata: submit predictions")


def check_new_strata(spec: MeterSpec) -> None:
    """Refuse what no proof covers, either, but meters may have that were made before.

    Their settings are still read, so new meters and plans are checked for it, and not the values.
    """
    if spec.stratified and spec.top_up is not None:
        raise invalid("top up", spec.top_up, "not with strata: no proof covers it")


def _check_weights(spec: MeterSpec) -> None:
    for weight in spec.weights:
        finite("weights", weight)
    settle(spec, weights=tuple(map(float, spec.weights)))
    given, needed = list(spec.weights)[:20], f"one for each of {len(spec.strata)} strata"
    if len(spec.weights) != len(spec.strata):
        raise invalid("weights", given, needed)
    if any(round(weight, _MOST_DECIMALS) != weight for weight in spec.weights):
        raise invalid("weights", given, f"at most {_MOST_DECIMALS} decimals each")
    if min(spec.weights) <= 0 or sum(stratum_weights(spec)) != 1:
        raise invalid("weights", given, "numbers above 0 that sum to 1")


def stratum_weights(spec: MeterSpec) -> tuple[Fraction, ...]:
    """Return the weight of each stratum, exactly as written."""
    return tuple(Fraction(repr(weight)) for weight in spec.weights)


def stratum_shares(spec: MeterSpec) -> tuple[Fraction, ...]:
    """Return the share that each stratum has of the rows: its weight, unless sizes say another."""
    total = sum(spec.sizes)
    return tuple(Fraction(size, total) for size in spec.sizes) or stratum_weights(spec)


def whole_strata(spec: MeterSpec, rows: int) -> int:
    """Return the fewest rows, from these on, of which every stratum has a whole number."""
    step = strata_step(spec)
    return -(-rows // step) * step


def strata_step(spec: MeterSpec) -> int:
    """Return the fewest rows of which every stratum has a whole number."""
    return math.lcm(*(share.denominator for share in stratum_shares(spec)))
