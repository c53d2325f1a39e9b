"""Seal a test set, which commits the order of its rows, and open it again.

Labels are encrypted from the labeler's memory to the scorer's. `tables.order` is the digest of the
order; `scoring.ids` joins the rows of other files to it.
"""

from __future__ import annotations

import hmac
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa

from easeml_meter.errors import InvalidInput, TooLarge, VaultError, invalid
from easeml_meter.tables.choosing import NO_LABEL
from easeml_meter.tables.groups import Clusters
from easeml_meter.tables.opening import open_table
from easeml_meter.tables.source import Given, TableLimits, TableTally
from easeml_meter.tables.spelling import OrderDigest
from easeml_meter.tables.table import Table
from easeml_meter.tables.writing import check_ending, new_file, write_table
from easeml_meter.vault.containers import (
    GROUP_ROWS,
    Closing,
    Container,
    Location,
    binding,
    write_container,
)
from easeml_meter.vault.digests import content_digest, row_digests
from easeml_meter.vault.draws import BYTES, Draws, read_draws
from easeml_meter.vault.keys import Identity, opaque
from easeml_meter.vault.manifest import Manifest, describe
from easeml_meter.vault.survey import Survey, survey

WHAT = "the sealed test set"
LARGEST_RATIO = 1000
"""Of decoded bytes to bytes of a file; labels are not compressed, so real ones have less."""


def _now() -> datetime:
    return datetime.now(UTC)


def _purpose(meter: str, generation: int) -> bytes:
    """Bind a sealed test set to the meter and the generation it was sealed for."""
    return binding("test set", meter, generation)


def seal(
    source: Given | pa.Table | Table,
    destination: Path,
    *,
    meter: str,
    generation: int,
    label: str,
    recipients: Sequence[str],
    id_column: str | None = None,
    cluster: str | None = None,
    row_group_size: int = GROUP_ROWS,
    batch_rows: Sequence[int] = (),
    check: Callable[[Survey], None] = lambda _: None,
    clock: Callable[[], datetime] = _now,
    random: Callable[[int], bytes] = os.urandom,
) -> Manifest:
    """Encrypt the rows of `source`, in their order, for one generation of one meter.

    Each of `recipients` can open the result. The source is read more than once: missing labels,
    missing and repeated ids, and what `check` refuses, are found before anything is written. A
    failure leaves nothing behind. `batch_rows`: the rows of each batch, if it is a window of some.
    """
    if not meter or generation < 0:
        raise invalid("meter and generation", (meter, generation), "a name and a number are needed")
    if row_group_size < 1:
        raise invalid("row group size", row_group_size, "at least 1 row is needed")
    table = source if isinstance(source, Table) else open_table(source)
    found = survey(table, label, id_column, cluster)
    check(found)
    order = OrderDigest()
    # Drawn for every meter: whoever seals need not know which one draws edges.
    draws = Draws(random(BYTES))
    created = clock().astimezone(UTC).isoformat(timespec="seconds")
    rows = groups = 0

    def batches() -> Iterator[pa.RecordBatch]:
        nonlocal rows
        for batch in table.batches():
            rows += batch.num_rows
            if id_column is not None:
                order.update(batch.column(id_column))
            yield found.encode(batch)
        table.check_unchanged()
        if rows != found.rows:
            raise found.changed()

    def notes() -> dict[str, object]:
        return {
            "label": label,
            "id_column": id_column,
            "order_digest": None if id_column is None else order.hexdigest(),
            "created": created,
            "classes": None if found.classes is None else found.classes.to_pylist(),
            "draws": draws.published(),
            "batch_rows": list(batch_rows),
            **({} if cluster is None else {"cluster": cluster}),
        }

    with new_file(Path(destination)) as stream:
        sha256, groups = write_container(
            stream,
            found.stored,
            batches(),
            bound_to=_purpose(meter, generation),
            recipients=recipients,
            notes=notes,
            even=[label],
            group_rows=row_group_size,
            random=random,
        )
    manifest = describe(
        notes(), found.stored, meter, generation, rows=rows, row_groups=groups, sha256=sha256
    )
    return replace(manifest, clusters=found.clusters)


@dataclass(frozen=True)
class Grant:
    """Leave to open one sealed test set, and no other: its secret, not the key that unwrapped it.

    It can be sent to a worker, which opens the set by itself; a repr of it tells nothing secret.
    """

    location: str
    meter: str
    generation: int
    _secret: bytes = field(repr=False)

    def open(self) -> SealedTestSet:
        """Open the set."""
        return SealedTestSet.open(
            self.location, self._secret, meter=self.meter, generation=self.generation
        )


@dataclass(frozen=True)
class GroupLabels:
    """The labels of consecutive row groups, to be decrypted where they are needed."""

    grant: Grant
    groups: range
    rows: int

    def __len__(self) -> int:
        return self.rows

    def read(self) -> pa.Array:
        """Decrypt them, as `SealedTestSet.labels` does."""
        with self.grant.open() as sealed:
            return pa.concat_arrays([sealed.labels(group) for group in self.groups])


@dataclass(frozen=True)
class SealedTestSet(Closing):
    """A sealed test set that its key opened. Cheap to open: give each thread its own.

    Opening authenticates the footer, and reading authenticates what is read. Only `verify`
    looks at every byte: call it once, when the set is taken in.
    """

    manifest: Manifest
    """As the file itself tells it; `sha256` is empty until `verify` has read all of it."""
    classes: pa.Array | None = field(repr=False)
    """The distinct labels, sorted, where labels are text that repeats."""
    _draws: Draws | None = field(repr=False)
    """None: sealed before there were edges to draw."""
    _container: Container = field(repr=False)

    @classmethod
    def open(
        cls, location: Location, key: Identity | bytes, *, meter: str, generation: int
    ) -> SealedTestSet:
        """Open the file, or raise `VaultError`, the same whatever is wrong with it."""
        container = Container(location, key, _purpose(meter, generation), WHAT)
        try:
            with opaque(WHAT):
                manifest = describe(
                    container.notes,
                    container.schema,
                    meter,
                    generation,
                    rows=container.rows,
                    row_groups=len(container.group_rows),
                    sha256="",
                )
                names = container.notes["classes"]
                classes = None if names is None else pa.array(names, pa.string())
                draws = read_draws(container.notes.get("draws"))
        except VaultError:
            container.close()
            raise
        return cls(manifest, classes, draws, container)

    def grant(self) -> Grant:
        """Let a worker open this set, too."""
        container, manifest = self._container, self.manifest
        return Grant(container.location, manifest.meter, manifest.generation, container.secret)

    @property
    def rows(self) -> int:
        """The number of rows."""
        return self._container.rows

    @property
    def row_groups(self) -> int:
        """The number of row groups."""
        return len(self._container.group_rows)

    @property
    def group_rows(self) -> Sequence[int]:
        """The number of rows in each row group."""
        return self._container.group_rows

    @property
    def schema(self) -> pa.Schema:
        """The columns as `batches` gives them."""
        schema = self._container.schema
        index = schema.get_field_index(self.manifest.label.name)
        stored = schema.field(index).type
        kind = stored if self.classes is None else pa.string()
        return schema.set(index, pa.field(self.manifest.label.name, kind))

    @property
    def inputs(self) -> tuple[str, ...]:
        """The columns that are neither label nor id, nor name a cluster."""
        manifest = self.manifest
        apart = (manifest.label.name, manifest.id_column, manifest.cluster_column)
        return tuple(name for name in self.schema.names if name not in apart)

    @property
    def draws(self) -> Draws:
        """What band edges are drawn with, or `InvalidInput` if it was sealed without a secret."""
        if self._draws is None:
            raise InvalidInput(
                "the test set was sealed without the secret that band edges are drawn with: seal "
                "the rows again with this version: meter seal"
            )
        return self._draws

    def labels(self, group: int) -> pa.Array:
        """Decrypt the labels of one row group, without the inputs.

        Text that repeats comes as a dictionary array over `classes`, the same in every group.
        """
        label = self.manifest.label.name
        column = self._container.read(group, [label]).column(label).combine_chunks()
        if self.classes is None:
            return column
        with opaque(WHAT):
            return pa.DictionaryArray.from_arrays(column, self.classes)

    def clusters(self) -> Clusters | None:
        """Decrypt which cluster each row is in; None if it was sealed without clusters.

        Raises:
            InvalidInput: a cluster is too large, or what names it is no text or whole number.
        """
        column = self.manifest.cluster_column
        if column is None:
            return None
        return Clusters.of(batch.column(0) for batch in self.batches([column]))

    def counted(self) -> SealedTestSet:
        """Return it with the number of its clusters, which whoever sealed it did not write down."""
        clusters = self.clusters()
        count = None if clusters is None else clusters.count
        return replace(self, manifest=replace(self.manifest, clusters=count))

    def label_groups(self, gathered: Iterable[range] | None = None) -> Iterator[GroupLabels]:
        """Return handles on labels, for workers elsewhere: of each row group, or as gathered."""
        grant, single = self.grant(), (range(at, at + 1) for at in range(self.row_groups))
        for groups in single if gathered is None else gathered:
            yield GroupLabels(grant, groups, sum(self.group_rows[groups.start : groups.stop]))

    def batches(
        self, columns: Sequence[str] | None = None, groups: range | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Decrypt rows in their order, only `columns` and only of row groups `groups` if given."""
        names = self.schema.names if columns is None else list(columns)
        for name in names:
            if name not in self.schema.names:
                raise invalid("column", name, "the sealed test set has none of that name")
        label, schema = self.manifest.label.name, self.schema
        chosen = pa.schema([schema.field(name) for name in names])
        for batch in self._container.batches(names, groups):
            columns = list(batch.columns)
            if self.classes is not None and label in names:
                with opaque(WHAT):
                    columns[names.index(label)] = self.classes.take(batch.column(label))
            yield pa.RecordBatch.from_arrays(columns, schema=chosen)

    def verify(self, limits: TableLimits | None = None) -> Manifest:
        """Check every byte and every value; return the manifest with the file's SHA-256.

        Limits hold for each row group, since one is in memory at a time. All of them together
        may decode to as much, or to `LARGEST_RATIO` times the bytes of the file.
        """
        digest, decoded = self.verify_bytes(), 0
        for group in range(self.row_groups):
            batches = self.batches(groups=range(group, group + 1))
            if limits is None:
                deque(batches, maxlen=0)
                continue
            tally = TableTally(limits)
            for batch in batches:
                tally.add(batch)
            decoded += tally.bytes
            if decoded > max(limits.most_decoded_bytes, LARGEST_RATIO * self._container.size):
                needed = f"at most {LARGEST_RATIO:,} times its size: give fewer rows, as parts"
                raise TooLarge(f"{WHAT}: more than {decoded:,} bytes when decoded given, {needed}")
        return replace(self.manifest, sha256=digest)

    def verify_bytes(self) -> str:
        """Check every byte without decrypting a row; return the file's SHA-256."""
        return self._container.verify()

    def fingerprint(self, key: bytes) -> str:
        """Digest inputs and labels, whatever their order: the same rows sealed again show.

        Without inputs the ids stand for them, and without ids the row numbers. Ids alone that
        merely count on are anybody's: then the meter is part of it.
        """
        (whole,) = self.fingerprints(key, [self.rows])
        return whole

    def fingerprints(self, key: bytes, sizes: Sequence[int]) -> list[str]:
        """Return the fingerprints that batches of these sizes have, each sealed by itself."""
        label = self.manifest.label.name
        columns = self.inputs or tuple(filter(None, [self.manifest.id_column]))
        runs = _runs(self.batches((*columns, label)), sizes)
        if not columns:
            columns = (f"number of {label}",)
            runs = (_numbered(run, *columns) for run in runs)

        def digest(run: Iterator[pa.RecordBatch]) -> str:
            bound = key
            if not self.inputs and label == NO_LABEL:
                batches = list(run)
                run = iter(batches)
                if _count_on([batch.column(0) for batch in batches]):
                    bound = hmac.digest(key, self.manifest.meter.encode(), "sha256")
            return content_digest(row_digests(run, (*columns, label), bound), bound)

        return [digest(run) for run in runs]

    def export(self, destination: Path) -> None:
        """Write the test set in the clear, for its release, in the format that the name says.

        Everything is verified first, and the name appears only when the file is whole.
        """
        check_ending(destination)
        self.verify()
        write_table(destination, self.schema, self.batches())

    def close(self) -> None:
        """Let go of the file."""
        self._container.close()


def _runs(
    batches: Iterator[pa.RecordBatch], sizes: Sequence[int]
) -> Iterator[Iterator[pa.RecordBatch]]:
    """Cut rows into runs of these sizes; each is read to its end before the next."""
    rest: pa.RecordBatch | None = None

    def run(rows: int) -> Iterator[pa.RecordBatch]:
        nonlocal rest
        while rows > 0 and (batch := next(batches, None) if rest is None else rest) is not None:
            rest = batch.slice(rows) if batch.num_rows > rows else None
            yield batch.slice(0, rows)
            rows -= batch.num_rows

    return map(run, sizes)


def _count_on(ids: Sequence[pa.Array]) -> bool:
    """Whether ids are whole numbers that follow each other."""
    try:
        numbers = np.concatenate([np.asarray(each.cast(pa.int64())) for each in ids])
    except pa.ArrowInvalid:
        return False
    return int(numbers.max()) - int(numbers.min()) + 1 == len(numbers)


def _numbered(batches: Iterator[pa.RecordBatch], name: str) -> Iterator[pa.RecordBatch]:
    rows = 0
    for batch in batches:
        numbers = pa.array(np.arange(rows, rows + batch.num_rows))
        yield batch.append_column(name, numbers)
        rows += batch.num_rows
