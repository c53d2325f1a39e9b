"""One encrypted file: Parquet whose every byte is authenticated, its key wrapped to recipients.

    MAGIC, with the format's version
    Parquet, encrypted module by module (Parquet Modular Encryption, AES-256-GCM) under a random
        key, footer and column names too; bound by its `aad_prefix`, kept out of the file, to
        what the file is for
    age blob: that key, and the SHA-256 of all bytes before the blob
    length of the blob, 4 bytes

Modules are authenticated as they are read, so one column can be read fast and safely on its own.
The SHA-256 finds what reading does not see: `Container.verify` checks all bytes. Bytes are read by
their position, of a local file or of any other that can be sought.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Self

import pyarrow as pa

from easeml_meter.errors import InvalidInput, MeterError, VaultError, invalid
from easeml_meter.tables.source import stamp_of
from easeml_meter.vault.keys import Identity, opaque, unwrap, wrap

Location = str | os.PathLike[str]
"""A path, or a URL that fsspec knows, such as s3://bucket/name."""


class Closing(ABC):
    """Closes when its `with` block ends."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the file."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Positioned(Closing):
    """A file whose bytes are asked for by position: several readers do not get in each other's way.

    `size` is what it was when the file was opened.
    """

    size: int

    @abstractmethod
    def read_at(self, position: int, size: int) -> bytes:
        """Return `size` bytes, fewer at the end."""

    def exactly(self, position: int, size: int) -> bytes:
        """Return `size` bytes, or fail."""
        data = self.read_at(position, size)
        if len(data) != size:
            raise ValueError("cut short")
        return data


def open_positioned(location: Location) -> Positioned:
    """Open a local file, or one that fsspec reaches."""
    if isinstance(location, str) and "://" in location:
        return _Remote(_open_url(location))
    return _Local(location)


def whole_location(location: Location) -> str:
    """Name a file so that another process, with another working folder, finds it."""
    text = os.fspath(location)
    return text if "://" in text else os.path.abspath(text)


class _Local(Positioned):
    def __init__(self, path: Location) -> None:
        stamp_of(path)
        self._stream = open(path, "rb", buffering=0)  # noqa: SIM115
        self.size = os.fstat(self._stream.fileno()).st_size

    def read_at(self, position: int, size: int) -> bytes:
        return os.pread(self._stream.fileno(), size, position)

    def close(self) -> None:
        self._stream.close()


class _Remote(Positioned):
    def __init__(self, stream: BinaryIO) -> None:
        self._stream, self._lock = stream, threading.Lock()
        stream.seek(0, io.SEEK_END)
        self.size = stream.tell()

    def read_at(self, position: int, size: int) -> bytes:
        with self._lock:
            self._stream.seek(position)
            return self._stream.read(size)

    def close(self) -> None:
        self._stream.close()


def _open_url(url: str) -> BinaryIO:
    try:
        import fsspec
    except ImportError:
        needed = "needs fsspec: pip install 'easeml-meter[s3]', or give a local path"
        raise invalid("file", url, needed) from None
    try:
        system, path = fsspec.core.url_to_fs(url)
        # Nothing is read ahead: a task that needs one row group would be sent 50 MB for it.
        stream: BinaryIO = system.open(path, "rb", cache_type="none")
    except FileNotFoundError:
        raise invalid("file", url, "there is none: give one that you may read") from None
    except (ValueError, ImportError) as error:  # a protocol that is unknown, or not installed
        raise invalid("file", url, f"cannot be read here ({error})") from None
    except Exception as error:  # each storage has errors of its own
        raise MeterError(f"{url}: cannot be read ({type(error).__name__}): try again") from None
    return stream


MAGIC = b"EMSEAL\n\x01"
GROUP_ROWS = 1 << 17
GROUP_BYTES = 64 << 20
_NOTES = b"easeml_meter"
_NOTES_BLOCK = 4096
_PIECE = 1 << 20


def binding(purpose: str, *parts: str | int) -> bytes:
    """Return the `aad_prefix` for a file that serves one purpose, in an unambiguous form."""
    return json.dumps(["easeml-meter/1", purpose, *parts]).encode()


def is_container(path: Path) -> bool:
    """Whether a file begins as one of these."""
    with path.open("rb") as file:
        return begins_container(file.read(len(MAGIC)))


def begins_container(content: bytes) -> bool:
    """Whether bytes begin as one of these files."""
    return content[: len(MAGIC)] == MAGIC


def write_container(
    stream: BinaryIO,
    schema: pa.Schema,
    batches: Iterable[pa.RecordBatch],
    *,
    bound_to: bytes,
    recipients: Sequence[str],
    notes: Callable[[], Mapping[str, object]] = dict,
    even: Sequence[str] = (),
    group_rows: int = GROUP_ROWS,
    random: Callable[[int], bytes] = os.urandom,
) -> tuple[str, int]:
    """Encrypt `batches` into `stream`, a row group at a time; return its SHA-256 and their number.

    The columns `even` are laid out plainly, so that sizes on disk follow from the number of rows
    and not from the values. `notes` are asked for at the end and kept in the encrypted footer.
    """
    import pyarrow.parquet as pq
    from pyarrow.parquet import encryption

    key = random(32)
    wrap(b"", recipients)  # a bad recipient is found before the work is done
    sink = _Sink(stream)
    sink.write(MAGIC)
    stored = _positional(schema)
    leaves = _leaves(schema, even)
    writer = pq.ParquetWriter(
        pa.PythonFile(sink, "w"),
        stored,
        compression=dict.fromkeys(leaves, "zstd") or "none",
        use_dictionary=leaves or False,
        write_statistics=False,
        use_compliant_nested_type=False,
        encryption_properties=encryption.create_encryption_properties(
            key, aad_prefix=bound_to, store_aad_prefix=False
        ),
    )
    groups = 0
    try:
        for group in _groups(batches, group_rows):
            renamed = [pa.RecordBatch.from_arrays(batch.columns, schema=stored) for batch in group]
            table = pa.Table.from_batches(renamed)
            writer.write_table(table, row_group_size=table.num_rows)
            groups += 1
        text = json.dumps({"names": schema.names, **notes()})
        padding = " " * (-len(text) % _NOTES_BLOCK)
        writer.add_key_value_metadata({_NOTES: text + padding})
    except BaseException:
        sink.ended = True  # closing writes a footer, which nobody needs any more
        raise
    finally:
        writer.close()
    blob = wrap(key + sink.hash.digest(), recipients)
    sink.write(blob)
    sink.write(len(blob).to_bytes(4, "little"))
    return sink.hash.hexdigest(), groups


class Container(Closing):
    """An encrypted file, opened. Not for use by two threads at once: open it once for each."""

    def __init__(
        self, location: Location, key: Identity | bytes, bound_to: bytes, what: str
    ) -> None:
        """Unwrap the secret and authenticate the footer; any failure is one opaque `VaultError`.

        `key` may also be the `secret` of this file, from one who could unwrap it.
        """
        self._what = what
        self.location = whole_location(location)
        self._source = open_positioned(location)
        try:
            with opaque(what):
                self._open(key, bound_to)
        except VaultError:
            self._source.close()
            raise

    def _open(self, key: Identity | bytes, bound_to: bytes) -> None:
        import pyarrow.parquet as pq
        from pyarrow.parquet import encryption

        source = self._source
        self._end = _end_of(source)
        self.secret = _unwrapped(source, key) if isinstance(key, Identity) else key
        self._file = pq.ParquetFile(
            pa.PythonFile(_Slice(source, len(MAGIC), self._end), "r"),
            decryption_properties=encryption.create_decryption_properties(
                self.secret[:32], aad_prefix=bound_to
            ),
            pre_buffer=False,
        )
        self.notes: dict[str, Any] = json.loads(self._file.metadata.metadata[_NOTES])
        stored = zip(self._file.schema_arrow, self.notes["names"], strict=True)
        self.schema = pa.schema([field.with_name(name) for field, name in stored])
        groups = range(self._file.num_row_groups)
        self.group_rows: list[int] = [
            self._file.metadata.row_group(index).num_rows for index in groups
        ]
        self.rows: int = sum(self.group_rows)

    def read(self, group: int, columns: Sequence[str]) -> pa.Table:
        """Decrypt `columns` of one row group, and read nothing else."""
        indices = [str(self.schema.get_field_index(name)) for name in columns]
        with opaque(self._what):
            table = self._file.read_row_group(group, columns=indices, use_threads=False)
            if table.num_rows != self.group_rows[group]:
                raise ValueError("rows are missing")
            return table.select(indices).rename_columns(list(columns))

    def batches(
        self, columns: Sequence[str] | None = None, groups: range | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Decrypt rows in order, a row group at a time; only `columns` and `groups` if given."""
        names = self.schema.names if columns is None else list(columns)
        for group in range(len(self.group_rows)) if groups is None else groups:
            yield from self.read(group, names).to_batches()

    @property
    def size(self) -> int:
        """The bytes of the file."""
        return self._source.size

    def verify(self) -> str:
        """Check every byte of the file; return its SHA-256."""
        hashed, position, source = hashlib.sha256(), 0, self._source
        with opaque(self._what):
            while piece := source.read_at(position, min(_PIECE, self._end - position)):
                hashed.update(piece)
                position += len(piece)
            if hashed.digest() != self.secret[32:]:
                raise ValueError("changed")
            hashed.update(source.exactly(self._end, source.size - self._end))
        return hashed.hexdigest()

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()
        self._source.close()


def secret_of(location: Location, identity: Identity, what: str) -> bytes:
    """Return the secret of a file, or raise `VaultError`; nothing but its end is read."""
    with open_positioned(location) as source, opaque(what):
        return _unwrapped(source, identity)


def rewrap(location: Location, identity: Identity, recipient: str, stream: BinaryIO) -> None:
    """Write the same file with its secret wrapped to `recipient` alone; nothing is decrypted."""
    with open_positioned(location) as source:
        with opaque("the sealed file"):
            end, secret = _end_of(source), _unwrapped(source, identity)
        position = 0
        while piece := source.read_at(position, min(_PIECE, end - position)):
            stream.write(piece)
            position += len(piece)
    blob = wrap(secret, [recipient])
    stream.write(blob)
    stream.write(len(blob).to_bytes(4, "little"))


def _end_of(source: Positioned) -> int:
    """Return where the Parquet file ends, and the wrapped key begins."""
    end = source.size - 4 - int.from_bytes(source.exactly(source.size - 4, 4), "little")
    if source.exactly(0, len(MAGIC)) != MAGIC or end <= len(MAGIC):
        raise ValueError("not a container")
    return end


def _unwrapped(source: Positioned, identity: Identity) -> bytes:
    end = _end_of(source)
    return unwrap(source.exactly(end, source.size - 4 - end), identity)


class _Sink(io.RawIOBase):
    """What Parquet writes to: hashes on the way, and leaves closing to the owner."""

    def __init__(self, stream: BinaryIO) -> None:
        self.stream = stream
        self.hash = hashlib.sha256()
        self.ended = False

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        if self.ended:
            return len(data)
        self.hash.update(data)
        return self.stream.write(data)


class _Slice(io.RawIOBase):
    """Part of a file as a file: Arrow looks for Parquet's footer at a file's end."""

    def __init__(self, source: Positioned, start: int, end: int) -> None:
        self.source = source
        self.start, self.size, self.position = start, end - start, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self.position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self.position, io.SEEK_END: self.size}[whence]
        self.position = base + offset
        return self.position

    def read(self, size: int | None = -1) -> bytes:
        left = max(0, self.size - self.position)
        wanted = left if size is None or size < 0 else min(size, left)
        data = self.source.read_at(self.start + self.position, wanted)
        self.position += len(data)
        return data


def _positional(schema: pa.Schema) -> pa.Schema:
    """Name the columns 0, 1, ...: Parquet reads a dot in a name as a path."""
    return pa.schema([field.with_name(str(i)) for i, field in enumerate(schema)])


def _leaves(schema: pa.Schema, without: Sequence[str]) -> list[str]:
    """Return the paths under which Parquet stores the columns, nested ones too."""
    import pyarrow.parquet as pq

    paths = []
    for index, field in enumerate(schema):
        if field.name in without:
            continue
        stored = pa.schema([field.with_name(str(index))])
        empty = io.BytesIO()
        try:
            pq.write_table(stored.empty_table(), empty, use_compliant_nested_type=False)
        except (pa.ArrowException, OSError):
            raise InvalidInput(
                f"column {field.name!r} of type {field.type} cannot be kept in Parquet"
            ) from None
        paths += [column.path for column in pq.read_metadata(empty).schema]
    return paths


def _groups(batches: Iterable[pa.RecordBatch], most: int) -> Iterator[list[pa.RecordBatch]]:
    """Gather batches into row groups of `most` rows, fewer where rows are large."""
    group: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        while batch.num_rows:
            part = batch.slice(0, most - rows)
            batch = batch.slice(part.num_rows)  # noqa: PLW2901
            group.append(part)
            rows += part.num_rows
            size += part.nbytes
            if rows >= most or size >= GROUP_BYTES:
                yield group
                group, rows, size = [], 0, 0
    if group:
        yield group
