"""Meters whose test sets are drawn stratum by stratum: the plan, whole sessions, and the promise.

The promise is checked against the best of all developers in worlds of a few rows, by the meter's
own rules and scoring, and by simulation at the planned size.
"""

from __future__ import annotations

import functools
import itertools
import math
from fractions import Fraction
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.live import live
from tests.promise.sums import log_failure, log_geometric, log_strata_tail, possible_bands
from tests.server.helpers import serve
from tests.server.web.helpers import Visitor, words
from tests.service.helpers import Clock

from easeml_meter.cli import main
from easeml_meter.core.questions.asking import plan_question
from easeml_meter.core.questions.planning import required_labels
from easeml_meter.errors import InvalidInput
from easeml_meter.lab.simulation.arena import answer_to
from easeml_meter.meter import Meter
from easeml_meter.promise.numbers.bounds import Bound
from easeml_meter.promise.numbers.scores import log_average_tail
from easeml_meter.promise.numbers.tails import log_tail
from easeml_meter.report.checks import checks
from easeml_meter.report.words import settings_words
from easeml_meter.scoring.losses import UNIT
from easeml_meter.scoring.score import LossTotals
from easeml_meter.scoring.validation import strata_of
from easeml_meter.service.testsets import checking
from easeml_meter.spec import MeterSpec

NAMES = ("north", "south")


def spec_of(**options: Any) -> MeterSpec:
    given: dict[str, Any] = {"tolerance": 0.2, "edges": [0.4], "steps": 3, "delta": 0.2}
    given |= {"stratum": "region", "strata": NAMES, "weights": (0.7, 0.3), "inputs": "public"}
    return MeterSpec.uniform(**(given | options))


GOLDEN: dict[str, Any] = {"tolerance": 0.01, "steps": 10, "delta": 0.01, "edges": None}
GOLDEN |= {"signals": 5}


# --- The plan ---


def test_proportional_strata_cost_no_more_than_a_plain_sample() -> None:
    """48,986 is the plain sample, and 48,990 the next number of which 0.7 is a whole number."""
    plan = required_labels(spec_of(**GOLDEN))
    assert plan.labels == 48_990
    assert plan.to_dict()["strata"] == {"north": 34_293, "south": 14_697}
    assert plan.spec.tail is Bound.EXACT
    scores = required_labels(spec_of(**GOLDEN, loss="brier"))
    assert (scores.labels, scores.spec.tail) == (53_630, Bound.CONVEX)
    documented = required_labels(spec_of(tolerance=0.02, delta=0.05, steps=10, edges=[0.1]))
    assert documented.to_dict()["strata"] == {"north": 7_252, "south": 3_108}
    same = required_labels(spec_of(**GOLDEN, sizes=(34_293, 14_697)))
    assert (same.labels, same.failure_probability) == (48_990, plan.failure_probability)


def test_strata_of_one_size_need_what_the_weighted_metric_needs() -> None:
    weights = (0.5, 0.3, 0.2)
    spec = spec_of(**GOLDEN, strata=("a", "b", "c"), weights=weights, sizes=(23_235,) * 3)
    question = plan_question(metric="weighted", weights=list(weights), **GOLDEN)
    assert question.size == 23_235
    assert required_labels(spec).labels == 3 * 23_235
    with pytest.raises(InvalidInput, match="too few: 69,7"):
        required_labels(spec.replace(sizes=(23_234,) * 3))
    tails = (
        log_strata_tail(spec, 3 * 900, 0.01),
        log_average_tail(900, 0.01, [Fraction(str(each)) for each in weights]),
    )
    assert tails[0] == pytest.approx(tails[1])


def test_the_exact_tail_is_taken_only_under_its_conditions() -> None:
    spec = spec_of(tolerance=0.01)
    for labels in (50, 99):  # n eps < 1
        assert log_strata_tail(spec, labels, 0.01) == log_tail(Bound.HOEFFDING, labels, 0.01)
    assert log_strata_tail(spec, 1_000, 0.01) == log_tail(Bound.EXACT, 1_000, 0.01)
    uneven = spec.replace(sizes=(5, 5))
    assert uneven.tail is Bound.KL
    assert log_strata_tail(uneven, 10_000, 0.05) > log_tail(Bound.EXACT, 10_000, 0.05)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"stratum": ""}, 'only with stratum = "COLUMN"'),
        ({"strata": ("north",), "weights": (1.0,)}, "2 to 1,000"),
        ({"strata": ("north", "north")}, "each stratum once"),
        ({"strata": (1, "1")}, "each stratum once"),
        ({"weights": (0.7,)}, "one for each of 2"),
        ({"weights": (0.7, 0.2)}, "sum to 1"),
        ({"weights": (1.0, 0.0)}, "above 0"),
        ({"weights": (0.7000001, 0.2999999)}, "6 decimals"),
        ({"sizes": (5,)}, "the rows of each of 2"),
        ({"sizes": (0, 5)}, "sizes"),
        ({"sizes": (5, True)}, "sizes"),
        ({"sizes": (5, "5")}, "sizes"),
        ({"stratum": 5}, "a column's name"),
        ({"stratum": "r" * 201}, "a column's name"),
        ({"strata": ([], "south")}, "texts or whole numbers"),
        ({"strata": "north"}, "a list needed"),
        ({"weights": ("0.7", 0.3)}, "a finite number"),
        ({"weights": (float("nan"), 0.3)}, "a finite number"),
        ({"loss": "f1[1]"}, "not with the loss f1"),
        ({"loss": "score"}, "not with the loss score"),
        ({"ceiling": 0.2}, "not with ceiling"),
        ({"clusters": True}, "not with clusters"),
        ({"window": 4}, "not with window"),
        ({"protocol": "resampling"}, "not with the resampling"),
        ({"models": True, "inputs": "hidden"}, "submit predictions"),
        ({"judge_error": 0.1, "pool": 100, "rows": 100}, "not with a judge"),
    ],
)
def test_what_no_theorem_covers_is_refused(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidInput, match=problem):
        spec_of(**options)


def test_strata_are_written_and_read_again() -> None:
    spec = spec_of(sizes=(70, 30))
    assert MeterSpec.from_mapping(spec.to_mapping()) == spec


# --- Sessions ---


def rows(counts: tuple[int, int], seed: int) -> dict[str, Any]:
    """Give rows of both strata, with labels that alternate."""
    region = np.repeat(NAMES, counts)
    inputs = np.random.default_rng(seed).normal(size=len(region))
    return {"x": inputs, "region": region, "label": np.arange(len(region)) % 2}


def told(data: dict[str, Any], wrong: tuple[int, int]) -> pa.Table:
    """Predict all but so many rows of each stratum rightly."""
    found = data["label"].copy()
    for name, count in zip(NAMES, wrong, strict=True):
        places = np.flatnonzero(data["region"] == name)[:count]
        found[places] = 1 - found[places]
    return pa.table({"prediction": found})


def write(path: Path, data: dict[str, Any]) -> Path:
    pq.write_table(pa.table(data), path)
    return path


@pytest.mark.parametrize("sizes", [(), (150, 150)])
def test_a_session_weighs_the_losses_of_its_strata(sizes: tuple[int, ...], tmp_path: Path) -> None:
    spec = spec_of(sizes=sizes)
    meter = Meter.create(tmp_path / "meter", spec, name="weighed")
    (request,) = meter.requests()
    needed = dict(request.strata)
    assert sum(needed.values()) == request.test_set.labels_needed == meter.plan.labels
    counts = (needed["north"], needed["south"])
    own, hidden = rows((4, 8), 1), rows(counts, 2)
    meter.set_validation(write(tmp_path / "own.parquet", own), label="label")
    meter.seal(write(tmp_path / "hidden.parquet", hidden), tmp_path / "set", label="label")
    meter.add_test_set(tmp_path / "set")
    # A plain mean over the rows of the validation set would be 1/4.
    first = meter.submit(told(hidden, (0, counts[1])), told(own, (1, 2)), model="no south")
    assert first.validation_loss == pytest.approx(0.7 / 4 + 0.3 / 4)
    assert first.name == "1"
    second = meter.submit(told(hidden, (counts[0], 0)), told(own, (0, 0)), model="no north")
    assert second.name == "2"
    assert "its true gap" in meter.status().promise
    meter.retire()
    meter.release()
    view = meter.status(generation=1)
    losses = [truth and truth.test_loss for truth in view.retrospective]
    assert losses == [pytest.approx(0.3), pytest.approx(0.7)]
    assert [check.right for check in checks(view)] == [True, True]
    assert meter.audit().sound


def test_other_sizes_and_names_are_refused_before_anything_is_sealed(tmp_path: Path) -> None:
    meter = Meter.create(tmp_path / "meter", spec_of(sizes=(150, 150)), name="weighed")
    meter.set_validation(write(tmp_path / "own.parquet", rows((4, 8), 1)), label="label")
    hidden = write(tmp_path / "hidden.parquet", rows((149, 151), 2))
    with pytest.raises(InvalidInput, match="stratum 'north': 149 rows given, exactly 150 needed"):
        meter.seal(hidden, tmp_path / "set", label="label")
    write(hidden, rows((150, 151), 2))
    with pytest.raises(InvalidInput, match="301 given, exactly 300 needed"):
        meter.seal(hidden, tmp_path / "set", label="label")
    data = rows((150, 150), 2)
    write(hidden, data | {"region": np.where(data["x"] > 0, "west", data["region"])})
    with pytest.raises(InvalidInput, match="stratum 'west' given, one of north, south"):
        meter.seal(hidden, tmp_path / "set", label="label")
    write(hidden, {name: column for name, column in data.items() if name != "region"})
    with pytest.raises(InvalidInput, match=r"no column 'region'.*name the stratum column"):
        meter.seal(hidden, tmp_path / "set", label="label")
    write(hidden, data)
    with pytest.raises(InvalidInput, match="stratum column"):
        meter.seal(hidden, tmp_path / "set", label="region")
    with pytest.raises(InvalidInput, match="a test set of strata is delivered whole"):
        meter.seal(hidden, tmp_path / "set", label="label", part=True)
    # Whatever inputs are chosen, the strata are sealed with them.
    meter.seal(hidden, tmp_path / "set", label="label", columns=["x"])
    assert meter.add_test_set(tmp_path / "set").rows == 300


def test_a_file_sealed_for_other_strata_is_refused_when_it_arrives(tmp_path: Path) -> None:
    """A labeler's machine may be another version, or lie."""
    meter = Meter.create(tmp_path / "meter", spec_of(sizes=(150, 150)), name="weighed")
    meter.set_validation(write(tmp_path / "own.parquet", rows((4, 8), 1)), label="label")
    for counts, named in (((140, 160), True), ((150, 150), False)):
        data = rows(counts, 2)
        data = data if named else {key: data[key] for key in ("x", "label")}
        hidden = write(tmp_path / "hidden.parquet", data)
        sealed = tmp_path / f"{named}.sealed"
        with mock.patch.object(checking, "strata_of", return_value=None):
            meter.seal(hidden, sealed, label="label")
        with pytest.raises(InvalidInput, match="exactly 150" if named else "'region' in each row"):
            meter.add_test_set(sealed)


def test_a_validation_set_has_every_stratum(tmp_path: Path) -> None:
    meter = Meter.create(tmp_path / "meter", spec_of(), name="weighed")
    own = write(tmp_path / "own.parquet", rows((4, 0), 1))
    with pytest.raises(InvalidInput, match="stratum 'south': 0 rows given"):
        meter.set_validation(own, label="label")


@pytest.mark.slow
def test_a_server_asks_for_the_rows_of_each_stratum(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # where a release is written to
    with live(tmp_path / "site") as site:
        meter = site.served.add_meter(spec_of(), prefix="w-")
        with (
            site.meter("w-labeler", meter) as labeler,
            site.meter("w-developer", "w-meter") as developer,
        ):
            (request,) = labeler.requests()
            needed = dict(request.strata)
            assert set(needed) == set(NAMES)
            own, hidden = rows((4, 8), 1), rows((needed["north"], needed["south"]), 2)
            developer.set_validation(write(tmp_path / "own.parquet", own), label="label")
            plain, sealed = tmp_path / "hidden.parquet", tmp_path / "set"
            labeler.seal(write(plain, hidden), sealed, label="label")
            labeler.add_test_set(sealed)
            wrong = (0, needed["south"])
            said = developer.submit(told(hidden, wrong), told(own, (0, 0)), model="no south")
            assert said.name == "1"
            labeler.retire()
            labeler.release()
            (truth,) = developer.status(generation=1).retrospective
            assert truth is not None
            assert truth.test_loss == pytest.approx(0.3)


def test_labelers_are_told_how_many_rows_of_each_stratum_to_draw(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = spec_of(sizes=(150, 90))
    with serve(tmp_path / "site", clock=Clock(), requests_per_second=0) as served:
        meter = served.add_meter(spec)
        page = words(Visitor(served, "labeler").get(f"/meters/{meter}/labels"))
        assert "region says which stratum a row is in, exactly 150 of north , 90 of south ." in page
        assert "in one file" in page
        assert "More are welcome" not in page
    assert ("Strata", "north 0.7, south 0.3") in [each[:2] for each in settings_words(spec)]
    folder = tmp_path / "meter"
    Meter.create(folder, spec, name="weighed")
    with pytest.raises(SystemExit):
        main(["testset", "requests", "--folder", str(folder)])
    assert "  150 rows of north needed\n  90 rows of south needed\n" in capsys.readouterr().out


def test_two_models_are_compared_by_the_weighted_loss(tmp_path: Path) -> None:
    meter = Meter.create(tmp_path / "meter", spec_of(sizes=(150, 90)), name="weighed")
    own, hidden = rows((4, 8), 1), rows((150, 90), 2)
    meter.set_validation(write(tmp_path / "own.parquet", own), label="label")
    meter.seal(write(tmp_path / "hidden.parquet", hidden), tmp_path / "set", label="label")
    meter.add_test_set(tmp_path / "set")
    for wrong in ((150, 0), (0, 90)):
        meter.submit(told(hidden, wrong), told(own, (0, 0)), model=str(wrong))
    meter.retire()
    meter.release()
    found = meter.differences(1)
    assert found.first.test_loss == pytest.approx(0.7)
    assert found.second.test_loss == pytest.approx(0.3)
    assert (found.worse, found.better) == (90, 150)


# --- The best of all developers, in small worlds ---


class World:
    """All samples of a few rows of two strata, each of two kinds of rows, and all models."""

    def __init__(self, spec: MeterSpec, sizes: tuple[int, int]) -> None:
        self.spec = spec
        strata = strata_of(spec)
        assert strata is not None
        region = np.repeat(NAMES, sizes)
        self.strata = strata.of([pa.record_batch({"region": region})])
        # How many rows of a stratum are of its first kind is all that matters of a sample.
        self.data = list(itertools.product(*(range(size + 1) for size in sizes)))
        self.weights = [math.prod(map(math.comb, sizes, each)) for each in self.data]
        self.sizes = sizes
        losses = list(itertools.product((0, 1), repeat=4))  # of both kinds in both strata
        self.questions = set().union(*map(self._asked, losses))

    def _loss(self, model: tuple[int, ...], sample: tuple[int, ...]) -> Fraction:
        counts = [(first, size - first) for first, size in zip(sample, self.sizes, strict=True)]
        units = np.repeat(model, np.array(counts).ravel()) * UNIT
        return LossTotals.score([LossTotals.of(self.strata, [units])], self.strata).mean

    def _asked(self, model: tuple[int, ...]) -> set[tuple[int, tuple[int, ...]]]:
        means = [Fraction(model[2 * k] + model[2 * k + 1], 2) for k in range(2)]
        truth = sum(w * mean for w, mean in zip(self.strata.weights, means, strict=True))
        told, found = [self._loss(model, sample) for sample in self.data], set()
        eps = Fraction(str(self.spec.tolerances[0]))
        broken = sum((abs(x - truth) > eps) << i for i, x in enumerate(told))
        for v in (Fraction(k, 20) for k in range(21)):
            answers: dict[int, int] = {}
            for i, x in enumerate(told):
                answer = answer_to(self.spec.meter, 0, v, x)
                answers[answer] = answers.get(answer, 0) | 1 << i
            found.add((broken, tuple(sorted(answers.values()))))
        return found

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

        return broken((1 << len(self.data)) - 1, steps) / sum(self.weights)

    def measured(self, state: int) -> int:
        """How many samples these are."""
        return sum(weight for i, weight in enumerate(self.weights) if state >> i & 1)

    @property
    def tail(self) -> float:
        """The largest chance that one model breaks its promise."""
        return max(self.measured(wrong) for wrong, _ in self.questions) / sum(self.weights)


WORLDS = {
    "proportional": ((0.6, 0.4), (6, 4), [0.4]),
    "of one size": ((0.7, 0.3), (5, 5), [0.4]),
    "with two edges": ((0.7, 0.3), (6, 3), [0.2, 0.4]),
    "against the weights": ((0.2, 0.8), (7, 3), [0.4]),
}


@pytest.mark.parametrize("name", WORLDS)
def test_no_developer_breaks_more_than_is_promised(name: str) -> None:
    weights, sizes, edges = WORLDS[name]
    spec = spec_of(weights=weights, sizes=sizes, edges=edges)
    assert spec.proportional == (name == "proportional")
    world = World(spec, sizes)
    answers = possible_bands(spec)
    assert world.tail > 0
    for steps in (1, 2, 3):
        found = world.best(steps)
        assert 0 < found <= math.exp(log_geometric(answers, steps)) * world.tail * (1 + 1e-12)
        assert found <= math.exp(log_failure(spec, sum(sizes), steps=steps)) * (1 + 1e-9)


# --- Simulated at the planned size ---


@pytest.mark.parametrize(("weights", "uneven"), [((0.7, 0.3), False), ((0.7, 0.3), True)])
def test_the_worst_models_stay_within_delta_and_are_not_planned_too_large(
    weights: tuple[float, float], *, uneven: bool
) -> None:
    asked: dict[str, Any] = {"steps": 1, "tolerance": 0.05, "delta": 0.05, "edges": [0.5]}
    sizes = (600, 600) if uneven else ()
    plan = required_labels(spec_of(**asked, weights=weights, sizes=sizes))
    counts = plan.spec.stratum_rows(plan.labels).values()
    random, worst = np.random.default_rng(4), 0.0
    for rates in itertools.product((0.02, 0.2, 0.5, 0.9), repeat=2):
        losses = [
            weight * random.binomial(size, rate, 20_000) / size
            for weight, size, rate in zip(weights, counts, rates, strict=True)
        ]
        truth = sum(weight * rate for weight, rate in zip(weights, rates, strict=True))
        worst = max(worst, float((np.abs(sum(losses) - truth) > 0.05).mean()))
    assert worst <= 0.05
    assert uneven or worst > 0.5 * 0.05
