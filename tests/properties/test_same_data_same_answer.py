"""The same data, in whatever files, has the same losses or is refused; it never has others.

Labels and predictions of both sets are written in formats and types that are drawn at random, in
another order of the rows, and under other names of the columns. What the meter then measures is
compared with what the values themselves say.
"""

from __future__ import annotations

import atexit
import codecs
import csv
import io
import json
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from tests.service.helpers import Clock, small_spec

from easeml_meter.errors import InvalidInput
from easeml_meter.meter import Meter
from easeml_meter.scoring.ids import RowMatching
from easeml_meter.service.submissions import kinds

ROWS = 24
"""More than a meter of one step needs."""
TEXTS = [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())]
WHOLE = [pa.int8(), pa.int32(), pa.int64(), pa.uint16(), pa.float32(), pa.float64()]
TABLES = ["csv", "csv CRLF", "csv BOM", "tsv", "jsonl", "json", "parquet", "arrow"]
"""What a labelled set may be; an array has no names of columns."""


@dataclass(frozen=True)
class Kind:
    """Values that labels and predictions are drawn from, as CSV has them, and their other types."""

    loss: str
    values: Sequence[str]
    types: Sequence[pa.DataType]
    spellings: Sequence[str] = ("",)
    """Ways to write the same value in CSV, by the method of `str`."""
    classes: Sequence[str] = ()

    def column(self, texts: Sequence[str], kind: pa.DataType) -> pa.Array:
        """Return values in another type."""
        if kind in TEXTS:
            return pa.array(texts).cast(kind)
        if pa.types.is_boolean(kind):
            return pa.array([text == "true" for text in texts])
        if pa.types.is_floating(kind):
            return pa.array([float(text) for text in texts], pa.float64()).cast(kind)
        numbers = [int(_TRUTHS.get(text, text)) for text in texts]
        return pa.array(numbers, pa.int64()).cast(kind)

    def loss_of(self, predictions: Sequence[str], labels: Sequence[str]) -> Fraction:
        """Return the mean loss by the values themselves."""
        pairs = list(zip(predictions, labels, strict=True))
        if self.loss.startswith("absolute"):
            off = [abs(Fraction(a) - Fraction(b)) for a, b in pairs]
            return sum(off, Fraction(0)) / 16 / len(pairs)
        wrong = Fraction(sum(a != b for a, b in pairs), len(pairs))
        return wrong if self.loss == "0-1" else wrong / 2


_TRUTHS = {"false": "0", "true": "1"}
EXACT = "tests.scoring.examples:half"
"""A loss of one's own that only compares: 0.5 for values that are not equal."""
KINDS = {
    "text classes": Kind("0-1", ["cat", "dog", "owl"], TEXTS),
    "declared classes": Kind("0-1", ["owl", "cat", "2nd"], TEXTS, classes=("owl", "cat", "2nd")),
    "whole-number classes": Kind("0-1", ["0", "3", "10"], [*TEXTS, *WHOLE]),
    "numbers among text classes": Kind("0-1", ["1", "2", "other"], TEXTS),
    "classes with leading zeros": Kind("0-1", ["01", "1", "001"], TEXTS),
    "boolean classes": Kind(
        "0-1", ["false", "true"], [*TEXTS, pa.bool_(), pa.int8()], ["", "title", "upper"]
    ),
    "numbers": Kind("absolute[0,16]", ["0.5", "0.125", "3.0", "15.75"], [*TEXTS, *WHOLE[-2:]]),
    "exact match of text": Kind(EXACT, ["a b", "A b", "a, b", 'a "b"', "ä"], TEXTS),
    "exact match of whole numbers": Kind(EXACT, ["42", "7", "100"], [*TEXTS, *WHOLE]),
    "exact match of leading zeros": Kind(EXACT, ["01234", "1234", "7"], TEXTS),
    "exact match of fractions": Kind(EXACT, ["0.5", "0.125", "3.0"], [*TEXTS, *WHOLE[-2:]]),
    "exact match of booleans": Kind(EXACT, ["false", "true"], [*TEXTS, pa.bool_()]),
}


@dataclass(frozen=True)
class Written:
    """How one file is written."""

    form: str = "csv"
    kind: pa.DataType = TEXTS[0]
    """The type of labels or predictions, where the format has types."""
    id_kind: pa.DataType = TEXTS[0]
    spelling: str = ""
    order: tuple[int, ...] = tuple(range(ROWS))
    """The rows, by their places in the data; predictions alone may have another order."""
    column: str = "label"
    id_column: str = "id"
    first_id: int = 100
    """Both sets have rows of their own."""

    def write(self, folder: Path, name: str, kind: Kind, values: Sequence[str]) -> Path:
        """Write ids, an input and values."""
        texts = [values[at] for at in self.order]
        ids = [str(self.first_id + at) for at in self.order]
        spelled = [getattr(each, self.spelling)() if self.spelling else each for each in texts]
        path = folder / f"{name}.{self.form.split()[0]}"
        if self.form.startswith(("csv", "tsv")):
            lines = [[self.id_column, "x", self.column]]
            lines += [[i, i, value] for i, value in zip(ids, spelled, strict=True)]
            path.write_bytes(_separated(lines, self.form))
            return path
        columns = {
            self.id_column: kind.column(ids, self.id_kind),
            "x": pa.array([int(each) for each in ids]),
            self.column: kind.column(spelled if self.kind in TEXTS else texts, self.kind),
        }
        _write_typed(path, pa.table(columns))
        return path


def _separated(lines: list[list[str]], form: str) -> bytes:
    text = io.StringIO()
    end, tab = "\r\n" if form.endswith("CRLF") else "\n", "\t" if form == "tsv" else ","
    csv.writer(text, lineterminator=end, delimiter=tab).writerows(lines)
    mark = codecs.BOM_UTF8 if form.endswith("BOM") else b""
    return mark + text.getvalue().encode()


def _write_typed(path: Path, table: pa.Table) -> None:
    match path.suffix:
        case ".jsonl":
            path.write_text("".join(f"{json.dumps(row)}\n" for row in table.to_pylist()))
        case ".json":
            path.write_text(json.dumps(table.to_pylist(), indent=1))
        case ".parquet":
            pq.write_table(table, path)
        case ".arrow":
            with pa.ipc.new_file(path, table.schema) as writer:
                writer.write_table(table)
        case ".npy":
            column = table.column(table.num_columns - 1).to_pylist()
            np.save(path, np.array(column, None if isinstance(column[0], str) else _npy(table)))


def _npy(table: pa.Table) -> Any:
    return table.schema.types[-1].to_pandas_dtype()


@dataclass(frozen=True)
class Files:
    """How the four files are written."""

    test: Written
    validation: Written
    on_test: Written
    on_validation: Written

    @classmethod
    def of(cls, *ways: Written) -> Files:
        """Give each file its column, and each set its rows."""
        test, validation, on_test, on_validation = ways
        return cls(
            test,
            replace(validation, first_id=500),
            replace(on_test, column="prediction"),
            replace(on_validation, column="prediction", first_id=500),
        )

    @property
    def matching(self) -> RowMatching:
        """Predictions in an array have no ids."""
        return RowMatching(
            id_column=None if self.in_order else self.on_test.id_column, in_order=self.in_order
        )

    @property
    def in_order(self) -> bool:
        """Whether the order of the rows is relied on."""
        return "npy" in (self.on_test.form, self.on_validation.form)


@dataclass(frozen=True)
class Data:
    """Labels and predictions, as values."""

    labels: Sequence[str]
    seen_labels: Sequence[str]
    predictions: Sequence[str]
    seen_predictions: Sequence[str]


@cache
def fresh(loss: str, classes: tuple[str, ...]) -> Path:
    """Make a meter once: its copies cost a fraction of that."""
    folder = Path(tempfile.mkdtemp(prefix="meter-tests-"))
    atexit.register(shutil.rmtree, folder)
    spec = small_spec(steps=1, loss=loss, classes=classes)
    Meter.create(folder / "meter", spec, clock=Clock()).close()
    return folder / "meter"


def measured(kind: Kind, data: Data, files: Files) -> tuple[Fraction, Fraction | None] | str:
    """Take the data through a whole meter; return its losses, or the line of a refusal."""
    made = fresh(kind.loss, tuple(kind.classes))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copytree(made, folder / "meter")
        meter = Meter.open(folder / "meter", clock=Clock())
        try:
            seen = files.validation.write(folder, "validation", kind, data.seen_labels)
            hidden = files.test.write(folder, "hidden", kind, data.labels)
            on_test = files.on_test.write(folder, "on-test", kind, data.predictions)
            on_seen = files.on_validation.write(folder, "on-seen", kind, data.seen_predictions)
            return _submitted(meter, seen, hidden, (on_test, on_seen), files.matching)
        except InvalidInput as refused:
            return str(refused)
        finally:
            meter.close()


def _submitted(
    meter: Meter, seen: Path, hidden: Path, files: tuple[Path, Path], matching: RowMatching
) -> tuple[Fraction, Fraction | None]:
    meter.set_validation(seen, label="label", id_column="id")
    meter.seal(hidden, hidden.with_suffix(".sealed"), label="label", id_column="id")
    meter.add_test_set(hidden.with_suffix(".sealed"))
    found: list[Any] = []
    measure = kinds._PredictionAttempt.measure

    def kept(attempt: Any, on: Any) -> Any:
        found.append(measure(attempt, on))
        return found[-1]

    with mock.patch.object(kinds._PredictionAttempt, "measure", kept):
        meter.submit(*files, model="model", matching=matching)
    score = found[0].test
    return found[0].validation, None if score is None else score.mean


def drawn(draw: Any, kind: Kind) -> Data:
    """Draw values so that each class occurs in the validation set."""
    values = st.lists(st.sampled_from(list(kind.values)), min_size=ROWS, max_size=ROWS)
    seen = [*kind.values, *draw(values)][:ROWS]
    return Data(draw(values), seen, draw(values), draw(values))


def way(draw: Any, kind: Kind, forms: Sequence[str]) -> Written:
    """Draw how a file is written."""
    return Written(
        form=draw(st.sampled_from(forms)),
        kind=draw(st.sampled_from(list(kind.types))),
        id_kind=draw(st.sampled_from([*TEXTS, pa.int32(), pa.int64()])),
        spelling=draw(st.sampled_from(list(kind.spellings))),
    )


@pytest.mark.parametrize("name", KINDS)
@settings(max_examples=8)
@given(data=st.data())
def test_whatever_the_files_are(name: str, data: st.DataObject) -> None:
    kind = KINDS[name]
    values = drawn(data.draw, kind)
    files = Files.of(
        *(way(data.draw, kind, TABLES) for _ in range(2)),
        *(way(data.draw, kind, [*TABLES, "npy"]) for _ in range(2)),
    )
    if not files.in_order:
        orders = st.permutations(range(ROWS)).map(tuple)
        renamed = data.draw(st.sampled_from(["id", "row"]))
        files = replace(
            files,
            on_test=replace(files.on_test, order=data.draw(orders), id_column=renamed),
            on_validation=replace(files.on_validation, order=data.draw(orders), id_column=renamed),
        )
    found = measured(kind, values, files)
    if isinstance(found, str):
        event("refused")
        assert "\n" not in found
        return
    assert found == (
        kind.loss_of(values.seen_predictions, values.seen_labels),
        kind.loss_of(values.predictions, values.labels),
    )


@pytest.mark.parametrize("name", KINDS)
def test_one_format_for_all_is_never_refused(name: str) -> None:
    """Without this, refusing everything would pass the test above."""
    kind = KINDS[name]
    turned = [kind.values[at % len(kind.values)] for at in range(ROWS)]
    others = [kind.values[at * at % len(kind.values)] for at in range(ROWS)]
    wanted = kind.loss_of(others, turned)
    for form, each in (("csv", TEXTS[0]), ("json", kind.types[-1]), ("parquet", kind.types[-1])):
        files = Files.of(*4 * [Written(form, each, pa.int64())])
        assert measured(kind, Data(turned, turned, others, others), files) == (wanted, wanted)
