"""Clusters of rows that belong together, such as the questions about one document.

Such rows are not independent, so one example is a cluster: its loss is the mean of its rows'.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from easeml_meter.errors import InvalidInput
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
        """Number the clusters that the batches of a column name.

        Raises:
            InvalidInput: a name is missing, or no text or whole number; or a cluster is too large.
        """
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
