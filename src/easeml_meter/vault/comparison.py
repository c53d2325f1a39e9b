"""Which rows of a test set stand in another set, told by keyed digests.

Within a meter ids identify rows: an id that comes again with the same inputs is the same example.
Inputs alone may repeat by chance, so equal inputs are counted, and people decide.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from easeml_meter.tables.table import Table
from easeml_meter.vault.digests import (
    Digests,
    collect,
    duplicate_rows,
    id_digests,
    row_digests,
    shared_rows,
    value_digests,
)
from easeml_meter.vault.sealing import SealedTestSet

RowNumbers = NDArray[np.int64]
Sketches = dict[str, NDArray[np.uint64]]
_SKETCH = 1024
_NONE: RowNumbers = np.empty(0, np.int64)


@dataclass
class Rows:
    """The rows of one set, digested under one key when a comparison needs them."""

    inputs: tuple[str, ...]
    id_column: str | None
    batches: Callable[[Sequence[str]], Iterator[pa.RecordBatch]] = field(repr=False)
    key: bytes = field(repr=False)
    _digested: dict[tuple[tuple[str, ...], ...], Digests] = field(default_factory=dict, repr=False)

    @classmethod
    def of_sealed(cls, sealed: SealedTestSet, key: bytes) -> Rows:
        """Compare a sealed test set."""
        return cls(sealed.inputs, sealed.manifest.id_column, sealed.batches, key)

    @classmethod
    def of_table(cls, table: Table, label: str, id_column: str | None, key: bytes) -> Rows:
        """Compare a plain table; an id column that it does not have is none."""
        known = id_column if id_column in table.columns else None
        inputs = tuple(name for name in table.columns if name not in (label, known))
        return cls(inputs, known, table.batches, key)

    @cached_property
    def ids(self) -> Digests | None:
        """The digests of the ids; None without an id column."""
        return None if self.id_column is None else collect(id_digests(self.named(), self.key))

    def named(self) -> Iterator[Any]:
        """Read the ids once more, batch by batch."""
        if self.id_column is not None:
            yield from (batch.column(0) for batch in self.batches([self.id_column]))

    def digests(self, columns: Sequence[str], called: Sequence[str] = ()) -> Digests:
        """Digest some of the inputs of every row, as if these columns were `called` otherwise."""
        chosen, names = tuple(columns), tuple(called or columns)
        if (chosen, names) not in self._digested:
            renamed = (batch.rename_columns(list(names)) for batch in self.batches(chosen))
            self._digested[chosen, names] = collect(row_digests(renamed, names, self.key))
        return self._digested[chosen, names]

    @cached_property
    def sketches(self) -> Sketches:
        """The smallest digests of each input's distinct values; a constant column has none.

        They tell which columns of two sets have the same content, whatever they are called.
        """
        found: Sketches = {name: np.empty(0, np.uint64) for name in self.inputs}
        if found:
            for batch in self.batches(self.inputs):
                for name, before in found.items():
                    values = np.unique(value_digests(batch, name, self.key))
                    found[name] = np.union1d(before, values[:_SKETCH])[:_SKETCH]
        return {name: values for name, values in found.items() if len(values) > 1}

    def repeated_inputs(self) -> int:
        """Count the rows whose inputs stand in an earlier row, too."""
        return len(duplicate_rows(self.digests(self.inputs))) if self.inputs else 0


@dataclass(frozen=True)
class Shared:
    """What a test set shares with another set; rows are numbered from 1."""

    compared: bool
    """False: neither ids nor inputs can be compared."""
    again: RowNumbers = field(default_factory=lambda: _NONE)
    """Rows with an id of the other set, and the same inputs as far as both have them."""
    renumbered: RowNumbers = field(default_factory=lambda: _NONE)
    """Rows with an id of the other set, but other inputs."""
    inputs: RowNumbers = field(default_factory=lambda: _NONE)
    """Rows whose inputs stand in the other set, whatever their ids."""


def compare(rows: Rows, others: Rows) -> Shared:
    """Compare the rows of a test set with those of another set of the same meter."""
    common = [name for name in rows.inputs if name in others.inputs]
    mine, theirs = (each.digests(common) if common else None for each in (rows, others))
    inputs = _NONE if mine is None or theirs is None else shared_rows(mine, theirs)
    if rows.ids is None or others.ids is None:
        return Shared(bool(common), inputs=inputs)
    same_id = shared_rows(rows.ids, others.ids)
    if mine is None or theirs is None:
        return Shared(compared=True, again=same_id)
    if not len(same_id):
        return Shared(compared=True, inputs=inputs)
    again = shared_rows(paired(rows.ids, mine), paired(others.ids, theirs))
    return Shared(True, again, np.setdiff1d(same_id, again), inputs)


def paired(ids: Digests, inputs: Digests) -> Digests:
    """Return one digest of id and inputs; both are keyed, so nobody can aim at a collision."""
    paired: Digests = ids * np.uint64(0x9E37_79B9_7F4A_7C15) + inputs
    return paired
