"""Rows in groups: clusters of rows that belong together, and strata such as regions.

Rows of a cluster, such as the questions about one document, are not independent, so one example is
a cluster: its loss is the mean of its rows'. Each stratum is a sample of its own, and has a weight
in the loss.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from easeml_meter.errors import InvalidInput
from easeml_meter.tables.source import excerpt
from easeml_meter.tables.spelling import as_texts

LARGEST = 1 << 22
"""Rows of a cluster: so many losses are summed exactly."""


@dataclass(frozen=True)
class Clusters:
    """Which cluster each row of a table is in, by numbers from 0 on."""

    codes: NDArray[np.int64] = field(repr=False)
    count: int

    @classmethod
    def of(cls, columns: Iterable[Any]) -> Clusters:
        """Number the clusters that the batches of a column name."""
        texts = [as_texts(each, "clusters") for each in columns]
        named = pa.chunked_array(texts, pa.large_string()).combine_chunks().dictionary_encode()
        codes = named.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        found = cls(codes, len(named.dictionary))
        if len(codes) and found.sizes.max() > LARGEST:
            raise InvalidInput(f"clusters: one of more than {LARGEST:,} rows given: split it")
        return found

    @cached_property
    def sizes(self) -> NDArray[np.int64]:
        """The number of rows of each cluster."""
        return np.bincount(self.codes, minlength=self.count).astype(np.int64)

    def part(self, start: int, stop: int) -> Clusters:
        """Return the clusters of some rows, with the same numbers."""
        return Clusters(self.codes[start:stop], self.count)

    def means(self, totals: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the mean of each cluster, to the nearest whole number, given its total."""
        whole, rest = np.divmod(totals, self.sizes)
        nearest: NDArray[np.int64] = whole + (2 * rest >= self.sizes)
        return nearest


@dataclass(frozen=True)
class Strata(Clusters):
    """Which stratum each row of a table is in, by its place among those of the meter."""

    weights: tuple[Fraction, ...] = ()

    def part(self, start: int, stop: int) -> Strata:
        """Return the strata of some rows, with the same numbers."""
        return replace(self, codes=self.codes[start:stop])

    def weighed(self, totals: NDArray[Any]) -> Fraction:
        """Return the sum of weight times mean, given the total of each stratum."""
        means = zip(self.weights, totals.tolist(), self.sizes.tolist(), strict=True)
        return sum((weight * Fraction(total) / size for weight, total, size in means), Fraction(0))


@dataclass(frozen=True)
class StrataNamed:
    """The strata of a meter: the column that says which one a row is in, names and weights."""

    column: str
    names: tuple[str, ...]
    weights: tuple[Fraction, ...]

    def of(self, batches: Iterable[pa.RecordBatch]) -> Strata:
        """Read batches of that column."""
        texts = [as_texts(each.column(self.column), "strata") for each in batches]
        named = pa.chunked_array(texts, pa.large_string()).combine_chunks()
        places = pc.index_in(named, value_set=pa.array(self.names, pa.large_string()))
        if places.null_count:
            row = int(np.argmax(places.is_null().to_numpy(zero_copy_only=False)))
            shown = ", ".join(self.names[:5]) + (", ..." if len(self.names) > 5 else "")
            given = excerpt(named[row].as_py(), 40)
            raise InvalidInput(f"row {row + 1}: stratum {given} given, one of {shown} needed")
        codes = places.to_numpy(zero_copy_only=False).astype(np.int64)
        found = Strata(codes, len(self.names), self.weights)
        for name, size in zip(self.names, found.sizes.tolist(), strict=True):
            if not size:
                raise InvalidInput(f"stratum {excerpt(name, 40)}: 0 rows given, 1 or more needed")
        return found
