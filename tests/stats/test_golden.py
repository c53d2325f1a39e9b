"""The figures of the paper and of the tightened analysis, computed elsewhere, to be met here."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from scipy import stats
from tests.stats import oracle

from easeml_meter.core.questions.planning import (
    required_labels,
)
from easeml_meter.spec import Bound, MeterSpec
from easeml_meter.stats import counting, planning
from easeml_meter.stats.planning import smallest
from easeml_meter.stats.tails import log_tail

GOLDEN = json.loads((Path(__file__).parents[1] / "data" / "golden.json").read_text("utf-8"))
PROTOCOLS = {"no adaptivity": "independent"}

Row = dict[str, Any]


def name_of(row: Row) -> str:
    return " ".join(f"{value}" for key, value in row.items() if key not in ("published", "exact"))


def spec_of(row: Row, **options: Any) -> MeterSpec:
    signals, epsilon = row.get("m", 5), row.get("epsilon", 0.01)
    uniform = row.get("tolerances", "uniform") == "uniform"
    for key in ("tenants", "reverts"):
        if key in row:
            options[key] = tuple(row[key])
    return MeterSpec.uniform(
        signals=signals,
        tolerance=epsilon if uniform else [epsilon * k for k in range(1, signals + 1)],
        steps=row["steps"],
        delta=row.get("delta", 0.01),
        protocol=PROTOCOLS.get(row["meter"], row["meter"]),
        ceiling=row.get("ceiling"),
        **{"count": "all"} | options,
    )


def distinct_models(row: Row) -> list[int]:
    """The counts of the tightened analysis, in big integers, straight from the formulas."""
    m, steps = row.get("m", 5), row["steps"]
    if row["meter"] == "no adaptivity":
        return [steps]
    if row["meter"] == "regular":
        answers = m + ("ceiling" in row)
        return [(answers**steps - 1) // (answers - 1)]
    return [steps, *(math.comb(j + steps - 2, j) for j in range(2, m + 1))]


def log_failure(row: Row, spec: MeterSpec, labels: int, *, every: bool = True) -> float:
    """The left side of the inequality, by an oracle that shares no code with the product."""
    log_tails: dict[float, float] = {}
    terms = []
    for count, eps in zip(distinct_models(row), spec.tolerances, strict=False):
        if eps not in log_tails:
            if every and labels < 10**6:  # one by scipy, over all j, for tails a double can hold
                log_tails[eps] = math.log(max(oracle.exact(labels, eps, spec.ceiling), 1e-300))
            else:
                log_tails[eps] = oracle.log_exact(labels, eps, spec.ceiling, every=every)
        terms.append(math.log(count) + log_tails[eps])
    top = max(terms)
    return top + math.log(sum(math.exp(term - top) for term in terms))


def assert_meets(row: Row, *, every: bool = True) -> None:
    spec = spec_of(row)
    found = required_labels(spec).labels
    step = 1 / (2 * spec.tolerances[0])
    assert abs(found - row["exact"]) <= max(step, row["exact"] / 1000)
    assert log_failure(row, spec, found, every=every) <= math.log(spec.delta) + 1e-6


PUBLISHED = [row for row in GOLDEN["labels"] if "published" in row]
EXACT = [row for row in GOLDEN["labels"] if "exact" in row]


def test_every_row_is_used() -> None:
    assert len(PUBLISHED) + len(EXACT) == len(GOLDEN["labels"]) > 100


@pytest.mark.parametrize("row", PUBLISHED, ids=name_of)
def test_published(row: Row) -> None:
    assert required_labels(spec_of(row, published=True)).labels == row["published"]


@pytest.mark.parametrize("row", EXACT, ids=name_of)
def test_exact(row: Row) -> None:
    assert_meets(row)


MORE_EXACT = [
    {"steps": 10, "meter": "no adaptivity", "ceiling": 0.1, "exact": 9_905},
    {"steps": 10, "meter": "regular", "tolerances": "k*epsilon", "exact": 86_542},
]
LARGE = [
    {"steps": 1000, "meter": "regular", "exact": 8_041_885},
    {"steps": 1000, "meter": "regular", "ceiling": 0.1, "exact": 3_409_468},
]


@pytest.mark.parametrize("row", MORE_EXACT, ids=name_of)
def test_exact_rows_beyond_the_file(row: Row) -> None:
    assert_meets(row)


@pytest.mark.parametrize("row", LARGE, ids=name_of)
def test_exact_with_millions_of_labels(row: Row) -> None:
    assert_meets(row, every=False)


@pytest.mark.verify
@pytest.mark.parametrize("row", LARGE, ids=name_of)
def test_exact_with_millions_of_labels_over_every_error_count(row: Row) -> None:
    assert_meets(row)


CONSISTENT: dict[str, dict[str, Any]] = {
    f"F regular T={steps} b={possible} eps=delta=.01": {"steps": steps, "edges": edges}
    for steps in (10, 32, 100)
    for possible, edges in {2: (0.02, 0.05, 0.1, 0.2), 3: (0.01, 0.02, 0.03, 0.04)}.items()
} | {"F incremental m=5 T=10, b=2 (637 models)": {"steps": 10, "protocol": "incremental"}}
MERGED: dict[str, dict[str, Any]] = {
    f"F ceiling .1, b=2 with merged edges T={steps}": {"steps": steps, "ceiling": 0.1}
    for steps in (10, 100)
}
CONSISTENT_GOLDEN = {
    row["name"]: row["n"]
    for row in json.loads((Path(__file__).parents[1] / "data" / "golden-2.json").read_text("utf-8"))
}


@pytest.mark.parametrize("name", CONSISTENT)
def test_consistent_histories(name: str) -> None:
    """At every size with the product's tail; a hundredth fewer labels do not keep the promise."""
    spec = MeterSpec.uniform(
        signals=5, tolerance=0.01, delta=0.01, count="consistent", **CONSISTENT[name]
    )
    labels = CONSISTENT_GOLDEN[name]
    assert required_labels(spec).labels == labels
    models = sum(map(math.exp, counting.log_models(spec)))
    for size, kept in ((labels, True), (99 * labels // 100, False)):
        tail = oracle.log_exact(size, 0.01, None, every=False)
        assert (math.log(models) + tail <= math.log(0.01) + 1e-6) is kept


@pytest.mark.parametrize("name", MERGED)
def test_a_ceiling_with_edges_left_out(name: str) -> None:
    """All larger sizes hold, too; a hundredth fewer labels do not keep the promise."""
    spec = MeterSpec.uniform(tolerance=0.01, delta=0.01, **MERGED[name])
    labels = CONSISTENT_GOLDEN[name]
    assert required_labels(spec).labels == labels
    (models,) = counting.log_models(spec)
    for size, kept in ((labels, True), (99 * labels // 100, False)):
        most = size // 10
        upper = max(oracle_upper(size, 0.01, j) for j in range(most - 3, most + 2))
        lower = max(oracle_upper(size, 0.01, size - j) for j in range(most - 3, most + 1))
        assert (models + math.log(math.exp(upper) + math.exp(lower)) <= math.log(0.01)) is kept


def oracle_upper(labels: int, tolerance: float, errors: int) -> float:
    """Give log P(Bin(n, j/n - eps) >= j) by scipy."""
    return float(stats.binom.logsf(errors - 1, labels, errors / labels - tolerance))


BY_BAND = [0.01, 0.02, 0.03, 0.04, 0.05]


@pytest.mark.parametrize(
    ("options", "labels"),
    [
        ({"steps": 1000}, 3_469_564),
        ({"steps": 1000, "edges": (0.01, 0.02, 0.03, 0.04)}, 5_492_232),
        ({"steps": 32, "ceiling": 0.1}, 45_762),
        ({"steps": 10, "ceiling": 0.1, "memory": 10}, 23_946),  # no edges are left out with memory
        # 209,956 holds, but not all larger sizes do
        ({"steps": 100, "ceiling": 0.1, "memory": 100}, 209_961),
        ({"steps": 32, "protocol": "incremental"}, 75_331),
        ({"steps": 100, "protocol": "incremental"}, 103_523),
        ({"steps": 8, "delta": 0.1}, 31_523),
        ({"steps": 100, "tolerance": 0.05, "delta": 0.05}, 13_935),
        ({"steps": 10, "tolerance": 0.02, "delta": 0.05}, 10_356),
        ({"steps": 10, "tolerance": 0.05, "delta": 0.05}, 1_669),
    ],
)
def test_consistent_histories_beyond_the_file(options: dict[str, Any], labels: int) -> None:
    usual: dict[str, Any] = {"signals": 5, "tolerance": 0.01, "delta": 0.01}
    spec = MeterSpec.uniform(**usual | {"count": "consistent"} | options)
    assert required_labels(spec).labels == labels


def by_hoeffding(spec: MeterSpec) -> int:
    """Return the labels that the planner's counts need with Hoeffding's bound."""

    def tail(_: Bound, *given: Any, **options: Any) -> float:
        return log_tail(Bound.HOEFFDING, *given, **options)

    nats = -math.log(spec.delta)
    return smallest(lambda labels: planning.log_failure(spec, labels, tail=tail) + nats, 10**6)


def test_counting_models_instead_of_pairs_saves_8000_labels() -> None:
    headline = {"steps": 10, "meter": "regular"}
    assert required_labels(spec_of(headline, published=True)).labels == 108_080
    assert by_hoeffding(spec_of(headline)) == 100_033
    assert by_hoeffding(spec_of(headline, count="consistent")) == 61_145


@pytest.mark.parametrize("meter", ["regular", "incremental", "no adaptivity", "resampling"])
@pytest.mark.parametrize(("epsilon", "delta", "labels"), [(0.1, 0.05, 185), (0.01, 0.01, 26_492)])
def test_one_step(meter: str, epsilon: float, delta: float, labels: int) -> None:
    row = {"steps": 1, "meter": meter, "epsilon": epsilon, "delta": delta}
    assert by_hoeffding(spec_of(row)) == labels


def test_the_two_tenant_figure_in_the_paper_is_not_what_its_formula_gives() -> None:
    """Printed is 71K: that results if the full tree replaces the count per signal."""
    row = {"steps": 10, "meter": "regular", "tolerances": "k*epsilon", "tenants": [5, 5]}
    assert required_labels(spec_of(row, published=True)).labels == 63_261
    full_tree = 2 * 5 * (5**5 - 1) // 4
    assert math.ceil(math.log(2 * full_tree / 0.01) / (2 * 0.01**2)) == 71_308
