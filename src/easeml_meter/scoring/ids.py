"""The committed order of rows: ids compared one by one, or by a digest of them all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from easeml_meter.errors import InvalidInput
from easeml_meter.tables.order import OrderDigest
from easeml_meter.tables.spelling import as_texts
from easeml_meter.tables.wording import excerpt


class Order:
    """Checks, batch by batch, that ids come in the committed order."""

    def __init__(self, committed: Iterable[Any] | None, digest: str | None) -> None:
        self._committed = None if committed is None else _Texts(iter(committed))
        self._expected, self._digest = digest, OrderDigest()

    def check(self, ids: Any, first_row: int) -> None:
        """Compare a batch; the committed ids themselves are never told."""
        texts = as_texts(ids)
        if self._expected is not None:
            self._digest.update(texts)
        if self._committed is None:
            return
        wanted = self._committed.take(len(texts))
        same = np.zeros(len(texts), dtype=bool)
        compared = pc.equal(texts.slice(0, len(wanted)), wanted)
        same[: len(wanted)] = compared.to_numpy(zero_copy_only=False)
        if not same.all():
            index = int(np.argmin(same))
            given = excerpt(texts[index].as_py())
            line = f"row {first_row + index}: id {given} given, another one is next"
            raise InvalidInput(f"{line}: keep the rows in the order of the inputs")

    def finish(self) -> None:
        """Compare the digest of all."""
        if self._expected is not None and self._digest.hexdigest() != self._expected:
            raise InvalidInput("ids in another order: keep the rows in the order of the inputs")


class _Texts:
    """Committed ids, taken in pieces of any size."""

    def __init__(self, arrays: Iterator[Any]) -> None:
        self._arrays, self._rest = arrays, as_texts(pa.array([], pa.string()))

    def take(self, count: int) -> Any:
        pieces, missing = [self._rest.slice(0, count)], count - len(self._rest)
        self._rest = self._rest.slice(count)
        while missing > 0 and (ids := next(self._arrays, None)) is not None:
            texts = as_texts(ids)
            pieces.append(texts.slice(0, missing))
            self._rest = texts.slice(missing)
            missing -= len(pieces[-1])
        return pa.concat_arrays(pieces)
