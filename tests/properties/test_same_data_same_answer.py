"""The same data, in whatever files, has the same losses or is refused; it never has others.

Labels and predictions of both sets are written in formats and types that are drawn at random, in
another order of the rows, and under other names of the columns. What the meter then measures is
compared with what the values themselves say.
"""

from __future__ import annotations

import atexit
import codecs
import csv
import decimal
import gzip
import io
import json
import pickle
import re
import shutil
import tempfile
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from tests.service.helpers import Clock, small_spec

from easeml_meter.errors import InvalidInput
from easeml_meter.meter import Meter
from easeml_meter.scoring.classes import Classes
from easeml_meter.scoring.ids import BY_IDS, IN_ORDER, RowMatching
from easeml_meter.scoring.losses import parse_loss
from easeml_meter.scoring.validation import Validation
from easeml_meter.service.submissions import kinds
from easeml_meter.service.submissions.measuring import open_sealed
from easeml_meter.tables.memory import as_source

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
            np.save(path, np.array(column, None if isinstance(column[0], str) else _dtype(table)))


def _dtype(table: pa.Table) -> Any:
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


# --- Each way of writing the same predictions is free, or refused with a reason ---

SIZE = 40
PLACES = np.arange(SIZE)
SHUFFLED = np.random.default_rng(5).permutation(SIZE)
ANIMALS = np.array(["cat", "dog", "owl"])[PLACES * PLACES % 7 % 3]
NUMBERS = np.array([0.5, 0.0, 3.0, 1500.0, 0.25])[PLACES % 5]
IDS = PLACES + 1_000_000_000_000_000_000
"""Of 19 digits: no float has them."""
LABELS = dict(zip(map(str, IDS), ANIMALS, strict=True))
Columns = dict[str, Any]


@dataclass(frozen=True)
class Way:
    """One way to write the predictions on a test set."""

    make: Callable[[Path], Any]
    """Return a file, or data in memory."""
    refused: str = ""
    """What the refusal says; without it, the answer is the same, at no cost."""
    house: str = "classes"
    matching: RowMatching = BY_IDS

    @property
    def labels(self) -> bool:
        """Whether the same file may be a set of ids and labels."""
        return self.house == "classes" and self.matching == BY_IDS and not self.refused


ODD = np.array(["NA", "null", "nan", "None"])[PLACES % 4]
ACCENTS = np.array(["caf\u00e9", "th\u00e9"])[PLACES % 2]
RANKS = np.stack([ANIMALS, np.where(ANIMALS == "cat", "dog", "cat")], axis=1)
CHANCES = np.where(ANIMALS[:, None] == np.array(["cat", "dog", "owl"]), 0.5, 0.25)
HOUSES: dict[str, tuple[str, Any, Any]] = {
    "classes": ("0-1", ANIMALS, ANIMALS),
    "whole": ("0-1", PLACES % 3, PLACES % 3),
    "odd names": ("0-1", ODD, ODD),
    "accents": ("0-1", ACCENTS, ACCENTS),
    "numbers": ("absolute[0,2000]", NUMBERS, NUMBERS),
    "ranks": ("top-2", ANIMALS, pa.array(RANKS.tolist())),
    "chances": ("brier", ANIMALS, pa.array(CHANCES.tolist())),
}
"""Loss, labels and predictions of the meters that the ways are tried on."""


def _columns(values: Any, order: Any = PLACES, ids: Any = IDS) -> Columns:
    return {"id": ids[order], "prediction": values[order]}


def _text(
    columns: Columns, mark: str = ",", end: str = "\n", *, quoted: bool = False, comma: bool = False
) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, delimiter=mark, lineterminator=end, quoting=1 if quoted else 0)
    writer.writerow(columns)
    rows = zip(*(np.asarray(each).tolist() for each in columns.values()), strict=True)
    writer.writerows([str(v).replace(".", ",") if comma else v for v in row] for row in rows)
    return text.getvalue().encode()


def _json(
    columns: Columns, lines: bool, indent: int | None = None, text_ids: bool = False
) -> bytes:
    table = pa.table(columns | ({"id": [str(i) for i in columns["id"]]} if text_ids else {}))
    rows = table.to_pylist()
    if lines:
        return "".join(f"{json.dumps(row, ensure_ascii=indent is None)}\n" for row in rows).encode()
    return json.dumps(rows, indent=indent).encode()


def _parquet(table: pa.Table, **options: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink, **options)
    return sink.getvalue()


def _ipc(
    table: pa.Table, stream: bool = False, codec: str | None = None, rows: int = SIZE
) -> bytes:
    sink, options = io.BytesIO(), pa.ipc.IpcWriteOptions(compression=codec)
    opener = pa.ipc.new_stream if stream else pa.ipc.new_file
    with opener(sink, table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=rows)
    return sink.getvalue()


def _npy(array: Any) -> bytes:
    sink = io.BytesIO()
    np.save(sink, array)
    return sink.getvalue()


def _packed(content: bytes, codec: str) -> bytes:
    if codec == ".zst":
        return bytes(pa.compress(content, "zstd"))
    return gzip.compress(content) if codec else content


def file(name: str, content: bytes, refused: str = "", **options: Any) -> Way:
    def make(folder: Path) -> Path:
        (folder / name).write_bytes(content)
        return folder / name

    return Way(make, refused, **options)


def held(data: Any, refused: str = "", **options: Any) -> Way:
    return Way(lambda _: data, refused, **options)


WAYS: dict[str, Way] = {}


def _ways_of_text() -> Iterator[tuple[str, Way]]:
    marks = {",": "csv", ";": "csv", "\t": "csv", "tab": "tsv"}
    for (mark, ending), end, bom, quoted, packed in product(
        marks.items(), ("\n", "\r\n"), (b"", codecs.BOM_UTF8), (False, True), ("", ".gz", ".zst")
    ):
        order = SHUFFLED if quoted else PLACES
        separator = "\t" if mark == "tab" else mark
        content = bom + _text(_columns(ANIMALS, order), separator, end, quoted=quoted)
        name = f"{ending}{packed} {mark!r} {end!r} {bom!r} {quoted}"
        yield name, file(f"p.{ending}{packed}", _packed(content, packed))
    for ending, indent, text_ids, packed, order in product(
        ("jsonl", "json"), (None, 2), (False, True), ("", ".gz", ".zst"), (PLACES, SHUFFLED)
    ):
        content = _json(_columns(ANIMALS, order), ending != "json", indent, text_ids)
        name = f"{ending}{packed} {indent} {text_ids} {order[0]}"
        yield name, file(f"p.{ending}{packed}", _packed(content, packed))


def _ways_of_types() -> Iterator[tuple[str, Way]]:
    words = pa.array(["cat", "dog", "owl"])
    texts = [pa.string(), pa.large_string(), pa.string_view()]
    widths = [getattr(pa, f"{sign}int{bits}")() for sign in ("", "u") for bits in (8, 16, 32, 64)]
    kinds: dict[str, Any] = {str(kind): pa.array(ANIMALS).cast(kind) for kind in texts}
    for kind, width in product(texts, widths):
        places = pc.index_in(pa.array(ANIMALS), words).cast(width)
        kinds[f"{kind} by {width}"] = pa.DictionaryArray.from_arrays(places, words.cast(kind))
    codecs_ = ("none", "snappy", "gzip", "zstd", "lz4", "brotli")
    for (kind, column), codec in product(kinds.items(), codecs_):
        if " by " not in kind or (codec == "snappy" and "view" not in kind):
            table = pa.table({"id": IDS, "prediction": column})
            yield f"parquet {kind} {codec}", file("p.parquet", _parquet(table, compression=codec))
    for (kind, column), stream in product(kinds.items(), (False, True)):
        table = pa.table({"id": IDS, "prediction": column})
        yield f"arrow {kind} {stream}", file("p.arrow", _ipc(table, stream))
        if not stream:
            yield f"table {kind}", held(table)
    for codec, stream, rows in product(("lz4", "zstd"), (False, True), (7, SIZE)):
        table = pa.table(_columns(ANIMALS, SHUFFLED))
        yield f"arrow {codec} {stream} {rows}", file("p.feather", _ipc(table, stream, codec, rows))


def _ways_in_memory() -> Iterator[tuple[str, Way]]:
    frame = pd.DataFrame(_columns(ANIMALS, SHUFFLED))
    for kind in ("object", "category", "string", "string[pyarrow]", "large_string[pyarrow]"):
        yield f"pandas {kind}", held(frame.astype({"prediction": kind}))
    yield "pandas index", held(frame.set_index("id"))
    yield "pandas series", held(frame.set_index("id")["prediction"])
    yield "pandas nullable ids", held(frame.astype({"id": "Int64"}))
    yield "pandas shuffled index", held(frame.set_index(SHUFFLED), "index without a name")
    for name, dtype in {
        "text": pl.String(), "categories": pl.Categorical(), "enum": pl.Enum(["owl", "cat", "dog"])
    }.items():  # fmt: skip
        column = pl.Series(ANIMALS[SHUFFLED], dtype=dtype)
        polars = pl.DataFrame({"id": IDS[SHUFFLED], "prediction": column})
        yield f"polars {name}", held(polars)
        for ending in ("arrow", "parquet", "csv", "ndjson"):
            sink = io.BytesIO()
            getattr(polars, f"write_{'ipc' if ending == 'arrow' else ending}")(sink)
            yield f"polars {name} {ending}", file(f"p.{ending}", sink.getvalue())
    ids = pl.Series(map(str, IDS), dtype=pl.Categorical)
    yield "polars ids", held(pl.DataFrame({"id": ids, "prediction": ANIMALS}))
    table = pa.table(_columns(ANIMALS, SHUFFLED))
    halves = pa.concat_tables([table.slice(SIZE // 2), table.slice(0, SIZE // 2)])
    yield "chunks", held(halves)
    yield "chunks of categories", held(pa.concat_tables([
        table.slice(at, 9).set_column(1, "prediction", table.slice(at, 9)[1].dictionary_encode())
        for at in range(0, SIZE, 9)
    ]))  # fmt: skip
    yield "dict", held(dict(zip(IDS.tolist(), ANIMALS.tolist(), strict=True)))
    yield "dict of text ids", held(dict(zip(map(str, IDS), ANIMALS.tolist(), strict=True)))
    yield "dict of columns", held({"id": IDS[SHUFFLED], "prediction": ANIMALS[SHUFFLED]})
    yield "dict of lists", held({"id": IDS.tolist(), "prediction": ANIMALS.tolist()})
    bare = {
        "list": ANIMALS.tolist(), "tuple": tuple(ANIMALS), "array": ANIMALS,
        "objects": ANIMALS.astype(object), "masked": np.ma.masked_array(ANIMALS, False),
        "strided": np.repeat(ANIMALS, 2)[::2],
    }  # fmt: skip
    for name, data in bare.items():
        yield f"{name} without ids", held(data, "has ids")
        yield f"{name} in order", held(data, matching=IN_ORDER)
    masked, order = np.ma.masked_array(ANIMALS, PLACES == 3), IN_ORDER
    yield "a masked value", held(masked, "missing", matching=order)
    wide = ANIMALS.reshape(-1, 1)
    for name, content in {
        "little-endian": _npy(ANIMALS.astype("<U3")), "big-endian": _npy(ANIMALS.astype(">U3")),
        "one column": _npy(wide), "Fortran": _npy(np.asfortranarray(wide)),
        "longer": _npy(ANIMALS.astype("U9")),
    }.items():  # fmt: skip
        yield f"npy {name}", file("p.npy", content, matching=order)
        yield f"npy.gz {name}", file("p.npy.gz", _packed(content, ".gz"), matching=order)
    objects = _npy(ANIMALS.astype(object))
    yield "npy of objects", file("p.npy", objects, "numbers or text", matching=order)
    features = {"prediction": {"names": ["dog", "owl", "cat"], "_type": "ClassLabel"}}
    noted = {"huggingface": json.dumps({"info": {"features": features}})}
    for name, kind in {"int64": pa.int64(), "int8": pa.int8(), "uint64": pa.uint64()}.items():
        places = [features["prediction"]["names"].index(each) for each in ANIMALS]
        labelled = pa.table({"id": IDS, "prediction": pa.array(places, kind)})
        labelled = labelled.replace_schema_metadata(noted)
        yield f"ClassLabel {name} parquet", file("p.parquet", _parquet(labelled))
        yield f"ClassLabel {name}", held(labelled)
        yield f"ClassLabel {name} arrow", file("p.arrow", _ipc(labelled))


def _ways_refused() -> Iterator[tuple[str, Way]]:
    right = _text(_columns(ANIMALS))
    sink = io.BytesIO()
    np.savez(sink, prediction=ANIMALS)
    for name, (ending, content, reason) in {
        "UTF-16": ("csv", right.decode().encode("utf-16"), "UTF-16"),
        "Latin-1": ("csv", right.replace(b"cat", b"c\xe4t"), "UTF-8"),
        "a zip": ("csv", b"PK\3\4" + right, "zip"), "xlsx": ("xlsx", b"PK\3\4",
        "save the sheet as CSV"),
        "xls": ("xls", right, "save the sheet"), "ods": ("ods", right, "save the sheet"),
        "txt": ("txt", right, "one of .parquet"), "npz": ("npz", sink.getvalue(),
        "one of .parquet"),
        "pickle": ("pkl", pickle.dumps(ANIMALS), "one of .parquet"), "joblib": ("joblib", b"",
        "one of"),
        "gz in disguise": ("csv", _packed(right, ".gz"), "gzip"),
        "gz alone": ("gz", _packed(right, ".gz"), "such as .csv.gz"),
        "gz cut": ("csv.gz", _packed(right, ".gz")[:-9], "damaged"),
        "gz of nothing": ("csv.gz", b"", "damaged|empty"),
        "zst cut": ("csv.zst", _packed(right, ".zst")[:-9], "damaged"),
        "gz twice": ("csv.gz.gz", b"", "such as"),
        "parquet in disguise": ("csv", _parquet(pa.table(_columns(ANIMALS))), "Parquet"),
        "sep=": ("csv", b"sep=;\n" + right.replace(b",", b";"), "needed|no column"),
        "no header": ("csv", right.split(b"\n", 1)[1], "no column"),
        "empty": ("csv", b"", "empty"),
        "two headers": ("csv", right.replace(b"\n", b"\nid,prediction\n", 1),
        "not in the test set|given"),
        "a row too many": ("csv", right + b"7,cat\n", "not in the test set"),
        "a row twice": ("csv", right + right.splitlines()[1] + b"\n", "more than once"),
        "a row too few": ("csv", right.rsplit(b"\n", 2)[0], "without a row"),
        "short row": ("csv", right + b"7\n", "1 fields given"),
        "id in capitals": ("csv", right.replace(b"id", b"ID"), "did you mean 'ID'"),
        "no ids": ("csv", b"prediction\n" + b"cat\n" * SIZE, "has ids"),
        "capitals": ("csv", _text({"id": IDS, "Prediction": ANIMALS, "x": IDS}), "a column named"),
        "ids of Excel": ("csv", re.sub(rb"1[0-9]{18}", b"1.00E+18", right), "more than once"),
        "one object": ("json", b"{}", "no array"),
        "array in lines": ("jsonl", _json(_columns(ANIMALS), False, 1), "no JSON Lines file"),
        "Cat": ("csv", right.replace(b"cat", b"Cat"),
        "write 'cat', which differs by case or space"),
        "space": ("csv", right.replace(b"cat", b" cat"), "write 'cat'"),
        "empty class": ("csv", right.replace(b"cat", b""), "'' given"),
        "another class": ("csv", right.replace(b"cat", b"cow"), "'cow' given, one of"),
    }.items():  # fmt: skip
        yield f"refused: {name}", file(f"p.{ending}", content, reason)
    for name, ids in {
        "floats": IDS.astype(float), "decimals": pa.array([decimal.Decimal(int(i)) for i in IDS]),
        "missing": pa.array([None, *IDS.tolist()[1:]]), "times": IDS.astype("M8[ns]"),
        "bytes": pa.array([b"x"] * SIZE),
    }.items():  # fmt: skip
        yield f"ids: {name}", held(pa.table({"id": ids, "prediction": ANIMALS}), "type|missing")
    texts = pa.array(map(str, IDS))
    for name, ids in {
        "text": texts, "uint64": IDS.astype("u8"), "large": texts.cast("large_string"),
        "view": texts.cast(pa.string_view()), "categories": texts.dictionary_encode(),
    }.items():  # fmt: skip
        yield f"ids: {name}", held(pa.table({"id": ids, "prediction": ANIMALS}))


def _ways_of_values() -> Iterator[tuple[str, Way]]:
    nones = pa.array([None, *NUMBERS[1:]])
    whole_text = pa.array(NUMBERS.astype(str)).dictionary_encode()
    for name, column, reason in (
        ("float32", NUMBERS.astype("f4"), ""), ("negative zero",
        np.where(NUMBERS == 0, -0.0, NUMBERS), ""),
        ("decimal", pa.array([decimal.Decimal(str(n)) for n in NUMBERS], pa.decimal128(9, 2)), ""),
        ("text", NUMBERS.astype(str), ""), ("exponents", [f"{n:e}" for n in NUMBERS], ""),
        ("spaces", [f" {n} " for n in NUMBERS], ""),
        ("digits", [f"{n:.9f}" for n in NUMBERS], ""), ("plus", [f"+{n}" for n in NUMBERS], ""),
        ("categories", whole_text, ""),
        ("nothing missing", pa.array(NUMBERS.tolist()), ""), ("missing", nones, "missing"),
        ("NaN", [*NUMBERS[:-1], np.nan], "finite"),
        ("percent", [f"{n}%" for n in NUMBERS], "finite"),
        ("thousands", [f"{n:,}" for n in NUMBERS], "finite"), ("infinite", [*NUMBERS[:-1], np.inf],
        "finite"),
        ("beyond the range", NUMBERS * 2, "range"), ("booleans", NUMBERS > 1, "numbers needed"),
        ("times", IDS.astype("M8[ns]"), "finite"),
    ):  # fmt: skip
        data = pa.table({"id": IDS, "prediction": column})
        yield f"numbers: {name}", held(data, reason, house="numbers")
    for end, comma, packed in product(("\n", "\r\n"), (False, True), ("", ".gz", ".zst")):
        content = _text(_columns(NUMBERS, SHUFFLED), ";", end, comma=comma)
        way = file(f"p.csv{packed}", _packed(content, packed), house="numbers")
        yield f"numbers: ; {end!r} {comma} {packed}", way
    mixed = _text(_columns(NUMBERS), ";", comma=True).replace(b"0,25", b"0.25")
    yield "numbers: commas and points", file("p.csv", mixed, "finite", house="numbers")
    mixed = _text(_columns(NUMBERS), comma=True)
    yield "numbers: commas between commas", file("p.csv", mixed, "finite", house="numbers")
    whole = PLACES % 3
    for name, column, reason in (
        ("int8", whole.astype("i1"), ""), ("uint64", whole.astype("u8"), ""),
        ("float", whole * 1.0, ""), ("half", whole.astype("f2"), ""),
        ("text", whole.astype(str), ""), ("nullable", pd.array(whole, "Int8"), ""),
        ("decimals", [f"{n}.0" for n in whole], ""), ("fractions", whole + 0.5, "one of"),
        ("another", whole + 1, "one of"), ("zeros", [f"0{n}" for n in whole], "one of"),
    ):  # fmt: skip
        frame = pd.DataFrame({"id": IDS, "prediction": column})
        yield f"whole: {name}", held(frame, reason, house="whole")
    odd = _columns(ODD)
    for ending, content in {
        "csv": _text(odd), "tsv": _text(odd, "\t"), "jsonl": _json(odd, True),
        "json": _json(odd, False), "parquet": _parquet(pa.table(odd)), "arrow": _ipc(pa.table(odd)),
    }.items():  # fmt: skip
        yield f"odd names: {ending}", file(f"p.{ending}", content, house="odd names")
    nones = [None if name == "None" else name for name in ODD.tolist()]
    yield "odd names: None", held({**odd, "prediction": nones}, "missing", house="odd names")
    for ending, escaped in product(("csv", "jsonl", "json"), (None, 1)):
        written = _json(_columns(ACCENTS), ending == "jsonl", escaped)
        written = _text(_columns(ACCENTS)) if ending == "csv" else written
        yield f"accents: {ending} {escaped}", file(f"p.{ending}", written, house="accents")
    apart = np.array([unicodedata.normalize("NFD", each) for each in ACCENTS])
    yield "accents: NFD", held(pa.table(_columns(apart)), "differs by case", house="accents")
    latin = _text(_columns(ACCENTS)).decode().encode("latin-1")
    yield "accents: Latin-1", file("p.csv", latin, "UTF-8", house="accents")
    first, second = RANKS.T
    for name, data, reason in (
        ("columns", {"prediction_1": first, "prediction_2": second}, ""), ("lists",
        {"prediction": pa.array(RANKS.tolist())}, ""),
        ("views", {"prediction": pa.array(RANKS.tolist(), pa.list_(pa.string_view()))}, ""),
        ("from zero", {f"prediction_{at}": first for at in (0, 1, 2)}, "the best guess is"),
        ("only from zero", {"prediction_0": first, "prediction_1": second}, "the best guess is"),
        ("one", {"prediction": first}, "a list of 2 ranked"), ("three",
        {"prediction": pa.array([[*r, "owl"] for r in RANKS.tolist()])}, "a list of 3"),
    ):  # fmt: skip
        for start in (0, SIZE // 2):
            halves = [pa.table({"id": IDS, **data}).slice(*half) for half in ((start,), (0, start))]
            whole = pa.concat_tables(halves)
            yield f"ranks: {name} {start}", held(whole, reason, house="ranks")
    named = dict(zip(("cat", "dog", "owl"), CHANCES.T, strict=True))

    def scaled(times: float = 1.0, less: float = 0.0, kind: str = "f8") -> Columns:
        return {each: (times * column - less).astype(kind) for each, column in named.items()}

    for name, data, reason in (
        ("named", {f"probability_{each}": column for each, column in named.items()}, ""), ("bare",
        named, ""),
        ("turned", dict(reversed(named.items())), ""), ("listed",
        {"prediction": pa.array(CHANCES.tolist())}, ""),
        ("float32", scaled(kind="f4"), ""), ("halves", scaled(kind="f2"), ""),
        ("percent", scaled(100), "probabilities in"), ("logits", scaled(less=1), "probabilities"),
        ("one short", {"cat": named["cat"], "dog": named["dog"]}, "needed"), ("sums", scaled(0.5),
        "add up to 1"),
    ):  # fmt: skip
        yield f"chances: {name}", held(pa.table({"id": IDS, **data}), reason, house="chances")


for ways in (_ways_of_text, _ways_of_types, _ways_in_memory, _ways_refused, _ways_of_values):
    WAYS |= dict(ways())


@pytest.fixture(scope="module")
def houses(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """Return, by name, a meter that has answered, and how to submit to it once more."""
    with ExitStack() as opened:
        made = {name: _house(tmp_path_factory.mktemp("house"), name) for name in HOUSES}
        yield {name: opened.enter_context(each) for name, each in made.items()}


@contextmanager
def _house(folder: Path, name: str) -> Iterator[tuple[Meter, Any]]:
    loss, labels, predictions = HOUSES[name]
    classes = () if name == "numbers" else tuple(np.unique(labels).tolist())
    spec = small_spec(steps=2, loss=loss, classes=classes, inputs="public", tolerance=0.45)
    with Meter.create(folder / "meter", spec, clock=Clock()) as meter:
        table, seen = (pa.table({"id": ids, "label": labels}) for ids in (IDS, IDS + SIZE))
        meter.set_validation(seen, label="label", id_column="id")
        meter.seal(table, folder / "t.sealed", label="label", id_column="id")
        meter.add_test_set(folder / "t.sealed")
        hidden, visible = (
            pa.table({"id": ids, "prediction": predictions}) for ids in (IDS, IDS + SIZE)
        )
        meter.submit(hidden, visible, model="first")
        yield meter, visible


def test_there_are_as_many_ways_as_were_tried_by_hand() -> None:
    assert len(WAYS) >= 302


@pytest.mark.parametrize("name", WAYS)
def test_the_same_predictions_are_free_or_refused(
    name: str, houses: dict[str, Any], tmp_path: Path
) -> None:
    way = WAYS[name]
    meter, visible = houses[way.house]
    data, left = way.make(tmp_path), meter.status().steps_left
    if way.matching.in_order:
        visible = visible.column("prediction")
    if way.refused:
        with pytest.raises(InvalidInput, match=way.refused) as refusal:
            meter.submit(data, visible, model="again", matching=way.matching)
        assert "\n" not in str(refusal.value)
    else:
        assert meter.submit(data, visible, model="again", matching=way.matching).repeated
    assert meter.status().steps_left == left


@pytest.mark.parametrize("name", [name for name, way in WAYS.items() if way.labels])
def test_labels_are_the_same_in_each_way(name: str, labelled: Meter, tmp_path: Path) -> None:
    """Also in a validation set, whose classes are found in it."""
    data = WAYS[name].make(tmp_path)
    seen = Validation.open(
        as_source(data, "seen", a_set=True),
        label="prediction",
        loss=parse_loss("0-1"),
        id_column="id",
    )
    assert seen.classes == Classes(("cat", "dog", "owl"), declared=False)
    sealed = tmp_path / "t.sealed"
    labelled.seal(data, sealed, label="prediction", id_column="id")
    with open_sealed(labelled.workspace, labelled.generations[-1], sealed) as opened:
        columns = ["id", "prediction"]
        found = pa.Table.from_batches(opened.batches(columns)).to_pydict()
    visible = [list(map(str, each)) for each in (_texts(seen.ids()), _texts(seen.labels()))]
    hidden = [list(map(str, each)) for each in found.values()]
    for ids, labels in (visible, hidden):
        assert dict(zip(ids, labels, strict=True)) == LABELS


@pytest.fixture(scope="module")
def labelled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Meter]:
    """Return a meter that waits for its test set."""
    spec = small_spec(classes=("cat", "dog", "owl"))
    with Meter.create(tmp_path_factory.mktemp("labels") / "meter", spec, clock=Clock()) as meter:
        yield meter


def _texts(arrays: Any) -> list[Any]:
    return [value for each in arrays for value in each.to_pylist()]


@pytest.mark.parametrize("seen", [False, True])
def test_ids_that_nobody_named_are_refused_in_another_order(seen: bool, tmp_path: Path) -> None:
    """Scored in the order of the file, a model with an error of 4 % had one of 88 %."""
    spec = small_spec(classes=(), inputs="public")
    with Meter.create(tmp_path / "meter", spec, clock=Clock()) as meter:
        table = pa.table({"id": IDS, "label": ANIMALS})
        meter.set_validation(table, label="label")
        meter.seal(table.set_column(0, "id", [IDS + SIZE]), tmp_path / "t.sealed", label="label")
        meter.add_test_set(tmp_path / "t.sealed")
        orders = (PLACES, SHUFFLED) if seen else (SHUFFLED, PLACES)
        hidden, visible = (
            pa.table(_columns(ANIMALS, order, ids))
            for order, ids in zip(orders, (IDS + SIZE, IDS), strict=True)
        )
        with pytest.raises(InvalidInput, match="has the rows of the"):
            meter.submit(hidden, visible, model="m")
        assert meter.submit(hidden, visible, model="m", matching=IN_ORDER).step == 1
