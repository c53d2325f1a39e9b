"""What bands cost: the default ones for a number of labels, and one edge more."""

from __future__ import annotations

from typing import Any

import pytest

from easeml_meter.core.questions.edges import reachable_with_default_bands, with_another_edge
from easeml_meter.core.questions.planning import required_labels
from easeml_meter.spec import MeterSpec, default_edges
from easeml_meter.stats.feedback import possible_bands


def meter(**options: Any) -> MeterSpec:
    usual: dict[str, Any] = {"tolerance": 0.05, "steps": 12, "delta": 0.05}
    return MeterSpec.uniform(**usual | options)


@pytest.mark.parametrize("labels", [300, 1_000, 5_000, 30_000, 200_000])
def test_the_tolerance_reached_has_the_default_bands_that_fit_it(labels: int) -> None:
    found = reachable_with_default_bands(meter(), labels).spec
    tolerance = found.tolerances[0]
    assert len(found.edges) <= len(default_edges(tolerance))
    assert required_labels(found).labels <= labels
    assert (
        required_labels(found.with_tolerances([0.999 * tolerance] * found.signals)).labels > labels
    )


def test_another_edge_costs_what_a_meter_with_it_costs() -> None:
    spec = meter(edges=(0.2, 0.4))
    away = required_labels(meter(edges=(0.2, 0.4, 0.6))).labels
    close = required_labels(meter(edges=(0.2, 0.4, 0.45))).labels
    assert with_another_edge(spec) == (away, close)
    assert away == required_labels(spec).labels < close


def test_where_bands_are_narrow_one_more_makes_one_more_possible() -> None:
    spec = meter(edges=(0.01, 0.02))
    assert possible_bands(spec) == 3
    away, close = with_another_edge(spec) or (0, 0)
    assert away == required_labels(spec).labels
    assert close == required_labels(meter(edges=(0.01, 0.02, 0.03))).labels


@pytest.mark.parametrize(
    "options",
    [{"drawn": 0.2}, {"protocol": "incremental"}, {"protocol": "independent"}],
    ids=str,
)
def test_nothing_is_said_of_edges_that_are_drawn_or_not_counted(options: dict[str, Any]) -> None:
    assert with_another_edge(meter(**options)) is None


def test_another_edge_needs_whole_strata_too() -> None:
    strata: dict[str, Any] = {"stratum": "region", "strata": ("a", "b"), "weights": (0.123, 0.877)}
    spec = meter(tolerance=0.02, delta=0.01, steps=10, **strata)
    away, close = with_another_edge(spec) or (0, 0)
    assert away == required_labels(spec).labels == 13_000
    assert close % 1_000 == 0
    assert with_another_edge(spec.replace(sizes=(4_000, 16_000))) is None
