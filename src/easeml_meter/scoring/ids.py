"""The committed order of rows: ids compared one by one, or by a digest of them all."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from easeml_meter.errors import InvalidInput
from easeml_meter.scoring.wording import excerpt


class IdsDigest:
    """A digest of ids in their order, the same however they are split into arrays."""

    def __init__(self) -> None:
        self._bytes = hashlib.sha256()
        self._lengths = hashlib.sha256()

    def add(self, ids: Any) -> None:
        """Go on with these ids."""
        texts = as_texts(ids)
        if not len(texts):
            return
        _, ends, content = texts.buffers()
        bounds = np.frombuffer(ends, np.int64)[texts.offset : texts.offset + len(texts) + 1]
        self._lengths.update(np.diff(bounds).astype("<i8").tobytes())
        if content is not None:
            self._bytes.update(memoryview(content)[bounds[0] : bounds[-1]])

    def hexdigest(self) -> str:
        """Give the digest of all ids so far."""
        return hashlib.sha256(self._bytes.digest() + self._lengths.digest()).hexdigest()


def ids_digest(arrays: Iterable[Any]) -> str:
    """Give the digest of ids in their order."""
    digest = IdsDigest()
    for ids in arrays:
        digest.add(ids)
    return digest.hexdigest()


def as_texts(ids: Any) -> Any:
    """Give ids as text, so that 7 is the same id in every format."""
    if isinstance(ids, pa.ChunkedArray):
        ids = ids.combine_chunks()
    elif not isinstance(ids, pa.Array):
        ids = pa.array(ids)
    if pa.types.is_dictionary(ids.type):
        ids = ids.dictionary_decode()
    kind = ids.type
    text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    if not (text or pa.types.is_string_view(kind) or pa.types.is_integer(kind)):
        raise InvalidInput(f"ids: type {excerpt(kind)} given, text or whole numbers needed")
    if ids.null_count:
        raise InvalidInput("ids: one is missing, each row needs one")
    return ids.cast(pa.large_string())


class Order:
    """Checks, batch by batch, that ids come in the committed order."""

    def __init__(self, committed: Iterable[Any] | None, digest: str | None) -> None:
        self._committed = None if committed is None else _Texts(iter(committed))
        self._expected, self._digest = digest, IdsDigest()

    def check(self, ids: Any, first_row: int) -> None:
        """Compare a batch; the committed ids themselves are never told."""
        texts = as_texts(ids)
        if self._expected is not None:
            self._digest.add(texts)
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
