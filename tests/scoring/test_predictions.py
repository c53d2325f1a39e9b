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
from easeml_meter.scoring.predictions import Predictions

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


@pytest.mark.usefixtures("_kept")
@pytest.mark.parametrize("ending", FORMATS)
class TestFormats:
    def test_classes_that_are_texts(self, tmp_path: Path, ending: str) -> None:
        column = ["owl", "cat", "cat", "dog", "owl", "owl", "dog"]
        path = write(tmp_path / f"p{ending}", {"any name": column})
        assert read(path, expected(7, "0-1", ANIMALS)) == [2, 0, 0, 1, 2, 2, 1]

    def test_classes_that_are_numbers(self, tmp_path: Path, ending: str) -> None:
        column = [3, 1, 4, 1, 5, 9, 2, 6]
        path = write(tmp_path / f"p{ending}", {"prediction": column})
        assert read(path, expected(8, "0-1", DIGITS)) == column

    def test_real_numbers(self, tmp_path: Path, ending: str) -> None:
        column = [1.0, 0.5, 0.25, 0.125, 0.0]
        path = write(tmp_path / f"p{ending}", {"prediction": column})
        assert read(path, expected(5, "absolute[0,1]")) == column

    def test_whole_numbers_are_real_numbers(self, tmp_path: Path, ending: str) -> None:
        path = write(tmp_path / f"p{ending}", {"prediction": [1, 0]})
        assert read(path, expected(2, "absolute[0,1]")) == [1.0, 0.0]


@pytest.mark.usefixtures("_kept")
@pytest.mark.parametrize("ending", [ending for ending in FORMATS if ending != ".csv"])
class TestLists:
    SCORES = ((0.25, 0.5, 0.25), (0.5, 0.0, 0.5), (0.0, 0.0, 1.0), (1.0, 0.0, 0.0))

    def path(self, tmp_path: Path, ending: str) -> Path:
        lists = [list(row) for row in self.SCORES]
        return write(tmp_path / f"p{ending}", {"prediction": lists})

    def test_probabilities(self, tmp_path: Path, ending: str) -> None:
        found = read(self.path(tmp_path, ending), expected(4, "brier", ANIMALS))
        assert found == [list(row) for row in self.SCORES]

    def test_the_best_of_the_scores_is_the_class(self, tmp_path: Path, ending: str) -> None:
        found = read(self.path(tmp_path, ending), expected(4, "0-1", ANIMALS))
        assert found == [1, 0, 2, 0]

    def test_equal_scores_rank_by_the_class_list(self, tmp_path: Path, ending: str) -> None:
        found = read(self.path(tmp_path, ending), expected(4, "top-2", ANIMALS))
        assert found == [[1, 0], [0, 2], [2, 0], [0, 1]]

    def test_ranked_classes(self, tmp_path: Path, ending: str) -> None:
        ranked = [["owl", "cat"], ["cat", "dog"], ["dog", "owl"]]
        path = write(tmp_path / f"r{ending}", {"prediction": ranked})
        assert read(path, expected(3, "top-2", ANIMALS)) == [[2, 0], [0, 1], [1, 2]]


@pytest.mark.parametrize("ending", TABLES)
def test_one_column_for_each_rank_or_class(tmp_path: Path, ending: str) -> None:
    ranks = {"prediction_2": ["cat", "dog"], "id": [1, 2], "prediction_1": ["owl", "cat"]}
    path = write(tmp_path / f"r{ending}", ranks)
    assert read(path, expected(2, "top-2", ANIMALS)) == [[2, 0], [0, 1]]
    scores = {"probability_owl": [0.0, 0.25], "probability_cat": [0.5, 0.75]}
    path = write(tmp_path / f"s{ending}", {**scores, "probability_dog": [0.5, 0.0]})
    assert read(path, expected(2, "brier", ANIMALS)) == [[0.5, 0.5, 0.0], [0.75, 0.0, 0.25]]
    assert read(path, expected(2, "0-1", ANIMALS)) == [0, 0]


@pytest.mark.parametrize("ending", TABLES)
def test_one_column_named_like_each_class(tmp_path: Path, ending: str) -> None:
    """As in submissions to Kaggle; the order of the columns does not matter."""
    columns = {"owl": [0.0, 0.25], "id": [7, 8], "cat": [0.5, 0.75], "dog": [0.5, 0.0]}
    path = write(tmp_path / f"s{ending}", columns)
    for classes in (ANIMALS, FOUND):
        found = read(path, expected(2, "brier", classes))
        assert found == [[0.5, 0.5, 0.0], [0.75, 0.0, 0.25]]
    path = write(tmp_path / f"t{ending}", {"0": [0.1, 0.9], "1": [0.9, 0.1]})
    assert read(path, expected(2, "0-1", Classes.of([0, 1]))) == [1, 0]
    path = write(tmp_path / f"u{ending}", {"owl": [0.5, 0.5], "cat": [0.5, 0.5]})
    line = refusal(path, expected(2, "brier", ANIMALS))
    assert "or one named probability_CLASS, or CLASS, for each class needed" in line


@pytest.mark.parametrize("ending", TABLES)
def test_among_several_columns_the_name_decides(tmp_path: Path, ending: str) -> None:
    columns = {"x": [1.5, 2.5], "prediction": ["cat", "owl"], "id": [7, 8], "y": ["a", "b"]}
    path = write(tmp_path / f"p{ending}", columns)
    assert read(path, expected(2, "0-1", ANIMALS)) == [0, 2]


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


def test_csv_as_people_write_it(tmp_path: Path) -> None:
    path = tmp_path / "p.csv"
    path.write_bytes('\ufeffid,prediction\r\n1,"cat"\r\n2,owl\r\n\r\n'.encode())
    assert read(path, expected(2, "0-1", ANIMALS)) == [0, 2]
    path.write_text("id,prediction\n1, 0.5 \n2,1e-1\n")
    assert read(path, expected(2, "squared[0,1]")) == [0.5, 0.1]


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


def test_the_number_of_rows(tmp_path: Path) -> None:
    for ending in FORMATS:
        path = write(tmp_path / f"p{ending}", {"prediction": [1, 2, 3]})
        for rows in (2, 4, 10**12):
            assert f"3 rows given, {rows:,} needed" in refusal(path, expected(rows, "0-1", DIGITS))
    without_header = tmp_path / "p.csv"
    without_header.write_text("1\n2\n3\n")
    assert "header" in refusal(without_header, expected(3, "0-1", DIGITS))


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


@pytest.mark.parametrize("ending", FORMATS)
def test_numbers_out_of_range(tmp_path: Path, ending: str) -> None:
    path = write(tmp_path / f"p{ending}", {"prediction": [0.5, 1.0, 1.5]})
    line = refusal(path, expected(3, "absolute[0,1]"))
    assert line.endswith(
        "row 3: 1.5 given, a number from 0.0 to 1.0 needed, the range of absolute[0,1]"
    )


@pytest.mark.parametrize("ending", TABLES)
def test_missing_values(tmp_path: Path, ending: str) -> None:
    values: dict[str, list[Any]] = {"0-1": ["cat", None], "squared[0,1]": [1.0, None]}
    if ending != ".csv":
        values["top-2"] = [["cat", "dog"], None]
        values["brier"] = [[1.0, 0.0, 0.0], [0.5, 0.5, None]]
    for loss, column in values.items():
        path = write(tmp_path / f"p{ending}", {"id": [1, 2], "prediction": column})
        assert "row 2: " in refusal(path, expected(2, loss, ANIMALS))


def test_a_missing_value_inside_a_dictionary(tmp_path: Path) -> None:
    column = pa.DictionaryArray.from_arrays(pa.array([0, 1]), pa.array(["cat", None]))
    path = tmp_path / "p.arrow"
    with pa.OSFile(str(path), "wb") as sink:
        table = pa.table({"prediction": column})
        with pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
    assert "row 2: None given, no value may be missing" in refusal(
        path, expected(2, "0-1", ANIMALS)
    )


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


def test_lists_of_other_lengths(tmp_path: Path) -> None:
    path = write(tmp_path / "p.parquet", {"prediction": [["cat", "dog"], ["cat"]]})
    assert "row 2: a list of 1" in refusal(path, expected(2, "top-2", ANIMALS))
    path = write(tmp_path / "p.parquet", {"prediction": [["cat"], ["cat"]]})
    assert "row 1: a list of 1" in refusal(path, expected(2, "top-2", ANIMALS))
    path = write(tmp_path / "p.parquet", {"prediction": [[], []]})
    assert "row 1: a list of 0" in refusal(path, expected(2, "top-2", DIGITS))


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
    path = write(tmp_path / "p.csv", {"prediction": ["0.5", "0.5", "half", "x"]})
    assert "row 3: 'half' given, a finite number" in refusal(path, expected(4, "squared[0,1]"))
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


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("p.csv", b"a,b\n1,2\n3\n"),
        ("p.csv", b"prediction\n\xff\xfe\n"),
        ("p.csv", b"prediction"),
        ("p.csv", b"prediction\n" + b"x" * (5 << 20)),
        ("p.jsonl", b'{"prediction": 1}\n{"prediction":\n'),
        ("p.jsonl", b'{"prediction": 1}\n{"prediction": "a"}\n'),
        ("p.jsonl", b'{"prediction": 1}\n{"other": 1}\n'),
        ("p.jsonl", b"[1, 2]\n"),
        ("p.jsonl", b"1\n"),
        ("p.jsonl", b"{}\n"),
        ("p.jsonl", b"[" * 1_000_000),
        ("p.jsonl", b"\xff\xff\xff\n"),
        ("p.jsonl", b'{"prediction": "' + b"x" * (9 << 20) + b'"}\n'),
        ("p.parquet", b"PAR1" + b"\0" * 100 + b"PAR1"),
        ("p.parquet", b"no Parquet at all"),
        ("p.arrow", b"ARROW1\0\0" + b"\xff" * 100),
        ("p.arrow", b"no Arrow at all"),
        ("p.npy", b"\x93NUMPY\x01\x00\x02\x00{}"),
        ("p.npy", b"no numpy at all"),
        ("p.npy", b"\x93NUMPY\x07\x00"),
        ("p.txt", b"1\n"),
        ("p", b"1\n"),
        ("p." + "x" * 200, b"1\n"),
    ],
    ids=lambda value: value[:25] if isinstance(value, bytes) else value[:10],
)
def test_files_that_are_not_what_they_say(tmp_path: Path, name: str, content: bytes) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    refusal(path, expected(2, "0-1", DIGITS))
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
