"""Rows without a prediction are refused, or count as wrong if that is asked for."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.scoring.examples import ANIMALS, DIGITS, expected, write

from easeml_meter.errors import InvalidInput
from easeml_meter.scoring import predictions
from easeml_meter.scoring.classes import Classes
from easeml_meter.scoring.ids import CommittedIds, Joined, RowMatching
from easeml_meter.scoring.outputs import Expected, wrong_prediction
from easeml_meter.scoring.predictions import Predictions
from easeml_meter.scoring.score import score

WRONG = RowMatching(missing_wrong=True)


def loss_of(path: Path, needed: Expected, labels: list[Any], **options: Any) -> Fraction:
    found = Predictions.open(path, expected=needed, matching=WRONG, **options)
    return score(found, [pa.array(labels)]).mean


@pytest.fixture(params=[True, False], ids=["kept", "read again"])
def _kept(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if not request.param:
        monkeypatch.setattr(predictions, "KEEP_BYTES", 0)


@pytest.mark.usefixtures("_kept")
@pytest.mark.parametrize("ending", [".parquet", ".arrow", ".csv", ".jsonl"])
def test_rows_that_are_absent_or_null_count_as_errors(tmp_path: Path, ending: str) -> None:
    ids = CommittedIds.of("the test set", "id", lambda: [pa.array([1, 2, 3, 4, 5])])
    columns = {"id": [5, 1, 3], "prediction": ["cat", "owl", None]}
    path, needed = write(tmp_path / f"p{ending}", columns), expected(5, "0-1", ANIMALS)
    labels = ["owl", "cat", "dog", "dog", "cat"]
    assert loss_of(path, needed, labels, ids=ids) == Fraction(3, 5)
    found = Predictions.open(path, expected=needed, ids=ids, matching=WRONG)
    assert found.joined == Joined(rows=3, matched=3, missing=2)
    with pytest.raises(InvalidInput, match=r"no value may be missing|'' given"):
        Predictions.open(path, expected=needed, ids=ids)


def test_nobody_has_the_label_of_an_absent_row(tmp_path: Path) -> None:
    """A hidden label outside the class list has a code of its own, which must not match."""
    path = write(tmp_path / "p.parquet", {"prediction": ["cat", None, None]})
    needed = expected(3, "0-1", ANIMALS)
    assert loss_of(path, needed, ["cat", "unicorn", "cat"]) == Fraction(2, 3)
    many = expected(2, "0-1", Classes.of(range(255)))  # the codes of labels fill a byte
    path = write(tmp_path / "q.parquet", {"prediction": pa.array([0, None], pa.int64())})
    assert loss_of(path, many, [0, 0]) == Fraction(1, 2)


def test_other_losses_that_know_wrong_answers(tmp_path: Path) -> None:
    ranked = {"prediction_1": ["cat", None], "prediction_2": ["dog", None]}
    path = write(tmp_path / "r.parquet", ranked)
    assert loss_of(path, expected(2, "top-2", ANIMALS), ["dog", "dog"]) == Fraction(1, 2)
    sure = {"prediction": [[1.0, 0.0, 0.0], None, None]}
    path = write(tmp_path / "s.parquet", sure)
    assert loss_of(path, expected(3, "brier", ANIMALS), ["cat", "dog", "bear"]) == Fraction(2, 3)
    path = write(tmp_path / "t.parquet", {"score": [5.0, 4.0, None]})  # the lowest score
    assert loss_of(path, expected(3, "score[1,5]"), [0, 0, 0]) == Fraction(5, 12)


@pytest.mark.parametrize(
    "loss", ["absolute[0,1]", "squared[0,1]", "tests.scoring.examples:half[class]"]
)
def test_losses_without_a_wrong_answer_refuse(tmp_path: Path, loss: str) -> None:
    needed = expected(2, loss, DIGITS)
    with pytest.raises(InvalidInput, match="has no wrong answer to count"):
        wrong_prediction(needed)
    path = write(tmp_path / "p.parquet", {"prediction": [1, None]})
    with pytest.raises(InvalidInput, match="missing"):
        Predictions.open(path, expected=needed, matching=WRONG)


def test_a_bad_value_is_named_with_its_own_row(tmp_path: Path) -> None:
    needed = expected(4, "0-1", ANIMALS)
    for column in ([None, "bear", None, "cat"], [None, None, "cat", "bear"]):
        path = write(tmp_path / "p.parquet", {"prediction": column})
        with pytest.raises(InvalidInput, match=f"row {column.index('bear') + 1}: 'bear' given"):
            Predictions.open(path, expected=needed, matching=WRONG)


def test_a_row_too_few_without_ids_is_still_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "p.parquet", {"prediction": ["cat", "cat"]})
    with pytest.raises(InvalidInput, match="2 rows given, 3 needed"):
        Predictions.open(path, expected=expected(3, "0-1", ANIMALS), matching=WRONG)
