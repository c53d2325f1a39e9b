"""Files that appear under their name whole, or not at all, and tables written to them.

The format is the one that the name of the file says.
"""

from __future__ import annotations

import datetime
import errno
import json
import os
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from decimal import Decimal
from pathlib import Path
from typing import Any, BinaryIO, Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from easeml_meter.errors import InvalidInput, MeterError, invalid

_NO_HARD_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS}


@contextmanager
def new_file(path: Path, *, private: bool = False) -> Iterator[BinaryIO]:
    """Write `path` under a temporary name beside it; on disk and named when the block ends.

    An existing file is never replaced. If the block raises, nothing stays behind; after a
    power cut or kill -9 at most the temporary `.<random>.part` does.
    """
    if os.path.lexists(path):
        raise InvalidInput(f"{path} already exists; choose another name")
    temporary = path.with_name(f".{secrets.token_hex(8)}.part")
    try:
        descriptor = os.open(
            temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600 if private else 0o666
        )
        try:
            with os.fdopen(descriptor, "wb") as stream:
                yield stream
                stream.flush()
                os.fsync(stream.fileno())
            _name(temporary, path)
        finally:
            with suppress(FileNotFoundError):
                os.unlink(temporary)
        _sync_folder(path.parent)
    except FileExistsError:
        raise InvalidInput(f"{path} already exists; choose another name") from None
    except OSError as error:
        raise MeterError(f"cannot write {path}: {error.strerror or error}") from None


@contextmanager
def replaced_file(path: Path, *, private: bool = False) -> Iterator[BinaryIO]:
    """Write a file in the place of one that is there; at any moment it is the old or the new."""
    temporary = path.with_name(f".{secrets.token_hex(8)}.part")
    try:
        try:
            with new_file(temporary, private=private) as stream:
                yield stream
            os.replace(temporary, path)
        finally:
            with suppress(FileNotFoundError):
                os.unlink(temporary)
        _sync_folder(path.parent)
    except OSError as error:
        raise MeterError(f"cannot write {path}: {error.strerror or error}") from None


def _name(temporary: Path, path: Path) -> None:
    """Return the finished file its name; a link, unlike a rename, fails if the name is taken."""
    try:
        os.link(temporary, path)
    except OSError as error:
        if error.errno not in _NO_HARD_LINKS or os.path.lexists(path):
            raise
        os.rename(temporary, path)


def _sync_folder(folder: Path) -> None:
    """Make the new name itself survive a power cut, where folders can be synced."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def new_folder(path: Path) -> Path:
    """Make a folder for new files; one that holds anything is refused."""
    try:
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise invalid("folder", str(path), "it is there already: move it, or choose another")
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise invalid("folder", str(path), error.strerror or "cannot be made") from None
    return path


ENDINGS = (".parquet", ".arrow", ".csv", ".jsonl")


def check_ending(path: Path) -> str:
    """Return the ending of a file that a table can be written to."""
    ending = path.suffix.lower()
    if ending not in ENDINGS:
        needed = f"the name must end in {', '.join(ENDINGS[:-1])} or {ENDINGS[-1]}"
        raise invalid("file", str(path), needed)
    return ending


def write_table(path: Path, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> int:
    """Write rows to a new file as they come, and return how many there were."""
    ending, rows = check_ending(path), 0
    with new_file(path) as stream:
        try:
            with _writer(ending, stream, schema) as writer:
                for batch in batches:
                    writer.write_batch(batch)
                    rows += batch.num_rows
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, TypeError):
            line = f"{ending} cannot hold these columns; choose a name that ends in .parquet"
            raise InvalidInput(line) from None
    return rows


def _writer(ending: str, stream: BinaryIO, schema: pa.Schema) -> Any:
    match ending:
        case ".parquet":
            import pyarrow.parquet as pq

            return pq.ParquetWriter(stream, schema)
        case ".arrow":
            return pa.ipc.new_file(stream, schema)
        case ".csv":
            return pa.csv.CSVWriter(stream, schema)
    return _LineWriter(stream)


class _LineWriter:
    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Leave the stream to its owner."""

    def write_batch(self, batch: pa.RecordBatch) -> None:
        """Write a line for each row; JSON has no NaN, so that becomes null."""
        columns = [_without_nan(column) for column in batch.columns]
        for row in pa.RecordBatch.from_arrays(columns, batch.schema.names).to_pylist():
            line = json.dumps(row, ensure_ascii=False, default=_plain)
            self._stream.write(line.encode() + b"\n")


def _without_nan(column: Any) -> Any:
    with suppress(pa.ArrowNotImplementedError):  # only numbers can be NaN
        return pc.if_else(pc.is_nan(column), None, column)
    return column


def _plain(value: object) -> str:
    match value:
        case datetime.datetime() | datetime.date() | datetime.time():
            return value.isoformat()
        case Decimal():
            return str(value)
    raise TypeError("no JSON")
