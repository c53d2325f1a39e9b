"""The developers' own table: its labels are checked, named and scored in the open."""

from __future__ import annotations

import hashlib
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.scoring.examples import FORMATS, write

from easeml_meter.errors import InvalidInput
from easeml_meter.scoring.classes import Classes
from easeml_meter.scoring.losses import parse_loss
from easeml_meter.scoring.predictions import Predictions
from easeml_meter.scoring.validation import Validation

TABLES = tuple(ending for ending in FORMATS if ending != ".npy")


@pytest.mark.parametrize("ending", TABLES)
def test_classes_come_from_the_table_sorted(tmp_path: Path, ending: str) -> None:
    columns = {"x": [1, 2, 3, 4], "label": ["owl", "cat", "owl", "dog"]}
    path = write(tmp_path / f"v{ending}", columns)
    found = Validation.open(path, label="label", loss=parse_loss("0-1"))
    assert found.classes == Classes(("cat", "dog", "owl"), declared=False)
    assert found.rows == 4
    assert found.digest == hashlib.sha256(path.read_bytes()).hexdigest()
    submitted = write(tmp_path / "p.npy", {"prediction": ["owl", "cat", "cat", "cat"]})
    predictions = Predictions.open(submitted, expected=found.expected)
    assert found.score(predictions).mean == Fraction(1, 2)


@pytest.mark.parametrize("ending", TABLES)
@pytest.mark.parametrize("values", [[10, 9, 9], [10.0, 9.0, 9.0], ["10", "9", "9"]], ids=str)
def test_numbers_are_the_same_classes_in_every_format(
    tmp_path: Path, ending: str, values: list[Any]
) -> None:
    if ending == ".csv" and isinstance(values[0], float):
        values = [int(value) for value in values]
    path = write(tmp_path / f"v{ending}", {"label": values, "x": [1, 2, 3]})
    found = Validation.open(path, label="label", loss=parse_loss("0-1"))
    assert found.classes == Classes((9, 10), declared=False)
    np.save(tmp_path / "p.npy", np.array([10, 9, 10], np.int8))
    predictions = Predictions.open(tmp_path / "p.npy", expected=found.expected)
    assert found.score(predictions).mean == Fraction(1, 3)


@pytest.mark.parametrize("ending", TABLES)
def test_real_labels(tmp_path: Path, ending: str) -> None:
    path = write(tmp_path / f"v{ending}", {"label": [0.0, 50.0, 100.0], "x": [1, 2, 3]})
    found = Validation.open(path, label="label", loss=parse_loss("squared[0,100]"))
    np.save(tmp_path / "p.npy", np.array([0.0, 100.0, 0.0]))
    predictions = Predictions.open(tmp_path / "p.npy", expected=found.expected)
    assert found.score(predictions).mean == Fraction(5, 12)
    assert found.classes is None


@pytest.mark.parametrize(
    ("loss", "labels", "line"),
    [
        ("0-1", ["cat", None], "row 2: no label may be missing"),
        ("0-1", [1.5, 2.5], "classes: "),
        ("0-1", [{"a": 1}, {"a": 2}], "classes as text or numbers needed"),
        ("0-1", [[1], [2]], "classes as text or numbers needed"),
        ("0-1", pa.array([1 << 62, 2], pa.timestamp("us")), "classes as text or numbers needed"),
        ("squared[0,1]", [0.5, 1.5], "row 2: 1.5 given, a number from 0.0 to 1.0 needed"),
        ("squared[0,1]", [0.5, None], "row 2: None given"),
        ("squared[0,1]", ["a", "b"], "row 1: 'a' given, a finite number needed"),
    ],
)
def test_labels_that_do_not_fit(tmp_path: Path, loss: str, labels: list[Any], line: str) -> None:
    path = write(tmp_path / "v.parquet", {"label": labels, "x": [1, 2]})
    with pytest.raises(InvalidInput) as refused:
        Validation.open(path, label="label", loss=parse_loss(loss))
    assert line in str(refused.value)
    assert str(refused.value).startswith(str(path))


@pytest.mark.parametrize("loss", ["0-1", "operator:ne"])
def test_an_empty_field_is_no_label(tmp_path: Path, loss: str) -> None:
    path = tmp_path / "v.csv"
    path.write_text("x,label\n1,cat\n2,\n")
    with pytest.raises(InvalidInput, match="row 2: no label may be missing"):
        Validation.open(path, label="label", loss=parse_loss(loss))


def test_types_of_other_programs_are_refused(tmp_path: Path) -> None:
    column = pa.ExtensionArray.from_storage(pa.bool8(), pa.array([1, 0], pa.int8()))
    path = write(tmp_path / "v.arrow", {"label": column, "x": [1, 2]})
    with pytest.raises(InvalidInput, match="classes as text or numbers needed"):
        Validation.open(path, label="label", loss=parse_loss("0-1"))


def test_a_declared_class_list_holds_for_the_table_too(tmp_path: Path) -> None:
    path = write(tmp_path / "v.csv", {"label": ["cat", "bee"]})
    animals = Classes.of(["cat", "dog"])
    with pytest.raises(InvalidInput, match="row 2: 'bee' given, one of 'cat', 'dog' needed"):
        Validation.open(path, label="label", loss=parse_loss("0-1"), classes=animals)


@pytest.mark.parametrize("other", ["Cat", "cat ", "CAT"])
def test_classes_that_are_alike_are_listed_where_they_are_meant(tmp_path: Path, other: str) -> None:
    path = write(tmp_path / "v.csv", {"label": ["cat", "dog", other]})
    with pytest.raises(InvalidInput, match=r"case or space alone: .*in meter.toml \(classes\)"):
        Validation.open(path, label="label", loss=parse_loss("0-1"))
    both = Classes.of(["cat", "dog", other])
    assert Validation.open(path, label="label", loss=parse_loss("0-1"), classes=both).rows == 3


def test_no_such_column_and_no_rows(tmp_path: Path) -> None:
    path = write(tmp_path / "v.csv", {"label": [1], "x": [1]})
    with pytest.raises(InvalidInput, match="no column 'y'"):
        Validation.open(path, label="y", loss=parse_loss("0-1"))
    path.write_text("label\n")
    for loss in ("0-1", "squared[0,1]"):
        with pytest.raises(InvalidInput, match="no rows given"):
            Validation.open(path, label="label", loss=parse_loss(loss))


def test_a_table_that_changes_is_noticed(tmp_path: Path) -> None:
    path = write(tmp_path / "v.csv", {"label": [1, 0]})
    found = Validation.open(path, label="label", loss=parse_loss("0-1"))
    np.save(tmp_path / "p.npy", np.array([1, 0]))
    predictions = Predictions.open(tmp_path / "p.npy", expected=found.expected)
    path.write_text("label\n1\n1\n\n")
    with pytest.raises(InvalidInput, match="changed"):
        found.score(predictions)
