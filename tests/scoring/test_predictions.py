"""Good files are read alike in every format; bad ones are refused before any label is touched."""

from __future__ import annotations

import hashlib
import os
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.scoring.examples import ANIMALS, DIGITS, FORMATS, expected, refusal, write

from easeml_meter.errors import InvalidInput
from easeml_meter.scoring import predictions as module
from easeml_meter.scoring.classes import Classes
from easeml_meter.scoring.outputs import Expected
from easeml_meter.scoring.predictions import Accepted, Predictions

TABLES = tuple(ending for ending in FORMATS if ending != ".npy")


def read(path: Path, needed: Expected) -> Any:
    """Read all predictions, in two row groups."""
    half = needed.rows // 2
    found = Predictions.open(path, expected=needed)
    assert found.digest == hashlib.sha256(path.read_bytes()).hexdigest()
    return np.concatenate(list(found.batches([half, needed.rows - half]))).tolist()


@pytest.fixture(params=[True, False], ids=["kept", "read again"])
def _kept(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if not request.param:
        monkeypatch.setattr(module, "KEEP_BYTES", 0)


# --- Good files ---


@pytest.mark.parametrize("ending", TABLES)
def test_one_column_named_like_each_class(tmp_path: Path, ending: str) -> None:
    """As in submissions to Kaggle; the order of the columns does not matter."""
    columns = {"owl": [0.0, 0.25], "id": [7, 8], "cat": [0.5, 0.75], "dog": [0.5, 0.0]}
    path = write(tmp_path / f"s{ending}", columns)
    found = read(path, expected(2, "brier", FOUND))
    assert found == [[0.5, 0.5, 0.0], [0.75, 0.0, 0.25]]
    path = write(tmp_path / f"t{ending}", {"0": [0.1, 0.9], "1": [0.9, 0.1]})
    assert read(path, expected(2, "0-1", Classes.of([0, 1]))) == [1, 0]
    path = write(tmp_path / f"u{ending}", {"owl": [0.5, 0.5], "cat": [0.5, 0.5]})
    line = refusal(path, expected(2, "brier", ANIMALS))
    assert "or one named probability_CLASS, or CLASS, for each class needed" in line


def test_equal_scores_rank_by_the_class_list(tmp_path: Path) -> None:
    scores = [[0.25, 0.5, 0.25], [0.5, 0.0, 0.5], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]
    path = write(tmp_path / "p.npy", {"prediction": scores})
    assert read(path, expected(4, "top-2", ANIMALS)) == [[1, 0], [0, 2], [2, 0], [0, 1]]
    assert read(path, expected(4, "0-1", ANIMALS)) == [1, 0, 2, 0]


def test_places_in_the_class_list(tmp_path: Path) -> None:
    path = write(tmp_path / "p.parquet", {"prediction": [2, 0, 1]})
    assert read(path, expected(3, "0-1", ANIMALS)) == [2, 0, 1]


def test_numbers_of_any_type(tmp_path: Path) -> None:
    for kind in (np.float16, np.float32, ">f8", ">i4", np.uint8, bool):
        np.save(tmp_path / "p.npy", np.array([1, 0, 1]).astype(kind))
        assert read(tmp_path / "p.npy", expected(3, "squared[0,1]")) == [1.0, 0.0, 1.0]
        assert read(tmp_path / "p.npy", expected(3, "0-1", DIGITS)) == [1, 0, 1]


def test_a_matrix_of_one_column_is_a_column(tmp_path: Path) -> None:
    np.save(tmp_path / "p.npy", np.array([[0.5], [0.25]]))
    assert read(tmp_path / "p.npy", expected(2, "squared[0,1]")) == [0.5, 0.25]


def test_probabilities_in_few_bits_are_rescaled(tmp_path: Path) -> None:
    np.save(tmp_path / "p.npy", np.array([[1, 1, 1], [2, 1, 0]], np.float16) / np.float16(3))
    found = np.array(read(tmp_path / "p.npy", expected(2, "brier", ANIMALS)))
    np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-15)


def test_json_numbers_may_be_whole_at_first(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    path.write_text('\n{"prediction": 1}\n\n{"prediction": 0.5}')
    assert read(path, expected(2, "squared[0,1]")) == [1.0, 0.5]


def test_anything_for_a_loss_of_ones_own(tmp_path: Path) -> None:
    loss = "tests.scoring.examples:lengths"
    for ending in FORMATS:
        path = write(tmp_path / f"t{ending}", {"prediction": ["free text", "", "more"]})
        assert read(path, expected(3, loss)) == ["free text", "", "more"]
    path = write(tmp_path / "l.parquet", {"prediction": [[1, 2], [3, 4]]})
    assert read(path, expected(2, loss)) == [[1, 2], [3, 4]]


def test_a_file_of_many_row_groups_is_checked_by_several_readers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "WORKER_ROWS", 100)
    monkeypatch.setattr(module, "WORKERS", 4)
    column = np.random.default_rng(1).integers(0, 10, 1000)
    path = tmp_path / "p.parquet"
    pq.write_table(pa.table({"prediction": column}), path, row_group_size=7)
    assert read(path, expected(1000, "0-1", DIGITS)) == column.tolist()
    column[[300, 900]] = 77
    pq.write_table(pa.table({"prediction": column}), path, row_group_size=7)
    assert "row 301: 77 given" in refusal(path, expected(1000, "0-1", DIGITS))


@pytest.mark.usefixtures("_kept")
@pytest.mark.parametrize("rows", [1, 100])
def test_row_groups_of_any_size(tmp_path: Path, rows: int) -> None:
    @given(st.lists(st.integers(0, rows), max_size=10))
    def check(cuts: list[int]) -> None:
        bounds = [0, *sorted(cuts), rows]
        sizes = [b - a for a, b in pairwise(bounds)]
        batches = list(found.batches(sizes))
        assert [len(batch) for batch in batches] == sizes
        assert np.concatenate(batches).tolist() == column

    column = [row % 10 for row in range(rows)]
    path = write(tmp_path / "p.parquet", {"prediction": column})
    found = Predictions.open(path, expected=expected(rows, "0-1", DIGITS))
    check()


# --- Bad files ---


@pytest.mark.parametrize("ending", FORMATS)
def test_an_unknown_class(tmp_path: Path, ending: str) -> None:
    long = 100 if ending == ".npy" else 100_000
    column = ["cat", "dog", "cat", "c\n\x1b[31mat" * long, "bee"]
    path = write(tmp_path / f"p{ending}", {"prediction": column})
    line = refusal(path, expected(5, "0-1", ANIMALS))
    assert line.startswith(f"{path}: row 4: 'c\\n\\x1b[31mat")
    assert line.endswith("one of 'cat', 'dog', 'owl' needed")
    path = write(tmp_path / f"n{ending}", {"prediction": [1, 2, -3]})
    assert "row 3: -3 given" in refusal(path, expected(3, "0-1", DIGITS)).replace("'", "")


@pytest.mark.parametrize("ending", FORMATS)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf], ids=str)
def test_numbers_that_are_none(tmp_path: Path, ending: str, value: float) -> None:
    path = tmp_path / f"p{ending}"
    if ending == ".jsonl":
        number = str(value).replace("inf", "Infinity").replace("nan", "NaN")
        path.write_text('{"prediction": 0.5}\n{"prediction": ' + number + "}\n")
    else:
        write(path, {"prediction": [0.5, value]})
    line = refusal(path, expected(2, "squared[0,1]"))
    if ending != ".jsonl":
        assert "row 2: " in line
        assert "a finite number needed" in line


@pytest.mark.parametrize("ending", TABLES)
def test_missing_values(tmp_path: Path, ending: str) -> None:
    values: dict[str, list[Any]] = {"0-1": ["cat", None], "squared[0,1]": [1.0, None]}
    if ending != ".csv":
        values["top-2"] = [["cat", "dog"], None]
        values["brier"] = [[1.0, 0.0, 0.0], [0.5, 0.5, None]]
    for loss, column in values.items():
        path = write(tmp_path / f"p{ending}", {"id": [1, 2], "prediction": column})
        assert "row 2: " in refusal(path, expected(2, loss, ANIMALS))


@pytest.mark.parametrize(
    ("matrix", "line"),
    [
        ([[0.5, 0.5, 0.0], [0.5, 0.25, 0.0]], "row 2: a sum of 0.75 given"),
        ([[0.5, 0.5, 0.0], [0.5, 1.5, -1.0]], "row 2: 1.5 given, probabilities in [0, 1]"),
        ([[0.5, 0.5], [0.5, 0.5]], "row 1: a list of 2 given, a list of 3 in every row"),
        ([[0.5, 0.5, 0.0], [0.5, np.nan, 0.5]], "row 2: nan given"),
    ],
)
def test_bad_probabilities(tmp_path: Path, matrix: list[list[float]], line: str) -> None:
    np.save(tmp_path / "p.npy", np.array(matrix))
    assert line in refusal(tmp_path / "p.npy", expected(2, "brier", ANIMALS))


def test_a_one_among_zeros_is_not_taken_for_ranked_classes(tmp_path: Path) -> None:
    np.save(tmp_path / "p.npy", np.eye(10, dtype=int))
    for loss in ("0-1", "top-3"):
        line = refusal(tmp_path / "p.npy", expected(10, loss, DIGITS))
        assert "scores that are not whole numbers" in line


@pytest.mark.parametrize(
    "loss", ["0-1", "top-2", "brier", "squared[0,1]", "tests.scoring.examples:half"]
)
@pytest.mark.parametrize(
    "column",
    [
        pa.array([b"a", b"b"]),
        pa.array([{"a": 1}, {"a": 2}]),
        pa.array([[[1, 2]], [[2, 3]]]),
        pa.array([1, 2], pa.timestamp("s")),
        pa.array([1, 2], pa.duration("s")),
        pa.nulls(2),
    ],
    ids=lambda column: str(column.type),
)
def test_types_that_are_no_predictions(tmp_path: Path, column: Any, loss: str) -> None:
    for ending in (".parquet", ".arrow"):
        path = tmp_path / f"p{ending}"
        if ending == ".parquet" and pa.types.is_struct(column.type):
            continue  # a single column in Arrow, leaves of other names in Parquet: tried below
        write(path, {"prediction": column})
        refusal(path, expected(2, loss, ANIMALS))
    write(tmp_path / "p.parquet", {"prediction": column, "other": [1, 2]})
    refusal(tmp_path / "p.parquet", expected(2, loss, ANIMALS))


def test_text_where_numbers_are_needed(tmp_path: Path) -> None:
    path = write(tmp_path / "p.csv", {"prediction": ["0.5", ""]})
    assert "row 2: '' given" in refusal(path, expected(2, "squared[0,1]"))
    path = write(tmp_path / "p.parquet", {"prediction": [0.5, 1.0]})
    assert "classes as text needed" in refusal(path, expected(2, "0-1", ANIMALS))


def test_columns_that_do_not_say_what_they_are(tmp_path: Path) -> None:
    path = write(tmp_path / "p.csv", {"x": [1], "y": [2]})
    for loss in ("0-1", "top-2", "brier", "squared[0,1]"):
        line = refusal(path, expected(1, loss, ANIMALS))
        assert "columns 'x', 'y' given, a column named prediction" in line
    path.write_text("prediction,prediction\n1,2\n")
    assert "two columns named 'prediction'" in refusal(path, expected(1, "0-1", DIGITS))


@pytest.mark.parametrize("ending", FORMATS)
def test_no_rows(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"p{ending}"
    if ending == ".jsonl":
        path.write_text("\n \n")
    else:
        write(path, {"prediction": pa.array([], pa.int64())})
    refusal(path, expected(1, "0-1", DIGITS))


@pytest.mark.parametrize("row", ['{"other": 1}', '{"prediction": "a"}', "{}"])
def test_a_row_of_another_kind_is_refused(tmp_path: Path, row: str) -> None:
    path = tmp_path / "p.jsonl"
    path.write_text(f'{{"prediction": 1}}\n{row}\n')
    refusal(path, expected(2, "squared[0,1]"))


def test_json_lines_are_numbered_across_blocks(tmp_path: Path) -> None:
    rows = ['{"prediction": 1, "note": "%s"}\n' % ("x" * 1000)] * 10_000
    rows[8_765] = '{"prediction": "one"}\n'
    path = tmp_path / "p.jsonl"
    path.write_text("".join(rows))
    assert "row 8766: " in refusal(path, expected(10_000, "0-1", DIGITS))


@pytest.mark.parametrize("ending", [".parquet", ".arrow", ".arrows", ".npy"])
@pytest.mark.parametrize(
    ("loss", "column"),
    [
        ("0-1", [1, 2, 3, 4, 5]),
        ("0-1", ["1", "2", "3", "4", "5"]),
        ("top-2", [[1, 2], [3, 4], [5, 6], [7, 8], [9, 0]]),
    ],
    ids=["numbers", "texts", "lists"],
)
def test_every_cut_and_every_flipped_byte_is_refused_or_read(
    tmp_path: Path, ending: str, loss: str, column: list[Any]
) -> None:
    """Never anything but InvalidInput, never a class that is not in the list, never a crash.

    A flipped byte in the footer of a Parquet file once ended the process, in pyarrow.
    """
    path = write(tmp_path / f"p{ending}", {"prediction": column})
    whole = path.read_bytes()
    needed = expected(5, loss, DIGITS)
    for cut in range(1, len(whole), 29):
        path.write_bytes(whole[:cut])
        _refused_or_read(path, needed)
    for place in range(0, len(whole), 5):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x55]) + whole[place + 1 :])
        _refused_or_read(path, needed)


def _refused_or_read(path: Path, needed: Expected) -> None:
    try:
        found = Predictions.open(path, expected=needed)
    except InvalidInput:
        return
    (batch,) = found.batches([needed.rows])
    assert batch.max() < 10


def test_a_file_that_changes_before_it_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "KEEP_BYTES", 0)
    needed = expected(4, "0-1", DIGITS)
    path = write(tmp_path / "p.csv", {"prediction": [1, 2, 3, 4]})
    for later in ([1, 2, 3, 5], [1, 2, 3], [1, 2, 3, 4, 5], [1, 2, 3, 77]):
        write(path, {"prediction": [1, 2, 3, 4]})
        found = Predictions.open(path, expected=needed)
        write(path, {"prediction": later})
        os.utime(path, ns=(1, 1))
        with pytest.raises(InvalidInput):
            list(found.batches([2, 2]))


def test_more_predictions_than_there_are(tmp_path: Path) -> None:
    path = write(tmp_path / "p.csv", {"prediction": [1, 2]})
    found = Predictions.open(path, expected=expected(2, "0-1", DIGITS))
    with pytest.raises(ValueError, match="3 predictions asked for, 2 there"):
        list(found.batches([1, 2]))


# --- What may be expected ---


@pytest.mark.parametrize(
    ("rows", "loss", "classes"),
    [
        (0, "squared[0,1]", None),
        (1, "0-1", None),
        (1, "brier", None),
        (1, "top-3", ANIMALS),
        (1, "top-4", ANIMALS),
    ],
)
def test_expectations_that_make_no_sense(rows: int, loss: str, classes: Classes | None) -> None:
    with pytest.raises(InvalidInput):
        expected(rows, loss, classes)


# --- The order of the classes ---

FOUND = Classes.of(ANIMALS.values, declared=False)
"""The classes of a validation set, alphabetically: no developer knows that order for certain."""


@pytest.mark.parametrize("ending", FORMATS)
@pytest.mark.parametrize(
    ("loss", "rows"),
    [
        ("0-1", [2, 0, 1]),
        ("0-1", [[0.1, 0.2, 0.7], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]),
        ("top-2", [[2, 0], [0, 1], [1, 2]]),
        ("top-2", [[0.1, 0.2, 0.7], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]),
        ("brier", [[0.1, 0.2, 0.7], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]),
    ],
    ids=["whole numbers", "scores", "ranked places", "ranked scores", "probabilities"],
)
def test_places_in_a_class_list_that_was_not_declared_are_refused(
    tmp_path: Path, ending: str, loss: str, rows: list[Any]
) -> None:
    """A perfect model that knew another order had the losses 1 and 1, so the gap 0 and band 1."""
    if ending == ".csv" and isinstance(rows[0], list):
        pytest.skip("a CSV file has no lists")
    path = write(tmp_path / f"p{ending}", {"prediction": rows})
    line = refusal(path, expected(3, loss, FOUND))
    assert "given for classes of unknown order ('cat', 'dog', 'owl')" in line
    assert "give class names, or one column probability_CLASS for each class" in line
    assert len(read(path, expected(3, loss, ANIMALS))) == 3


@pytest.mark.parametrize("ending", [".parquet", ".arrow", ".csv", ".jsonl"])
def test_named_scores_and_named_classes_need_no_order(tmp_path: Path, ending: str) -> None:
    named = {
        "probability_owl": [0.7, 0.0],
        "probability_cat": [0.1, 1.0],
        "probability_dog": [0.2, 0.0],
    }
    path = write(tmp_path / f"p{ending}", named)
    for loss, found in (("0-1", [2, 0]), ("top-2", [[2, 1], [0, 1]])):
        assert read(path, expected(2, loss, FOUND)) == found
    ranked = {"prediction_1": ["owl", "cat"], "prediction_2": ["dog", "owl"]}
    path = write(tmp_path / f"r{ending}", ranked)
    assert read(path, expected(2, "top-2", FOUND)) == [[2, 1], [0, 2]]
    path = write(tmp_path / f"n{ending}", {"prediction": ["owl", "cat"]})
    assert read(path, expected(2, "0-1", FOUND)) == [2, 0]


def test_scores_of_whole_numbers_line_up_by_themselves(tmp_path: Path) -> None:
    path = write(tmp_path / "p.npy", {"prediction": [[0.1, 0.9], [1.0, 0.0]]})
    assert read(path, expected(2, "0-1", Classes.of([3, 7], declared=False))) == [1, 0]


# --- Known by what it predicts ---

GOLDEN = {
    "0-1": (["owl", "cat", "dog"], "ff7cfd40abc3ae88"),
    "brier": ([[0.5, 0.25, 0.25], [1.0, 0.0, 0.0], [0.0, 0.5, 0.5]], "69fe1367070c71b1"),
    "absolute[0,1]": ([0.1, 1.0, 0.0], "7e4dfb1990b19060"),
    "tests.scoring.examples:half": (["a b", "ä", ""], "c5a8d75944890811"),
}


@pytest.mark.usefixtures("_kept")
@pytest.mark.parametrize("loss", GOLDEN)
@pytest.mark.parametrize("ending", [".parquet", ".arrow", ".jsonl"])
def test_what_is_predicted_has_the_same_digest_for_ever(
    tmp_path: Path, loss: str, ending: str
) -> None:
    """No writer of a file and no version of a library has a part in it."""
    column, golden = GOLDEN[loss]
    path = write(tmp_path / f"p{ending}", {"prediction": column})
    classes = ANIMALS if loss in ("0-1", "brier") else None
    needed = expected(3, loss, classes)
    found = Predictions.open(path, expected=needed)
    assert found.content_digest.startswith(golden)
    kept = Accepted.of_bytes(found.to_bytes(), needed)
    assert kept.content_digest == found.content_digest
    (before,), (after,) = found.batches([3]), kept.batches([3])
    assert (before.tolist(), before.dtype) == (after.tolist(), after.dtype)
