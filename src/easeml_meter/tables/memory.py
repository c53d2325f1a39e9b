"""Data in memory (DataFrames, Series, arrays, Arrow tables, dicts), as the file it could be in.

What is taken here goes the way of every file from then on, so the same data gets the same answer.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from easeml_meter.errors import InvalidInput
from easeml_meter.tables.binary import COLUMN
from easeml_meter.tables.opening import unpacked
from easeml_meter.tables.source import MEMORY, Held, Source, excerpt
from easeml_meter.tables.table import laid_out

ID = "id"
"""The column of a dict's keys."""


class ArrowStream(Protocol):
    """Tables and columns of pyarrow, polars, pandas and others."""

    def __arrow_c_stream__(self, *args: Any, **kwargs: Any) -> Any: ...


class Array(Protocol):
    """Arrays of numpy, and what turns into one."""

    def __array__(self, *args: Any, **kwargs: Any) -> Any: ...


Data = str | os.PathLike[str] | Held | ArrowStream | Array | Mapping[Any, Any] | Sequence[Any]
"""A file, or what could be in one."""


def as_source(data: Data, role: str, *, a_set: bool = False) -> Source:
    """Return data as a source that every reader takes; `role` says what it is, in refusals.

    A dict is from ids to values, or from names to columns if `prediction` or `score` is one of
    them, or if it is a set. The index of a DataFrame or Series is a column if it has a name. One
    without a name must count the rows, unless this is a set, whose order is what it is.

    Raises:
        InvalidInput: it is none of these, or has values that no file of the kind could hold.
    """
    if isinstance(data, Held):
        return data
    if isinstance(data, str | os.PathLike):
        return unpacked(Path(data))
    title = f"{role} ({type(data).__name__})"
    with _refusing(title):
        plain = isinstance(data, np.ndarray) and data.dtype.kind in "biufU"
        if plain and not np.ma.is_masked(data):
            return Held(f"{role}{MEMORY}.npy", _npy(data), title)
        content = _arrow(as_table(data, a_set=a_set), frame=a_set and _of_pandas(data))
        return Held(f"{role}{MEMORY}.arrow", content, title)


def was_frame(path: Path) -> bool:
    """Whether a set was given as a DataFrame of pandas, so that models expect one."""
    if path.suffix != ".arrow":
        return False
    try:
        with pa.ipc.open_file(path) as file:
            return bool(file.schema.metadata == _FRAME)
    except pa.ArrowInvalid:  # a stream, so it was a file
        return False


_FRAME = {b"given as": b"pandas"}


def _of_pandas(data: Any) -> bool:
    return type(data).__module__.partition(".")[0] == "pandas"


def as_table(data: Any, *, a_set: bool = False) -> pa.Table:
    """Return data in memory as a table; a single column is called `prediction`."""
    if _of_pandas(data):
        return _from_pandas(data, a_set=a_set)
    if isinstance(data, Mapping) and _has_columns(data, a_set=a_set):
        return pa.table({str(name): _column(values) for name, values in data.items()})
    if isinstance(data, Mapping):
        keys = pa.array(list(data))
        return pa.table({ID: keys, COLUMN: _column(list(data.values()))})
    if isinstance(data, pa.Array):
        return pa.table({COLUMN: data})
    if hasattr(data, "__arrow_c_stream__"):
        try:
            return pa.table(data)
        except (TypeError, pa.ArrowException):  # a single column
            return pa.table({COLUMN: pa.chunked_array(data)})
    if isinstance(data, Sequence | np.ndarray) or hasattr(data, "__array__"):
        return pa.table({COLUMN: _column(data)})
    needed = "a path, DataFrame, Series, array, Arrow table or dict from ids to values needed"
    raise InvalidInput(f"{type(data).__name__} given, {needed}")


def _has_columns(data: Mapping[Any, Any], *, a_set: bool) -> bool:
    """Whether a dict is from names to columns; ranked classes of an id are a list, too."""
    columns = all(not isinstance(v, str | bytes) and hasattr(v, "__len__") for v in data.values())
    return columns and (a_set or COLUMN in data or "score" in data)


def _from_pandas(data: Any, *, a_set: bool) -> pa.Table:
    index = data.index
    # Of predictions, an index without a name is ids to some and left over from a shuffle to others.
    counts = np.array_equal(np.asarray(index), np.arange(len(index)))
    unclear = index.name is None and not a_set and not counts
    if index.nlevels > 1 or unclear:
        ways = "name it to make it a column, or drop it (reset_index(drop=True))"
        raise InvalidInput(f"an index without a name that does not count the rows: {ways}")
    named = index.name is not None
    frame = data if data.ndim == 2 else data.to_frame(COLUMN)
    frame = frame.reset_index() if named else frame
    return pa.Table.from_pandas(frame, preserve_index=False)


def _column(values: Any) -> Any:
    array = values if isinstance(values, np.ndarray) else _array(values)
    # Text, or missing values among others; npy would have what lies under a mask.
    if array.dtype.kind == "O" or np.ma.is_masked(array):
        return pa.array(array.tolist())
    if array.ndim == 2:
        flat = pa.array(np.ascontiguousarray(array).reshape(-1))
        return pa.FixedSizeListArray.from_arrays(flat, array.shape[1])
    return pa.array(array)


def _array(values: Any) -> Any:
    if not isinstance(values, Sequence):
        return np.asarray(values)  # a tensor, for one
    # Numpy would make text of numbers beside text, and round whole numbers beside fractions.
    array = np.empty(len(values), object)
    array[:] = [each.tolist() if isinstance(each, np.ndarray) else each for each in values]
    return array


def _npy(array: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, np.ascontiguousarray(array), allow_pickle=False)
    return file.getvalue()


def _arrow(table: pa.Table, *, frame: bool) -> bytes:
    batches = [laid_out(batch) for batch in table.to_batches()]
    # What pandas notes about itself would make the same data look different.
    plain = pa.Table.from_batches(batches) if batches else table
    plain = plain.replace_schema_metadata(_FRAME if frame else None).unify_dictionaries()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, plain.schema) as writer:
        writer.write_table(plain)
    return bytes(sink.getvalue())


@contextmanager
def _refusing(title: str) -> Iterator[None]:
    try:
        yield
    except InvalidInput as error:
        raise InvalidInput(f"{title}: {error}") from None
    except (pa.ArrowException, AttributeError, TypeError, ValueError, OverflowError) as error:
        reason = excerpt(str(error).splitlines()[0] if str(error) else type(error).__name__, 120)
        needed = "values of one type in each column needed"
        raise InvalidInput(f"{title}: {reason} given, {needed}") from None
