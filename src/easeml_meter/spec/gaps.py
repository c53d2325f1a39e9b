"""Readings of the gap: drawn edges and ceilings, and which of them are proved."""

from __future__ import annotations

from typing import TYPE_CHECKING

from easeml_meter.checks import finite, refuse_with, settle
from easeml_meter.errors import invalid
from easeml_meter.spec.bands import Band
from easeml_meter.spec.names import Count, Protocol

if TYPE_CHECKING:
    from easeml_meter.spec.meter import MeterSpec

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
