"""What everyone may know of a sealed test set: its manifest, without anything secret."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa

VERSION = 1


@dataclass(frozen=True)
class Column:
    """A column's name and declared type."""

    name: str
    type: str


@dataclass(frozen=True, repr=False)
class Manifest:
    """A sealed test set in words and numbers, none of which depends on a label's value."""

    version: int
    meter: str
    generation: int
    rows: int
    row_groups: int
    columns: tuple[Column, ...]
    label: Column
    id_column: str | None
    order_digest: str | None
    """Digest of the ids in their order (`OrderDigest`); None without ids."""
    created: str
    sha256: str
    """Of the sealed file."""
    batch_rows: tuple[int, ...] = ()
    """Rows of each batch of a window, the oldest first; empty: not joined from batches."""
    cluster_column: str | None = None
    """The column of clusters, where one example is a cluster of rows."""
    clusters: int | None = None
    """How many there are; None until they were counted."""

    def __repr__(self) -> str:
        return f"<Manifest: {self.rows:,} rows, sealed as test set {self.generation}>"

    @property
    def examples(self) -> int:
        """How many examples there are: clusters, or rows."""
        return self.rows if self.clusters is None else self.clusters

    def to_dict(self) -> dict[str, Any]:
        """Return the manifest as JSON has it."""
        fields: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        return fields


def describe(
    notes: Mapping[str, Any],
    stored: pa.Schema,
    meter: str,
    generation: int,
    *,
    rows: int,
    row_groups: int,
    sha256: str,
) -> Manifest:
    """Make the manifest of a container from its notes: the same for who seals and who opens.

    Raises:
        ValueError: the notes do not fit the columns. Whoever seals a file writes them as they like.
    """
    names, label, id_column = stored.names, notes["label"], notes["id_column"]
    if len({*names}) < len(names) or label not in names or id_column not in (None, *names):
        raise ValueError("the notes are of other columns")
    cluster = notes.get("cluster")
    if cluster is not None and (cluster not in names or cluster in (label, id_column)):
        raise ValueError("no such column of clusters")
    if label == id_column or not isinstance(notes["created"], str):
        raise ValueError("the notes contradict themselves")
    if not isinstance(notes["order_digest"], str | None):
        raise ValueError("no digest")
    batch_rows = tuple(notes["batch_rows"])
    if not all(type(each) is int and each > 0 for each in batch_rows):
        raise ValueError("no numbers of rows")
    if batch_rows and sum(batch_rows) != rows:
        raise ValueError("the batches are of other rows")
    coded = notes["classes"] is not None
    types = ["string" if coded and field.name == label else str(field.type) for field in stored]
    columns = tuple(map(Column, stored.names, types))
    return Manifest(
        version=VERSION,
        meter=meter,
        generation=generation,
        rows=rows,
        row_groups=row_groups,
        columns=columns,
        label=columns[names.index(label)],
        id_column=id_column,
        order_digest=notes["order_digest"],
        created=notes["created"],
        sha256=sha256,
        batch_rows=batch_rows,
        cluster_column=cluster,
    )
