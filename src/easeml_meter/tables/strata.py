"""Strata of rows, such as regions: each is a sample of its own, and has a weight in the loss."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from easeml_meter.errors import InvalidInput
from easeml_meter.tables.clusters import Clusters
from easeml_meter.tables.spelling import as_texts
from easeml_meter.tables.wording import excerpt


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
        """Read batches of that column.

        Raises:
            InvalidInput: a row is in none of the strata, or a stratum has no row.
        """
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
