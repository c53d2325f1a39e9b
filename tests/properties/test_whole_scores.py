"""Meters of F1, recall, precision, AUC and averages: from the file to the release, and the promise.

The promise is checked against the best of all developers in worlds of a few rows, by the meter's
own rules and scoring, and by simulation at the planned size.
"""

from __future__ import annotations

import functools
import itertools
import json
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
from tests.promise import sums
from tests.promise.sums import log_failure, log_geometric, possible_bands

from easeml_meter.core.questions.asking import plan_question
from easeml_meter.core.questions.planning import required_labels
from easeml_meter.errors import InvalidInput, Spent
from easeml_meter.lab.simulation.arena import answer_to, number_of
from easeml_meter.meter import Meter
from easeml_meter.promise.ledger import check_size
from easeml_meter.report.checks import checks, summary
from easeml_meter.report.page import html_page
from easeml_meter.scoring.bundle import Bundle, BundledFile
from easeml_meter.scoring.classes import Classes
from easeml_meter.scoring.losses import parse_loss
from easeml_meter.service.submissions.kinds import Command, Function
from easeml_meter.spec import MeterSpec

ROOT = Path(__file__).parents[1]


def spec_of(loss: str, **options: Any) -> MeterSpec:
    given: dict[str, Any] = {"tolerance": 0.2, "edges": [0.4], "steps": 3, "delta": 0.2}
    given |= {"loss": loss, "classes": (0, 1), "rows": 400, "inputs": "public"}
    return MeterSpec.uniform(**(given | options))


# --- The planner of a meter and that of the question agree ---


@pytest.mark.parametrize(
    ("loss", "options", "golden"),
    [
        ("recall[1]", {}, 48_986),
        ("precision[1]", {}, 65_137),
        ("f1[1]", {}, 60_728),
        ("f1[1]", {"floor": 0.8}, 22_682),
        ("f1[1]", {"floor": 0.9}, 10_888),
        ("balanced-accuracy", {}, 30_572),
        ("auc[1]", {}, 53_628),
        ("roc[1]", {}, 64_610),
        ("roc[1]", {"tolerance": 0.02, "delta": 0.05}, 14_141),
        ("roc[1]", {"tolerance": 0.05, "delta": 0.05}, 2_263),
        ("weighted[0.5,0.3,0.2]", {"classes": (0, 1, 2)}, 23_235),
    ],
)
def test_a_meter_needs_what_the_question_needs(
    loss: str, options: dict[str, Any], golden: int
) -> None:
    rows = {name: row["n"] for name, row in _golden()}
    asked = {"tolerance": 0.01, "steps": 10, "delta": 0.01, "signals": 5, "edges": None}
    spec = spec_of(loss, **(asked | options | {"rows": 10**6}))
    plan = required_labels(spec)
    name = loss.partition("[")[0]
    options = {"weights": [0.5, 0.3, 0.2]} if name == "weighted" else options
    question = plan_question(metric=name, **(asked | options))
    assert plan.size == question.size == golden
    assert (plan.labels, plan.unit) == (10**6, question.question.unit)
    if name == "f1":
        row = f"D F1, T=10 b=2, floor {options.get('floor', 0.0)}: examples that are not true"
        assert abs(rows[f"{row} negatives"] - golden) <= 1
    with pytest.raises(InvalidInput, match="too few"):
        check_size(spec.meter, golden - 50)
    thrice = required_labels(spec.replace(tries=3)) if spec.fixes_rows else plan
    assert (
        thrice.size
        == plan_question(
            metric=name, **(asked | options | ({"tries": 3} if spec.fixes_rows else {}))
        ).size
    )


def _golden() -> list[tuple[str, dict[str, Any]]]:
    found = json.loads((ROOT / "data" / "golden-2.json").read_text("utf-8"))
    return [(row["name"], row) for row in found]


# --- A session in a folder ---


class Sealed:
    """A meter with a test set, of whose labels and predictions the test decides."""

    def __init__(
        self, folder: Path, spec: MeterSpec, *, positives: int | None = None, **options: Any
    ) -> None:
        self.folder = folder
        self.meter = Meter.create(folder / "meter", spec, name="whole", **options)
        rows = spec.rows or 0
        self.labels = np.zeros(rows, np.int64)
        self.labels[: rows // 2 if positives is None else positives] = 1
        self.own = np.arange(20) % 2
        self._write("hidden", self.labels)
        self._write("validation", self.own)
        self.meter.set_validation(folder / "validation.parquet", label="label")
        self.meter.seal(folder / "hidden.parquet", folder / "set.sealed", label="label")
        self.meter.add_test_set(folder / "set.sealed")

    def _write(self, name: str, labels: Any) -> None:
        inputs = np.random.default_rng(len(labels)).normal(size=len(labels))
        pq.write_table(pa.table({"x": inputs, "label": labels}), self.folder / f"{name}.parquet")

    def submit(self, told: Any, own: Any = None, **options: Any) -> Any:
        own = self.own if own is None else own
        tables = (self._table(np.asarray(each)) for each in (told, own))
        return self.meter.submit(*tables, **options)

    def _table(self, told: Any) -> pa.Table:
        if told.dtype == np.float64:
            return pa.table({"probability_0": 1 - told, "probability_1": told})
        return pa.table({"prediction": told})


def test_f1_with_a_floor_is_read_charged_and_released(tmp_path: Path) -> None:
    session = Sealed(tmp_path, spec_of("f1[1]", floor=0.5))
    meter, labels = session.meter, session.labels
    right = session.submit(labels, model="right")
    assert (right.name, right.steps_left) == ("1", 2)
    assert right.validation_loss == 0
    assert right.true_loss_at_most == pytest.approx(0.7)
    again = session.submit(labels, model="right")
    assert (again.name, again.repeated, again.steps_left) == ("1", True, 2)
    below = session.submit(np.where(np.arange(400) < 60, labels, 0), model="60 of 200")
    assert (below.name, below.band) == ("below-floor", None)
    assert "F1 on the test set is below the floor (0.5)" in below.promise
    assert below.promise.endswith("this model's true F1 is at most 0.7.")
    # v = 0 drops the edge 0.4, which lies within two tolerances below the ceiling of the loss, 0.5.
    half = session.submit(np.where(np.arange(400) < 90, labels, 0), model="90 of 200")
    assert (half.name, half.gap) == ("1", (0.0, 1.0))
    with pytest.raises(Spent):
        session.submit(1 - labels, model="late")
    page = html_page(meter.status())
    assert "below floor" in page
    meter.release()
    view = meter.status(generation=1)
    found = checks(view)
    assert [check.right for check in found] == [True, True, True]
    assert "the answer was right" in summary(found)
    second = view.retrospective[1]
    assert second is not None
    assert second.test_loss == pytest.approx(1 - 120 / 260)
    assert meter.audit().sound


def test_precision_of_too_few_predictions_is_no_reading(tmp_path: Path) -> None:
    session = Sealed(tmp_path, spec_of("precision[1]"))
    size = session.meter.plan.size
    labels = session.labels
    with pytest.raises(InvalidInput, match="no row is predicted '1'"):
        session.submit(labels, np.zeros(20, np.int64), model="nothing on validation")
    for told, name in ((size, "1"), (size - 1, "too-few"), (0, "too-few")):
        signal = session.submit(np.where(np.arange(400) < told, 1, 0), model=str(told))
        assert signal.name == name
    assert signal.steps_left == 0
    assert signal.promise.endswith("nothing is promised.")
    session.meter.release()
    assert [check.right for check in checks(session.meter.status(generation=1))] == [
        True,
        True,
        True,
    ]


@pytest.mark.parametrize(
    ("loss", "told", "expected"),
    [
        ("recall[1]", lambda labels: np.where(np.arange(400) < 150, labels, 0), 50 / 200),
        ("balanced-accuracy", lambda labels: np.where(np.arange(400) < 150, labels, 0), 50 / 400),
        ("macro-f1", lambda labels: 1 - labels, 1.0),
        ("weighted[0.3,0.7]", lambda labels: np.where(np.arange(400) < 150, labels, 0), 0.175),
        ("auc[1]", lambda labels: np.where(labels == 1, 0.7, 0.2), 0.0),
        ("auc[1]", lambda labels: np.full(400, 0.5), 0.5),
        ("roc[1]", lambda labels: labels.astype(np.float64), 0.0),
        ("roc[1]", lambda labels: np.where(np.arange(400) < 150, labels, 0.0), 50 / 200),
        ("roc[1]", lambda labels: np.where(np.arange(400) < 320, labels, 1.0), 80 / 200),
        ("roc[1]", lambda labels: np.full(400, 0.5), 1.0),
    ],
)
def test_every_score_is_measured_and_told_within_its_band(
    loss: str, told: Any, expected: float, tmp_path: Path
) -> None:
    session = Sealed(tmp_path, spec_of(loss))
    ranked = loss.startswith(("auc", "roc"))
    own = session.own.astype(np.float64) if ranked else session.own
    signal = session.submit(told(session.labels), own, model="m")
    assert signal.band == (1 if expected < 0.4 else 2)
    assert signal.validation_loss == 0
    session.meter.retire()
    session.meter.release()
    (truth,) = session.meter.status(generation=1).retrospective
    assert truth is not None
    assert truth.test_loss == pytest.approx(expected)


def test_a_threshold_may_be_chosen_after_a_curve_was_read(tmp_path: Path) -> None:
    """Every validation set has a curve of its own, which its answer is measured from."""
    session = Sealed(tmp_path, spec_of("roc[1]", rows=600))
    meter, labels = session.meter, session.labels
    level = np.where(labels == 1, 0.8, 0.3)
    first = session.submit(level, np.where(session.own == 1, 0.8, 0.3), model="level")
    assert (first.name, first.gap, first.true_gap) == ("1", (0.0, 0.4), (0.0, 0.6))
    assert first.promise.endswith(
        "at every threshold, this model's true rates of true and false positives are within 0.6 "
        "of those on the validation set."
    )
    # The same order of rows, and so the same AUC, but another threshold is the good one.
    moved = session.submit(level, np.where(session.own == 1, 0.2, 0.1), model="moved")
    assert moved.name == "2"
    assert moved.promise.endswith("the largest difference is at least 0.2.")
    other = pa.table({"x": np.arange(10.0), "label": np.arange(10) % 2})
    pq.write_table(other, tmp_path / "other.parquet")
    meter.replace_validation(tmp_path / "other.parquet", label="label")
    third = session.submit(level, np.where(np.arange(10) % 4 == 1, 0.8, 0.3), model="half")
    assert third.name == "2"
    page = html_page(meter.status())
    assert "distance of the ROC curves on validation and test set" in page
    meter.release()
    view = meter.status(generation=1)
    truths = [truth and truth.test_loss for truth in view.retrospective]
    assert truths == [0.0, 1.0, pytest.approx(2 / 5)]
    assert [check.right for check in checks(view)] == [True, True, True]
    assert meter.audit().sound


def test_the_same_files_have_a_curve_for_each_validation_set(tmp_path: Path) -> None:
    """Corrected labels change the curve: the one that was answered before must stay."""
    session = Sealed(tmp_path, spec_of("roc[1]", rows=600))
    meter, own = session.meter, np.where(session.own == 1, 0.8, 0.3)
    level = np.where(session.labels == 1, 0.8, 0.3)
    first = session.submit(level, own, model="before")
    corrected = pa.table({"x": np.arange(20.0), "label": 1 - session.own})
    pq.write_table(corrected, tmp_path / "corrected.parquet")
    meter.replace_validation(tmp_path / "corrected.parquet", label="label")
    again = session.submit(level, own, model="after")
    assert [first.name, again.name] == ["1", "2"]
    meter.retire()
    meter.release()
    view = meter.status(generation=1)
    assert [truth and truth.test_loss for truth in view.retrospective] == [0.0, 1.0]
    assert [check.right for check in checks(view)] == [True, True]


@pytest.mark.parametrize("listed", [False, True])
def test_numbers_of_another_precision_are_refused_and_not_answered(
    tmp_path: Path, listed: bool
) -> None:
    """0.8 in 32 bits is above 0.8 in 64: the same model was told the farthest band."""
    session = Sealed(tmp_path, spec_of("roc[1]", rows=600))

    def table(labels: Any, kind: pa.DataType) -> pa.Table:
        given = np.where(labels == 1, 0.8, 0.3)
        if listed:
            both = pa.array(np.stack([1 - given, given], axis=1).tolist())
            return pa.table({"prediction": both.cast(pa.list_(kind))})
        columns = {"probability_0": pa.array(1 - given), "probability_1": pa.array(given)}
        return pa.table({name: column.cast(kind) for name, column in columns.items()})

    def submit(test: pa.DataType, own: pa.DataType) -> Any:
        tables = table(session.labels, test), table(session.own, own)
        return session.meter.submit(*tables, model=f"{test} and {own}")

    for test, own in ((pa.float32(), pa.float64()), (pa.float64(), pa.float32())):
        bits = f"{test.bit_width} bits given, of {own.bit_width} in "
        with pytest.raises(InvalidInput, match=f"numbers of {bits}.*: write both files with the"):
            submit(test, own)
    assert session.meter.status().steps_left == 3
    for kind in (pa.float32(), pa.float64()):
        assert submit(kind, kind).name == "1"
    # Whole numbers are the same in all types.
    zeros = pa.table({"probability_0": 1 - session.labels, "probability_1": session.labels})
    ones = pa.table({"probability_0": 1.0 - session.own, "probability_1": session.own * 1.0})
    assert session.meter.submit(zeros, ones, model="whole").name == "1"


def test_a_validation_set_without_one_of_the_classes_has_no_curve(tmp_path: Path) -> None:
    session = Sealed(tmp_path, spec_of("roc[1]", rows=600))
    ones = pa.table({"x": np.arange(4.0), "label": np.ones(4, np.int64)})
    pq.write_table(ones, tmp_path / "ones.parquet")
    with pytest.raises(InvalidInput, match="no labels '1' and as many others"):
        session.meter.replace_validation(tmp_path / "ones.parquet", label="label")


def test_a_model_is_run_and_its_curve_kept_for_the_release(tmp_path: Path) -> None:
    session = Sealed(tmp_path, spec_of("roc[1]", rows=600, models=True, inputs="hidden"))
    script = """
import pyarrow as pa, sys
schema = pa.schema([("probability_0", pa.float64()), ("probability_1", pa.float64())])
with pa.ipc.new_stream(sys.stdout.buffer, schema) as writer:
    for batch in pa.ipc.open_stream(sys.stdin.buffer):
        half = pa.array([0.5] * batch.num_rows)
        writer.write_batch(pa.RecordBatch.from_arrays([half, half], schema=schema))
"""
    bundle = Bundle("python half.py", (BundledFile("half.py", script.encode()),))
    signal = session.meter.submit_any(Command(bundle), model="half")
    assert signal.name == "1"
    session.meter.retire()
    session.meter.release()
    (truth,) = session.meter.status(generation=1).retrospective
    assert truth is not None
    assert truth.test_loss == 0


def test_a_model_is_run_and_read_by_its_f1(tmp_path: Path) -> None:
    session = Sealed(tmp_path, spec_of("f1[1]", models=True, inputs="hidden"))
    everything = Function.of(lambda batch: np.ones(batch.num_rows, np.int64), "all positive")
    signal = session.meter.submit_any(everything, model="all")
    assert signal.name == "1"
    assert signal.validation_loss == pytest.approx(1 / 3)


@pytest.mark.slow
def test_a_server_takes_only_sets_with_enough_and_reads_their_f1(tmp_path: Path) -> None:
    spec = spec_of("f1[1]", floor=0.5, tries=2)
    with live(tmp_path / "site") as site:
        meter = site.served.add_meter(spec, prefix="w-")
        with (
            site.meter("w-labeler", meter) as labeler,
            site.meter("w-developer", "w-meter") as developer,
        ):
            own = np.arange(20) % 2
            table = pa.table({"x": np.random.default_rng(0).normal(size=20), "label": own})
            pq.write_table(table, tmp_path / "validation.parquet")
            developer.set_validation(tmp_path / "validation.parquet", label="label")
            size = developer.plan.size
            labels = np.zeros(400, np.int64)
            for number, positives in enumerate((size - 1, size)):
                labels[:positives] = 1
                inputs = np.random.default_rng(number + 1).normal(size=400)
                plain, sealed = tmp_path / f"{number}.parquet", tmp_path / f"{number}.sealed"
                pq.write_table(pa.table({"x": inputs, "label": labels}), plain)
                labeler.seal(plain, sealed, label="label")
                if positives < size:
                    with pytest.raises(InvalidInput, match="try 1 of 2"):
                        labeler.add_test_set(sealed)
                else:
                    labeler.add_test_set(sealed)
            said = developer.submit(
                pa.table({"prediction": labels}), pa.table({"prediction": own}), model="right"
            )
            assert said.name == "1"
            below = developer.submit(
                pa.table({"prediction": 0 * labels}), pa.table({"prediction": own}), model="none"
            )
            assert below.name == "below-floor"


@pytest.mark.slow
def test_a_server_reads_a_curve_and_releases_its_distance(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # where a release is written to
    with live(tmp_path / "site") as site:
        meter = site.served.add_meter(spec_of("roc[1]", rows=600), prefix="w-")
        with (
            site.meter("w-labeler", meter) as labeler,
            site.meter("w-developer", "w-meter") as developer,
        ):
            random = np.random.default_rng(3)
            tables = {"validation": np.arange(20) % 2, "hidden": np.arange(600) % 2}
            for name, labels in tables.items():
                table = pa.table({"x": random.normal(size=len(labels)), "label": labels})
                pq.write_table(table, tmp_path / f"{name}.parquet")
            developer.set_validation(tmp_path / "validation.parquet", label="label")
            labeler.seal(tmp_path / "hidden.parquet", tmp_path / "set.sealed", label="label")
            labeler.add_test_set(tmp_path / "set.sealed")
            seen, told = (0.25 + labels / 2 for labels in tables.values())
            told[:180] = 0.75  # 90 of 300 negatives
            files = [pa.table({"probability_0": 1 - p, "probability_1": p}) for p in (told, seen)]
            said = developer.submit(*files, model="eager")
            assert (said.name, said.true_gap) == ("1", (0.0, 0.6))
            assert "true rates of true and false positives are within 0.6" in said.promise
            labeler.retire()
            labeler.release()
            (truth,) = developer.status(generation=1).retrospective
            assert truth is not None
            assert truth.test_loss == pytest.approx(0.3)


# --- The best of all developers, in small worlds ---

KINDS = 4
"""Rows are of four kinds, of which the first two are positive."""
TRUTH = np.array([1, 1, 0, 0])
_TOO_FEW = number_of("too-few")


class World:
    """All data sets of a few rows, all models and the validation losses that matter."""

    def __init__(self, spec: MeterSpec, rows: int, least: int) -> None:
        self.spec, self.least = spec, least
        self.loss: Any = parse_loss(spec.loss).within(Classes.of((0, 1)).values)
        # Only how often each kind occurs matters, so data sets that agree in that count as one.
        drawn = Counter(tuple(sorted(each)) for each in itertools.product(range(4), repeat=rows))
        self.data, self.weights = list(drawn), list(drawn.values())
        self.enough = sum(
            1 << i
            for i, sample in enumerate(self.data)
            if not spec.fixes_rows or self._labels(sample).counted >= least
        )
        self.questions = set().union(*map(self._asked, self._models()))

    def _labels(self, sample: tuple[int, ...]) -> Any:
        return self.loss.of_labels(TRUTH[list(sample)])

    def _models(self) -> list[Any]:
        if self.loss.corpus.ranked:
            levels = itertools.product((0.2, 0.7), repeat=KINDS)
            return [np.array([[1 - level, level] for level in each]) for each in levels]
        return [np.array(each) for each in itertools.product((0, 1), repeat=KINDS)]

    def _asked(self, model: Any) -> set[tuple[int, tuple[int, ...]]]:
        """What a model can be answered: where its promise is broken, and where each answer is."""
        every = list(range(KINDS))
        whole = self.loss.sums(model[every], TRUTH[every])
        if not whole.counted:
            return set()
        samples = (list(sample) for sample in self.data)
        sums = [self.loss.sums(model[rows], TRUTH[rows]) for rows in samples]
        if self.spec.curve:
            # The promise is about every rate of the curve, and the answer about one number.
            off = self._means(sums, whole)
            told = (self._means(sums, visible) for visible in self._visible())
            return set().union(
                *(self._told([Fraction(0)], each, off, Fraction(0)) for each in told)
            )
        found = self._means(sums)
        return self._told([Fraction(k, 10) for k in range(11)], found, found, whole.mean(1))

    def _visible(self) -> list[Any]:
        """Curves that a validation set may show: shares of both classes at one of three levels."""
        shown = itertools.product(
            itertools.combinations_with_replacement((0.2, 0.5, 0.7), 2), repeat=2
        )
        truth = np.array([1, 1, 0, 0])
        levels = (np.array([*positives, *others]) for positives, others in shown)
        return [self.loss.sums(np.stack([1 - each, each], axis=1), truth) for each in levels]

    def _means(self, sums: list[Any], beside: Any = None) -> list[Fraction | None]:
        enough = [each if each.counted >= self.least else None for each in sums]
        if beside is not None:
            enough = [each and each.beside(beside) for each in enough]
        return [each and each.mean(1) for each in enough]

    def _told(
        self,
        validation: list[Fraction],
        told: list[Fraction | None],
        shown: list[Fraction | None],
        truth: Fraction,
    ) -> set[tuple[int, tuple[int, ...]]]:
        found = set()
        for v in validation:
            answers: dict[int, int] = {}
            broken = 0
            cache: dict[Any, int] = {}
            for i, score in enumerate(told):
                if not self.enough >> i & 1:
                    continue
                if score not in cache:
                    cache[score] = (
                        _TOO_FEW if score is None else answer_to(self.spec.meter, 0, v, score)
                    )
                answer = cache[score]
                answers[answer] = answers.get(answer, 0) | 1 << i
                broken |= self._is_broken(answer, shown[i], truth) << i
            found.add((broken, tuple(sorted(answers.values()))))
        return found

    def _is_broken(self, answer: int, score: Fraction | None, truth: Fraction) -> bool:
        eps = Fraction(str(self.spec.tolerances[0]))
        if score is None or answer == _TOO_FEW:
            return False
        if answer == number_of("below-floor"):
            return truth < Fraction(str(self.spec.ceiling)) - eps
        return abs(score - truth) > eps

    def best(self, steps: int) -> float:
        """The chance that the best strategy breaks a promise."""

        @functools.cache
        def broken(state: int, left: int) -> int:
            if not left or not state:
                return 0
            return max(
                self.measured(state & wrong)
                + sum(broken(state & ~wrong & answer, left - 1) for answer in answers)
                for wrong, answers in self.questions
            )

        return broken(self.enough, steps) / sum(self.weights)

    def measured(self, state: int) -> int:
        """How many data sets these are."""
        return sum(weight for i, weight in enumerate(self.weights) if state >> i & 1)

    @property
    def tail(self) -> float:
        """The largest chance that one model breaks its promise."""
        return max(self.measured(wrong) for wrong, _ in self.questions) / sum(self.weights)


WORLDS = {
    "recall": (spec_of("recall[1]", tolerance=0.3, edges=[0.6], rows=None), 5, 2),
    "recall with a floor": (spec_of("recall[1]", floor=0.5, edges=[0.4], rows=None), 5, 2),
    "precision": (spec_of("precision[1]", tolerance=0.3, edges=[0.6], rows=None), 5, 2),
    "f1 with a floor": (spec_of("f1[1]", floor=0.5, edges=[0.4], rows=None), 5, 3),
    "f1 with a floor and two edges": (
        spec_of("f1[1]", floor=0.6, tolerance=0.15, edges=[0.3, 0.6], rows=None),
        5,
        3,
    ),
    "balanced accuracy": (
        spec_of("balanced-accuracy", tolerance=0.3, edges=[0.6], rows=None),
        5,
        2,
    ),
    "macro recall": (spec_of("macro-recall", tolerance=0.3, edges=[0.6], rows=None), 5, 2),
    "macro F1": (spec_of("macro-f1", tolerance=0.3, edges=[0.6], rows=None), 5, 2),
    "weighted recall": (
        spec_of("weighted[0.3,0.7]", tolerance=0.3, edges=[0.6], rows=None),
        5,
        2,
    ),
    "auc": (spec_of("auc[1]", tolerance=0.3, edges=[0.6], rows=None), 4, 1),
    "auc with a floor": (spec_of("auc[1]", floor=0.5, edges=[0.4], rows=None), 4, 1),
    "roc": (spec_of("roc[1]", tolerance=0.3, edges=[0.6], rows=None), 6, 2),
    "roc with two edges": (
        spec_of("roc[1]", tolerance=0.3, edges=[0.3, 0.6], rows=None),
        6,
        2,
    ),
}


@pytest.mark.parametrize("name", WORLDS)
def test_no_developer_breaks_more_than_is_promised(name: str) -> None:
    spec, rows, least = WORLDS[name]
    world = World(spec, rows, least)
    answers = possible_bands(spec) + spec.silent_answers
    assert world.tail > 0
    for steps in (1, 2):
        found = world.best(steps)
        assert 0 < found <= math.exp(log_geometric(answers, steps)) * world.tail * (1 + 1e-12)
        assert found <= math.exp(log_failure(spec, least, steps=steps)) * (1 + 1e-9)


# --- A floor of each class ---

FLOOR, TOLERANCE = Fraction(61, 100), Fraction(6, 100)


def consistent(
    truth: tuple[Fraction, Fraction, Fraction], cut: Fraction, *, macro: bool
) -> dict[str, float]:
    """The answers to one model that break no promise, with their chances, on twelve rows.

    Of all rows, so many are positives that it finds, positives that it misses, and negatives. Bands
    meet at `cut`. A score of one class is below the floor itself, of macro-F1 some class is.
    """

    def scores(found: Any, missed: Any, negative: Any) -> list[Fraction]:
        one = Fraction(2 * found) / (2 * found + missed) if found + missed else Fraction(1)
        other = Fraction(2 * negative) / (2 * negative + missed) if negative + missed else 1
        return [one, Fraction(other)] if macro else [one]

    exact: list[Fraction] = scores(*truth)
    chances: dict[str, float] = {}
    for found, missed in itertools.product(range(13), repeat=2):
        if found + missed > 12:
            continue
        told = scores(found, missed, 12 - found - missed)
        mean, true = (sum(each, Fraction(0)) / len(each) for each in (told, exact))
        off = abs(mean - true)
        answer = "below" if min(told) < FLOOR else f"{mean >= cut}"
        kept = min(exact) <= FLOOR + TOLERANCE if answer == "below" else off <= TOLERANCE
        ways = math.comb(12, found) * math.comb(12 - found, missed)
        drawn = truth[0] ** found * truth[1] ** missed * truth[2] ** (12 - found - missed)
        if kept:
            chances[answer] = chances.get(answer, 0.0) + float(ways * drawn)
    return chances


def test_a_floor_of_each_class_leaves_three_answers_to_one_model() -> None:
    """So macro-F1 with a floor is counted with one answer more than F1, and needs more positives.

    The edge lies more than two tolerances above the floor, as the plan says. Of one score that is
    too far for "below the floor"; an average can be there while one of its classes is at the floor.
    """
    truth = Fraction(1, 4), Fraction(1, 4), Fraction(1, 2)
    cut = Fraction(74, 100)
    assert cut > FLOOR + 2 * TOLERANCE
    found = consistent(truth, cut, macro=True)
    assert len(found) == 3
    assert min(found.values()) > 0.05
    for part in range(1, 20):
        hit = Fraction(part, 40)
        for cut in (Fraction(k, 40) for k in range(41)):
            if not FLOOR <= cut <= FLOOR + 2 * TOLERANCE:
                alone = consistent((hit, Fraction(1, 2) - hit, Fraction(1, 2)), cut, macro=False)
                assert len(alone) <= 2
    asked: dict[str, Any] = {"floor": 0.8, "steps": 10, "tolerance": 0.01, "delta": 0.01}
    of_ten = plan_question(metric="macro-f1", classes=10, **asked)
    assert of_ten.size == 35_389
    # With two answers, as F1 is counted: what the notes had, and no proof covers.
    nats = log_geometric(2, 10) - math.log(0.01)
    assert sums.log_tail(of_ten.question, 27_815) + nats == pytest.approx(0, abs=0.001)
    assert sums.log_count(of_ten.question, 10) == pytest.approx(log_geometric(3, 10))


def test_the_best_developer_of_two_steps_stays_within_three_answers() -> None:
    """Every model and edge in a world of eight rows, whose kinds are not equally frequent.

    A first model breaks its promise, or each of its three answers is followed by the best second
    one. That reaches 2.55 tails: the count with three answers allows 4, that with two allows 3.
    """
    weights, floor, tolerance, edge = np.array([1, 1, 3, 5]), 0.4, 0.2, 1e-9
    every = [each for each in itertools.product(range(9), repeat=4) if sum(each) == 8]
    counts = np.array([each for each in every if min(sum(each[:2]), sum(each[2:])) >= 2])
    ways = [math.factorial(8) / math.prod(map(math.factorial, each)) for each in counts.tolist()]
    chances = np.array(ways) * np.prod((weights / weights.sum()) ** counts, axis=1)

    def scores(model: Any, drawn: Any) -> Any:
        found = []
        for kind in (0, 1):
            hits = drawn[..., (kind == TRUTH) & (model == kind)].sum(-1)
            errors = drawn[..., (kind == TRUTH) != (model == kind)].sum(-1)
            found.append(2 * hits / np.maximum(2 * hits + errors, 1))
        return np.stack(found, -1)

    models = [np.array(each) for each in itertools.product((0, 1), repeat=KINDS)]
    told = np.array([scores(model, counts) for model in models])
    true = np.array([scores(model, weights) for model in models])
    below = told.min(-1) < floor - edge
    off = np.abs(told.mean(-1) - true.mean(-1)[:, None]) > tolerance + edge
    broken = np.where(below, (true.min(-1) > floor + tolerance + edge)[:, None], off)
    tail = (broken @ chances).max()

    def second(rows: Any) -> float:
        return float((broken @ (chances * rows)).max())

    best = 0.0
    for model in range(len(models)):
        mean, rest = told[model].mean(-1), ~broken[model]
        for cut in np.unique(mean):
            if not floor <= cut <= floor + 2 * tolerance + edge:
                upper, read = mean >= cut - edge, ~below[model] & rest
                parts = (below[model] & rest, read & upper, read & ~upper)
                first = float(broken[model] @ chances)
                best = max(best, first + sum(second(part) for part in parts))
    assert best / tail == pytest.approx(2.55, abs=0.005)
    assert best <= math.exp(log_geometric(3, 2)) * tail


# --- Simulated at the planned size ---


@pytest.mark.parametrize("floor", [None, 0.8])
def test_f1_of_the_worst_models_stays_within_delta_and_is_not_planned_too_large(
    floor: float | None,
) -> None:
    """One step, whose failure is one tail: positives as planned, and models of many scores."""
    asked = {"steps": 1, "tolerance": 0.05, "delta": 0.05, "edges": [0.5], "rows": None}
    spec = spec_of("f1[1]", floor=floor, **asked)
    size = required_labels(spec).size
    random = np.random.default_rng(5)
    worst = 0.0
    for score in [*np.linspace(0.05, 0.97, 24), 0.851, 0.855]:  # and just beyond the floor
        hits = random.binomial(size, score / (2 - score), 20_000)
        told = 2 * hits / (size + hits)
        broken = np.abs(told - score) > 0.05
        if floor is not None:
            broken = np.where(told < floor, score > floor + 0.05, broken)
        worst = max(worst, float(broken.mean()))
    assert 0.3 * 0.05 < worst <= 0.05


@pytest.mark.parametrize("loss", ["balanced-accuracy", "auc[1]", "recall[1]", "precision[1]"])
def test_other_scores_stay_within_delta(loss: str) -> None:
    spec = spec_of(loss, steps=1, tolerance=0.1, edges=[0.5], delta=0.1, rows=None)
    size = required_labels(spec).size
    random = np.random.default_rng(6)
    runs = 20_000
    shares = random.binomial(size, 0.5, (runs, 2)) / size
    off = np.abs(shares[:, 0] - 0.5)
    if loss == "balanced-accuracy":
        off = np.abs(shares.mean(axis=1) - 0.5)
    if loss == "auc[1]":  # a model that predicts positives at random, and knows all negatives
        # Ranked above all others or below all: pairs hang together as closely as they can.
        off = np.abs(shares[:, 0] - 0.5)
    assert 0 < float((off > 0.1).mean()) <= 0.1


def test_all_rates_of_a_curve_stay_within_delta_together_and_are_not_planned_too_large() -> None:
    """One step, whose failure is one tail: scores of all levels, the worst case of DKW."""
    spec = spec_of("roc[1]", steps=1, tolerance=0.1, edges=[0.5], delta=0.1, rows=None)
    size, runs = required_labels(spec).size, 4_000
    random = np.random.default_rng(8)
    ranks = np.arange(size)
    off = np.zeros(runs)
    for _ in range(2):  # the true share below a level is that level
        levels = np.sort(random.random((runs, size)), axis=1)
        ends = np.maximum(levels - ranks / size, (ranks + 1) / size - levels)
        off = np.maximum(off, ends.max(axis=1))
    assert 0.5 * 0.1 < float((off > 0.1).mean()) <= 0.1
