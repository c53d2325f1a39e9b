"""What promises rest on, of meters as they were published, too."""

from __future__ import annotations

from easeml_meter.promise.assumptions import BLIND_VALIDATION, assumptions_of
from easeml_meter.spec import Count, MeterSpec


def gap_assumptions(spec: MeterSpec) -> tuple[str, ...]:
    """List everything the promise of a gap rests on; counting all histories, less is enough."""
    found = assumptions_of(spec.meter)
    if spec.published or spec.count is Count.ALL:
        return tuple(each for each in found if each != BLIND_VALIDATION)
    return found
