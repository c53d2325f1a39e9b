"""Losses: right, exact, and the same to the bit however row groups are cut, mapped and compared."""

from __future__ import annotations

import multiprocessing
import sys
import warnings
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.scoring.examples import ANIMALS, DIGITS, Held, InMemory, expected, split, write

from easeml_meter.conditions import Comparison
from easeml_meter.errors import InvalidInput
from easeml_meter.scoring import score as module
from easeml_meter.scoring.classes import Classes
from easeml_meter.scoring.losses import MOST_ROWS, UNIT, LossFailed, Sums, TopK, ZeroOne, parse_loss
from easeml_meter.scoring.outputs import Expected, read_labels
from easeml_meter.scoring.predictions import Predictions
from easeml_meter.scoring.score import LossTotals, Score, Unscorable, compare, losses_of, score
from easeml_meter.tables import source
from easeml_meter.tables.groups import Clusters, Strata

MINE = "tests.scoring.examples"
WIDE = 150


def example(name: str, rows: int, seed: int) -> tuple[InMemory, NDArray[Any]]:
    """Make predictions and labels for a loss."""
    random = np.random.default_rng(seed)
    labels: NDArray[Any] = random.integers(0, WIDE, rows)
    predictions: NDArray[Any]
    classes = None
    match name:
        case "0-1":
            classes = Classes.of(range(WIDE))
            predictions = np.where(random.random(rows) < 0.5, labels, 0).astype(np.uint8)
        case "top-3":
            classes = Classes.of(range(WIDE))
            predictions = random.integers(0, WIDE, (rows, 3)).astype(np.uint8)
        case "brier":
            classes = Classes.of(range(WIDE))
            predictions = random.dirichlet(np.ones(WIDE), rows)
        case _:
            predictions, labels = random.uniform(-1, 1, rows), random.uniform(-1, 1, rows)
    return InMemory(expected(rows, name, classes), predictions), labels


LOSSES = ("0-1", "top-3", "absolute[-1,1]", "squared[-1,1]", "brier")


@pytest.mark.parametrize("name", LOSSES)
@given(st.data())
def test_row_groups_never_change_the_bits(name: str, data: st.DataObject) -> None:
    rows = data.draw(st.integers(1, 60))
    predictions, labels = example(name, rows, data.draw(st.integers(0, 1000)))
    whole = score(predictions, [labels])
    bounds = [0, *sorted(data.draw(st.lists(st.integers(0, rows)))), rows]
    sizes = [after - before for before, after in pairwise(bounds)]
    assert score(predictions, split(labels, sizes)) == whole
    assert score(predictions, (pa.array(part) for part in split(labels, sizes))) == whole
    assert whole.count == rows
    loss = predictions.expected.loss
    plain = loss(predictions.values, labels)
    assert float(whole.mean) == pytest.approx(plain.mean(), abs=1e-12)
    assert whole.mean == Fraction(whole.sums.losses, rows * (1 if loss.zero_one else UNIT))
    # One by one, in any order: addition of whole numbers does not care.
    order = data.draw(st.permutations(range(rows)))
    single = [loss.sums(predictions.values[i : i + 1], labels[i : i + 1]) for i in order]
    assert sum(single, Sums()) == whole.sums


def backwards(function: Callable[[Any], Any], tasks: Iterable[Any]) -> Iterable[Any]:
    """Map in the opposite order."""
    return [function(task) for task in reversed(list(tasks))]


@pytest.mark.parametrize("name", LOSSES)
def test_every_executor_gives_the_same_bits(name: str) -> None:
    predictions, labels = example(name, 1000, seed=1)
    groups = [Held(tuple(part.tolist())) for part in split(labels, [300, 0, 1, 699])]
    inline = score(predictions, groups)
    assert score(predictions, groups, map_function=backwards) == inline
    with ThreadPoolExecutor(3) as threads:
        assert score(predictions, groups, map_function=threads.map) == inline


def test_processes_give_the_same_bits() -> None:
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawn) as processes:
        for name in (*LOSSES, f"{MINE}:half[real]"):
            predictions, labels = example(name, 100, seed=2)
            groups = [Held(tuple(part.tolist())) for part in split(labels, [30, 70])]
            inline = score(predictions, groups)
            assert score(predictions, groups, map_function=processes.map) == inline
        predictions, _ = example(f"{MINE}:raising", 2, seed=2)
        with pytest.raises(Unscorable) as failed:
            score(predictions, [Held((0.123, 0.456))], map_function=processes.map)
        assert "0.123" not in str(failed.value.__cause__)  # what the other process printed


def test_large_groups_are_worked_through_in_slices() -> None:
    rows = 300_000
    predictions, labels = example("squared[-1,1]", rows, seed=3)
    assert score(predictions, [labels]) == score(predictions, split(labels, [7, rows - 7]))
    extreme = InMemory(expected(rows, "absolute[0,1]"), np.ones(rows))
    assert score(extreme, [np.zeros(rows)]).mean == 1
    assert score(extreme, [np.ones(rows)]).mean == 0


@pytest.mark.parametrize(
    "labels",
    [
        np.array(["cat", "owl", "owl"]),
        pa.array(["cat", "owl", "owl"], pa.large_string()),
        pa.array(["cat", "owl", "owl"]).dictionary_encode(),
        pa.chunked_array([["cat"], ["owl", "owl"]]),
        pa.chunked_array([["cat"], ["owl", "owl"]]).dictionary_encode(),
        pa.chunked_array(
            [pa.array(["cat"]).dictionary_encode(), pa.array(["owl", "owl"]).dictionary_encode()]
        ),
    ],
    ids=lambda labels: str(getattr(labels, "type", "numpy")),
)
def test_labels_of_any_encoding(tmp_path: Path, labels: Any) -> None:
    path = write(tmp_path / "p.csv", {"prediction": ["cat", "dog", "owl"]})
    predictions = Predictions.open(path, expected=expected(3, "0-1", ANIMALS))
    assert score(predictions, [labels]) == Score(Sums(1), 3)
    assert score(predictions, [labels]).mean == Fraction(1, 3)


def test_labels_are_taken_one_group_at_a_time(tmp_path: Path) -> None:
    alive = 0

    class Group:
        def __len__(self) -> int:
            return 2

        def read(self) -> Any:
            nonlocal alive
            alive += 1
            assert alive == 1
            return [0, 0]

    def groups() -> Iterable[Group]:
        nonlocal alive
        for _ in range(5):
            yield Group()
            alive -= 1

    path = write(tmp_path / "p.csv", {"prediction": [0] * 10})
    predictions = Predictions.open(path, expected=expected(10, "0-1", DIGITS))
    assert score(predictions, groups()).sums == Sums()


def test_a_hidden_label_outside_the_class_list_is_an_error_for_everybody() -> None:
    predictions = InMemory(expected(2, "0-1", DIGITS), np.array([1, 2], np.uint8))
    assert score(predictions, [pa.array([1, 77])]) == Score(Sums(1), 2)
    with pytest.raises(InvalidInput, match="row 2: 77 given"):
        score(predictions, [pa.array([1, 77])], revealed=True)


BAD_LABELS = [
    ("absolute[0,1]", [0.5, 1.25]),
    ("absolute[0,1]", [0.5, float("nan")]),
    ("absolute[0,1]", [None, 0.5]),
    ("absolute[0,1]", ["secret", "0.5"]),
    ("absolute[0,1]", [[1], [2]]),
    (f"{MINE}:raising", [0.5, 0.25]),
    (f"{MINE}:too_large", [0.5, 0.25]),
    (f"{MINE}:too_few", [0.5, 0.25]),
]


def test_every_failure_on_hidden_labels_looks_the_same() -> None:
    seen = set()
    for name, labels in BAD_LABELS:
        predictions = InMemory(expected(2, name), np.array([0.5, 0.5]))
        with pytest.raises(Unscorable) as failed:
            score(predictions, [pa.array(labels)])
        seen.add(str(failed.value))
        assert failed.value.__cause__ is None
        assert failed.value.__suppress_context__
        with pytest.raises((InvalidInput, LossFailed)):
            score(predictions, [pa.array(labels)], revealed=True)
    assert len(seen) == 1


def test_as_many_labels_as_predictions() -> None:
    predictions = InMemory(expected(3, "0-1", DIGITS), np.zeros(3, np.uint8))
    with pytest.raises(ValueError, match="2 labels for 3 predictions"):
        score(predictions, [pa.array([0, 0])])
    with pytest.raises(ValueError, match="2 labels for 1 predictions"):
        score(predictions, [pa.array([0, 0]), pa.array([0, 0])])


def test_a_loss_of_ones_own_sees_texts(tmp_path: Path) -> None:
    path = write(tmp_path / "p.csv", {"prediction": ["short", "longer text"]})
    predictions = Predictions.open(path, expected=expected(2, f"{MINE}:lengths"))
    found = score(predictions, [pa.array(["short"]), pa.array(["longer"])])
    assert float(found.mean) == pytest.approx(0.25)
    assert parse_loss(f"{MINE}:lengths").unit == found.unit == UNIT


@pytest.mark.parametrize("name", ["0-1", "brier"])
def test_nothing_is_said_about_hidden_labels_whatever_the_loss(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    predictions, labels = example(name, 10, seed=1)
    read = read_labels

    def noisy(*given: Any, **options: Any) -> Any:
        print("a label", file=sys.stderr)
        warnings.warn("a label", stacklevel=1)
        return read(*given, **options)

    monkeypatch.setattr(module, "read_labels", noisy)
    score(predictions, [labels])
    assert capsys.readouterr() == ("", "")


class TestClusters:
    """One example is a cluster: its loss is the mean of its rows'."""

    @pytest.mark.parametrize("name", LOSSES)
    @given(st.data())
    def test_the_mean_of_their_means(self, name: str, data: st.DataObject) -> None:
        rows = data.draw(st.integers(1, 40))
        predictions, labels = example(name, rows, data.draw(st.integers(0, 99)))
        given = data.draw(st.lists(st.integers(0, 5), min_size=rows, max_size=rows))
        cuts = sorted(data.draw(st.sets(st.integers(0, rows), max_size=4)) | {0, rows})
        groups = [labels[a:b] for a, b in pairwise(cuts)]
        clusters = Clusters.of([pa.array(given)])
        found = score(predictions, groups, revealed=True, clusters=clusters)
        losses = predictions.expected.loss(predictions.values, labels)
        units = [Fraction(int(np.rint(float(each) * UNIT)), UNIT) for each in losses]
        means = [
            Fraction(sum(unit for unit, code in zip(units, given, strict=True) if code == each))
            / given.count(each)
            for each in sorted(set(given))
        ]
        mean = sum(means, Fraction(0)) / len(means)
        assert found.count == len(means)
        assert abs(found.mean - mean) <= Fraction(1, UNIT)

    def test_a_cluster_counts_once_however_large(self) -> None:
        """Nine wrong rows of one document are one wrong example of two, not nine of ten."""
        labels = np.zeros(10, np.int64)
        values = np.array([1] * 9 + [0], np.uint8)
        predictions = InMemory(expected(10, "0-1", Classes.of(range(2))), values)
        clusters = Clusters.of([pa.array(["a"] * 9 + ["b"])])
        assert score(predictions, [labels], revealed=True, clusters=clusters).mean == Fraction(1, 2)
        assert score(predictions, [labels], revealed=True).mean == Fraction(9, 10)

    def test_the_same_to_the_bit_in_other_processes(self) -> None:
        predictions, labels = example("brier", 60, 3)
        clusters = Clusters.of([pa.array([at % 7 for at in range(60)])])
        groups = [labels[:13], labels[13:40], labels[40:]]
        here = score(predictions, groups, revealed=True, clusters=clusters)
        with ThreadPoolExecutor(3) as pool:
            there = score(
                predictions, groups, map_function=pool.map, revealed=True, clusters=clusters
            )
        whole = score(predictions, [labels], revealed=True, clusters=clusters)
        assert here == there == whole


def test_more_clusters_than_63_bits_hold_are_summed_exactly() -> None:
    count = 2 * MOST_ROWS + 1
    assert module._exact_sum(np.broadcast_to(np.int64(UNIT), count)) == count * UNIT >= 2**63


def test_the_totals_of_a_row_group_take_room_for_its_own_clusters_only() -> None:
    """Each had one number for every cluster of the whole set: gigabytes, with 10^7 of them."""
    clusters = Clusters(np.arange(1_000) // 2, 500)
    units = np.arange(1_000, dtype=np.int64) * 1_000
    parts = [
        LossTotals.of(clusters.part(start, start + 125), iter([units[start : start + 125]]))
        for start in range(0, 1_000, 125)
    ]
    assert max(len(each.values) for each in parts) <= 64
    whole = LossTotals.of(clusters, iter([units]))
    assert LossTotals.score(parts, clusters) == LossTotals.score([whole], clusters)
    sums = np.add.reduceat(units, np.arange(0, 1_000, 2))
    assert [int(each) for each in whole.values] == sums.tolist()


def test_strata_of_any_size_are_added_up_exactly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 2^23 losses of 1, the sum has no place in 63 bits; plans ask for strata that large."""
    codes = np.zeros((1 << 23) + 2, np.int64)
    codes[:2] = 1
    strata = Strata(codes, 2, (Fraction(3, 4), Fraction(1, 4)))
    # Row groups that add up to a loss of 1 for every row of the first, and half of the second.
    many = LossTotals(np.array([0]), np.array([(1 << 20) * UNIT]))
    last = LossTotals(np.array([0, 1]), np.array([(1 << 20) * UNIT, UNIT]))
    assert LossTotals.score([many] * 7 + [last], strata).mean == Fraction(7, 8)
    # One row group with more rows than fit.
    monkeypatch.setattr(module, "LARGEST", 3)
    few = Strata(np.array([0, 0, 0, 1]), 2, strata.weights)
    units = np.array([1 << 62, 1 << 62, 1 << 62, 0])
    assert LossTotals.of(few, [units]).values.tolist() == [3 << 62, 0]


CLASSES = Classes((0, 1, 2))
codes = st.integers(0, 2)


def predictions(values: list[int]) -> Predictions:
    rows = "".join(f"{value}\n" for value in values)
    held = source.Held("p.csv", f"prediction\n{rows}".encode())
    return Predictions.open(held, expected=Expected(len(values), ZeroOne(), CLASSES, None))


@given(st.lists(st.tuples(codes, codes, codes), min_size=1, max_size=30), st.integers(1, 7))
def test_rows_are_counted_whatever_the_row_groups(
    rows: list[tuple[int, int, int]], size: int
) -> None:
    new, old, labels = map(list, zip(*rows, strict=True))
    groups = [pa.array(labels[at : at + size]) for at in range(0, len(labels), size)]
    assert compare(predictions(new), predictions(old), groups) == Comparison(
        rows=len(rows),
        gained=sum(n == label != o for n, o, label in rows),
        lost=sum(o == label != n for n, o, label in rows),
        differing=sum(n != o for n, o, _ in rows),
    )


def test_ranked_predictions_differ_where_any_rank_does() -> None:
    def ranked(first: list[int], second: list[int]) -> Predictions:
        pairs = zip(first, second, strict=True)
        rows = "".join(f"{a},{b}\n" for a, b in pairs)
        held = source.Held("p.csv", f"prediction_1,prediction_2\n{rows}".encode())
        return Predictions.open(held, expected=Expected(2, TopK(2), CLASSES, None))

    found = compare(ranked([0, 1], [1, 2]), ranked([0, 1], [2, 2]), [pa.array([1, 0])])
    assert found == Comparison(rows=2, gained=1, lost=0, differing=1)


def test_what_goes_wrong_with_labels_is_not_said() -> None:
    with pytest.raises(Unscorable) as caught:
        compare(predictions([0]), predictions([1]), [pa.array([{"a": 1}])])
    assert caught.value.__context__ is None


@given(st.lists(st.tuples(codes, codes), max_size=30), st.integers(1, 7))
def test_every_example_has_its_loss(rows: list[tuple[int, int]], size: int) -> None:
    said, labels = [each for each, _ in rows], [label for _, label in rows]
    groups = [pa.array(labels[at : at + size]) for at in range(0, len(labels), size)]
    if rows:
        assert losses_of(predictions(said), groups).tolist() == [float(a != b) for a, b in rows]


def test_a_label_without_a_loss_is_not_said() -> None:
    with pytest.raises(Unscorable):
        losses_of(predictions([0]), [pa.array([{"a": 1}])])
