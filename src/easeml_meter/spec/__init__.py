"""What a meter is: its bands, its budget, its promise. Frozen, and validated once, here."""

from __future__ import annotations

from easeml_meter.spec.bands import Band, default_edges
from easeml_meter.spec.meter import DEFAULT_DELTA, DEFAULT_STEPS, MeterSpec
from easeml_meter.spec.names import (
    GAP,
    METERS,
    Count,
    Gap,
    Protocol,
    classes_of,
    is_exact,
    is_zero_one,
)

__all__ = [
    "DEFAULT_DELTA",
    "DEFAULT_STEPS",
    "GAP",
    "METERS",
    "Band",
    "Count",
    "Gap",
    "MeterSpec",
    "Protocol",
    "classes_of",
    "default_edges",
    "is_exact",
    "is_zero_one",
]
