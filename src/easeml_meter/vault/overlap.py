"""Which rows of a test set stand in another set, told by keyed digests, and how much of it does.

Within a meter ids identify rows: an id that comes again with the same inputs is the same example.
Inputs alone may repeat by chance, so those that stand once in each set are counted, and people
decide.

Ids and column names of different meters mean nothing to each other, so how much of one test set
stands in another (`likeness`) is asked whatever columns are called. Inputs that repeat within a set
may be equal by chance, so without ids only rows that occur once count. By chance, a value that
occurs once here occurs once in an independent sample with probability at most (1 - 1/n)**(n - 1),
near 1/e: more than `LARGEST_SHARE` of the rows is no coincidence.
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
    repeated_rows,
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
    """Rows whose inputs stand once in either set, whatever their ids."""

    @property
    def rows(self) -> RowNumbers:
        """Rows that stand in the other set."""
        return np.union1d(self.again, self.inputs)


def compare(rows: Rows, others: Rows) -> Shared:
    """Compare the rows of a test set with those of another set of the same meter."""
    common = [name for name in rows.inputs if name in others.inputs]
    mine, theirs = (each.digests(common) if common else None for each in (rows, others))
    # An age and a sex repeat by chance: only inputs that tell rows of a set apart are evidence.
    inputs = _NONE
    if mine is not None and theirs is not None:
        once = np.delete(theirs, repeated_rows(theirs) - 1, axis=0)
        inputs = np.setdiff1d(shared_rows(mine, once), repeated_rows(mine))
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


LARGEST_SHARE = 0.5
"""A test set that shares more of its rows with one of another meter is refused."""

LEAST_ROWS = 20
"""Fewer equal rows than this may be a coincidence."""

_ALIKE = 0.25
"""The share of these values that columns of the same content have in common, at least."""

_MOST_RENAMED = 64
"""Columns of each set that are looked for under other names."""

Pairs = tuple[tuple[str, str], ...]


def likeness(rows: Rows, others: Rows) -> float:
    """Return how much of the smaller of two sets stands in the other, from 0 to 1.

    Columns that are constant in their set tell no rows apart and are left out. At least half of
    the columns of the set that has fewer must be found in the other: two sets about the same
    customers are not the same rows.
    """
    mine, theirs = rows.sketches, others.sketches
    fewer = min(len(mine), len(theirs))
    ways = {_namesakes(mine, theirs), _alike(mine, theirs)}
    enough = [pairs for pairs in ways if pairs and 2 * len(pairs) >= fewer]
    return max((_share_on(rows, others, pairs) for pairs in enough), default=0.0)


def repeated(rows: Rows, others: Rows) -> float:
    """Return how much of the smaller of two parts stands in the other, told by equal inputs.

    They have the same columns. Inputs that repeat within a part may be equal by chance: they count
    as rows that are not found.
    """
    if not rows.inputs:
        return 0.0
    mine, theirs = (each.digests(rows.inputs) for each in (rows, others))
    common = len(np.intersect1d(_once(mine), _once(theirs), assume_unique=True))
    return common / max(1, min(len(mine), len(theirs)))


def _namesakes(mine: Sketches, theirs: Sketches) -> Pairs:
    return tuple((name, name) for name in sorted(mine) if name in theirs)


def _alike(mine: Sketches, theirs: Sketches) -> Pairs:
    """Pair the columns with the same content: namesakes first, then whatever they are called."""
    pairs = [(a, b) for a, b in _namesakes(mine, theirs) if _similar(mine[a], theirs[b]) > _ALIKE]
    left = [name for name in mine if (name, name) not in pairs][:_MOST_RENAMED]
    free = [name for name in theirs if (name, name) not in pairs][:_MOST_RENAMED]
    for name in left:
        scores = [_similar(mine[name], theirs[other]) for other in free]
        if scores and max(scores) > _ALIKE:
            pairs.append((name, free.pop(int(np.argmax(scores)))))
    return tuple(sorted(pairs))


def _similar(mine: NDArray[np.uint64], theirs: NDArray[np.uint64]) -> float:
    """Estimate which share of the values of one column stands in the other, as far as both go."""
    end = min(mine[-1], theirs[-1])
    mine, theirs = mine[mine <= end], theirs[theirs <= end]
    common = len(np.intersect1d(mine, theirs, assume_unique=True))
    return common / max(1, min(len(mine), len(theirs)))


def _share_on(rows: Rows, others: Rows, pairs: Pairs) -> float:
    """Compare the rows on these columns, and where both have ids, on id and columns."""
    names = [name for name, _ in pairs]
    mine = rows.digests(names)
    theirs = others.digests([other for _, other in pairs], called=names)
    shares = [_share(_once(mine), _once(theirs))]
    if rows.ids is not None and others.ids is not None:
        with_ids = (paired(rows.ids, mine), paired(others.ids, theirs))
        share = _share(*(np.unique(each[:, 0]) for each in with_ids))
        # Sets that are both numbered from 1 agree by chance where few inputs are possible.
        chance = _chance(mine, theirs)
        shares.append((share - chance) / (1 - chance) if chance < 1 else 0.0)
    return max(shares)


def _chance(mine: Digests, theirs: Digests) -> float:
    """Return how likely it is that two rows, one of each set, have equal inputs."""
    values, counts = np.unique(mine[:, 0], return_counts=True)
    others, frequencies = np.unique(theirs[:, 0], return_counts=True)
    _, here, there = np.intersect1d(values, others, assume_unique=True, return_indices=True)
    return float(np.dot(counts[here] / len(mine), frequencies[there] / len(theirs)))


def _once(digests: Digests) -> NDArray[np.uint64]:
    values, counts = np.unique(digests[:, 0], return_counts=True)
    once: NDArray[np.uint64] = values[counts == 1]
    return once


def _share(mine: NDArray[np.uint64], theirs: NDArray[np.uint64]) -> float:
    common = len(np.intersect1d(mine, theirs, assume_unique=True))
    return common / min(len(mine), len(theirs)) if common >= LEAST_ROWS else 0.0
