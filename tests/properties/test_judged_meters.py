"""Meters with a judge: from the file to the release, at a server, and the best developer."""

from __future__ import annotations

import functools
import itertools
import math
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.live import live
from tests.promise.sums import log_failure, log_geometric

from easeml_meter.core.model import Event
from easeml_meter.errors import InvalidInput, WrongPhase
from easeml_meter.lab.simulation.arena import answer_to
from easeml_meter.meter import Meter
from easeml_meter.scoring.judged import Judged
from easeml_meter.spec import MeterSpec

LABELS, POOL = 120, 2_000
OWN = np.arange(20) % 2


def spec_of(**options: Any) -> MeterSpec:
    given: dict[str, Any] = {"tolerance": 0.2, "edges": [0.4], "steps": 3, "delta": 0.2}
    given |= {"judge_error": 0.1, "pool": POOL, "rows": LABELS, "classes": (0, 1)}
    return MeterSpec.uniform(**(given | {"inputs": "public"} | options))


def rows_of(errors: int, seed: int, labels: int = LABELS, pool: int = POOL) -> pa.Table:
    """Rows of which the last have no label; the judge errs on the first ones."""
    truth = np.arange(labels + pool) % 2
    judge = truth.copy()
    judge[:errors] = 1 - judge[:errors]
    known = pa.array(truth, mask=np.arange(labels + pool) >= labels)
    inputs = np.random.default_rng(seed).normal(size=labels + pool)
    return pa.table({"x": inputs, "label": known, "judge": judge})


def sealed(meter: Any, folder: Path, rows: pa.Table) -> Path:
    name = f"{len(list(folder.iterdir()))}"
    pq.write_table(rows, folder / f"{name}.parquet")
    found = folder / f"{name}.sealed"
    meter.seal(folder / f"{name}.parquet", found, label="label", judge="judge")
    return found


def begun(folder: Path, **options: Any) -> Meter:
    meter = Meter.create(folder / "meter", spec_of(**options), name="judged")
    own = pa.table({"x": np.random.default_rng(9).normal(size=20), "label": OWN})
    pq.write_table(own, folder / "validation.parquet")
    meter.set_validation(folder / "validation.parquet", label="label")
    return meter


def predicted(wrong: int) -> pa.Table:
    """Wrong on so many rows, beginning with the pool."""
    truth = np.arange(LABELS + POOL) % 2
    truth[LABELS : LABELS + wrong] = 1 - truth[LABELS : LABELS + wrong]
    return pa.table({"prediction": truth})


def test_a_judge_reads_the_gap_and_all_is_measured_again_at_release(tmp_path: Path) -> None:
    meter = begun(tmp_path)
    assert meter.plan.size <= meter.plan.labels == LABELS
    meter.add_test_set(sealed(meter, tmp_path, rows_of(LABELS // 10, 1)))
    own = pa.table({"prediction": OWN})
    first = meter.submit(predicted(0), own, model="right")
    # Where the judge errs, its errors are taken back on the labels.
    assert (first.name, first.validation_loss) == ("1", 0)
    second = meter.submit(predicted(1_000), own, model="half")
    assert (second.name, second.steps_left) == ("2", 1)
    again = meter.submit(predicted(1_000), own, model="half")
    assert again.repeated
    meter.retire()
    released = meter.release()
    truths = meter.status(generation=1).retrospective
    found = [truth.test_loss for truth in truths if truth is not None]
    assert found == pytest.approx([0, 0.4])  # 0 - 0.1 is no loss, and 0.5 - 0.1
    whole = pq.read_table(released / "testset.parquet")
    assert whole.column_names == ["x", "label", "judge"]
    assert whole["label"].null_count == POOL
    assert meter.audit().sound


def test_a_judge_who_errs_more_is_refused_and_tries_are_counted(tmp_path: Path) -> None:
    meter = begun(tmp_path, tries=2)
    poor = sealed(meter, tmp_path, rows_of(LABELS // 10 + 1, 1))
    for _ in range(2):
        with pytest.raises(InvalidInput, match=r"errs on more than 0\.1 .*try 1 of 2"):
            meter.add_test_set(poor)
    with pytest.raises(InvalidInput, match="try 2 of 2"):
        meter.add_test_set(sealed(meter, tmp_path, rows_of(LABELS, 2)))
    with pytest.raises(WrongPhase, match="was tried 2 times"):
        meter.add_test_set(sealed(meter, tmp_path, rows_of(0, 3)))
    assert [link.event for link in meter.audit().links].count(Event.SEALING_FAILED) == 2


def test_labels_and_pool_have_the_planned_sizes(tmp_path: Path) -> None:
    meter = begun(tmp_path)
    with pytest.raises(InvalidInput, match="exactly 120 with a label and 2,000 without"):
        sealed(meter, tmp_path, rows_of(0, 1, pool=POOL - 1))
    with pytest.raises(InvalidInput, match="121 with a label and 1,999 without one given"):
        meter.add_test_set(sealed(meter, tmp_path, rows_of(0, 1, LABELS + 1, POOL - 1)))
    with pytest.raises(InvalidInput, match="--judge"):
        meter.seal(rows_of(0, 1), tmp_path / "no.sealed", label="label")
    with pytest.raises(InvalidInput, match="in one file"):
        meter.seal(rows_of(0, 1), tmp_path / "no.sealed", label="label", judge="judge", part=True)
    with pytest.raises(InvalidInput, match="how many rows"):
        begun(tmp_path / "other", rows=None)
    plain = Meter.create(
        tmp_path / "plain", MeterSpec.uniform(tolerance=0.3, steps=1, delta=0.3), name="plain"
    )
    with pytest.raises(InvalidInput, match="planned without judge_error"):
        plain.seal(rows_of(0, 1), tmp_path / "no.sealed", label="label", judge="judge")


@pytest.mark.parametrize(
    "options",
    [{"question": "n > 0.5 +/- 0.2"}, {"question": "n - o at 0 +/- 0.2", "disagreement": 0.3}],
)
def test_other_questions_are_not_asked_with_a_judge(options: dict[str, Any]) -> None:
    """A reading of n - o was taken, with a promise that says nothing of the judge."""
    given: dict[str, Any] = {"bands": (), "steps": 3, "delta": 0.2, "rows": LABELS}
    with pytest.raises(InvalidInput, match="not with question"):
        MeterSpec(**given, judge_error=0.1, pool=POOL, **options)


@pytest.mark.slow
def test_a_server_takes_a_judge(tmp_path: Path) -> None:
    with live(tmp_path / "site") as site:
        meter = site.served.add_meter(spec_of(), prefix="j-")
        with (
            site.meter("j-labeler", meter) as labeler,
            site.meter("j-developer", "j-meter") as developer,
        ):
            developer.set_validation(
                pa.table({"x": np.random.default_rng(9).normal(size=20), "label": OWN}),
                label="label",
            )
            labeler.add_test_set(sealed(labeler, tmp_path, rows_of(5, 1)))
            own = pa.table({"prediction": OWN})
            assert developer.submit(predicted(0), own, model="right").name == "1"
            assert developer.submit(predicted(1_200), own, model="bad").name == "2"


# --- The best of all developers, in a small world ---

TRUTH, WORD = np.array([1, 0, 1, 0]), np.array([1, 0, 0, 0])
"""Rows are of four kinds, equally likely; on the third the judge errs."""


def test_no_developer_breaks_more_than_is_promised() -> None:
    labels, pool = 3, 2
    spec = spec_of(tolerance=0.45, edges=[0.9], judge_error=0.34, rows=None, pool=pool)
    loss = Judged()
    parts = [
        Counter(tuple(sorted(each)) for each in itertools.product(range(4), repeat=size))
        for size in (labels, pool)
    ]
    weights: list[int] = []
    samples: list[tuple[list[int], Any]] = []
    for (few, often), (many, times) in itertools.product(*(part.items() for part in parts)):
        kinds = [*few, *many]
        pairs = np.stack([TRUTH[kinds], WORD[kinds]], axis=1)
        pairs[labels:, 0] = -1
        if loss.of_labels(pairs).wrong <= 0.34 * labels:
            samples.append((kinds, pairs))
            weights.append(often * times)
    every = 4 ** (labels + pool)

    def measured(state: int) -> int:
        return sum(weight for i, weight in enumerate(weights) if state >> i & 1)

    questions = set()
    for model in map(np.array, itertools.product((0, 1), repeat=4)):
        truth = Fraction(int(np.count_nonzero(model != TRUTH)), 4)
        told = [loss.sums(model[kinds], pairs).mean(1) for kinds, pairs in samples]
        wrong = sum(1 << i for i, x in enumerate(told) if abs(x - truth) > Fraction(45, 100))
        for v in (Fraction(k, 10) for k in range(11)):
            answers: dict[int, int] = {}
            for i, x in enumerate(told):
                answer = answer_to(spec.meter, 0, v, x)
                answers[answer] = answers.get(answer, 0) | 1 << i
            questions.add((wrong, tuple(sorted(answers.values()))))

    @functools.cache
    def broken(state: int, left: int) -> int:
        if not left or not state:
            return 0
        return max(
            measured(state & wrong) + sum(broken(state & ~wrong & each, left - 1) for each in told)
            for wrong, told in questions
        )

    tail = max(measured(wrong) for wrong, _ in questions) / every
    assert tail > 0
    for steps in (1, 2):
        best = broken((1 << len(samples)) - 1, steps) / every
        assert 0 < best <= math.exp(log_geometric(2, steps)) * tail * (1 + 1e-12)
        assert best <= math.exp(log_failure(spec, labels, steps=steps))
