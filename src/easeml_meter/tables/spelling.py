"""The text form of ids and labels: the same text for the same value, whatever the file.

docs/data.md has the same table for users.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pyarrow as pa

from easeml_meter.errors import InvalidInput
from easeml_meter.tables.source import excerpt


def as_texts(column: Any, what: str = "ids") -> Any:
    """Return a column as text: text as it is, whole numbers in digits, true and false.

    A fraction has no text form: 0.5, 0.50 and 5e-1 are one number and three texts, and which of
    them another file has cannot be known. `what` names the column in a refusal.
    """
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    elif not isinstance(column, pa.Array):
        column = pa.array(column)
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    kind = column.type
    if not (is_text(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind)):
        raise InvalidInput(f"{what}: type {excerpt(kind)} given, whole numbers or text needed")
    if column.null_count:
        raise InvalidInput(f"{what}: one is missing, each row needs one")
    return column.cast(pa.large_string())


_TEXTS = {kind.id for kind in (pa.string(), pa.large_string(), pa.string_view())}


def is_text(kind: pa.DataType) -> bool:
    """Whether a type is one of those of text."""
    return kind.id in _TEXTS


class OrderDigest:
    """An unkeyed digest of ids in their order, fed array by array. Ids are public.

    SHA-256 over the SHA-256 of all ids as text and that of their lengths (8 bytes, little
    endian): 7 is the same id in every format, and how they are split into arrays does not matter.
    """

    def __init__(self) -> None:
        self._content = hashlib.sha256()
        self._lengths = hashlib.sha256()

    def update(self, ids: Any) -> None:
        """Go on with these ids: whole numbers or text."""
        texts = as_texts(ids)
        if not len(texts):
            return
        _, ends, content = texts.buffers()
        bounds = np.frombuffer(ends, np.int64)[texts.offset : texts.offset + len(texts) + 1]
        self._lengths.update(np.diff(bounds).astype("<i8").data)
        if content is not None:
            self._content.update(memoryview(content)[bounds[0] : bounds[-1]])

    def hexdigest(self) -> str:
        """Return the digest of all ids so far."""
        return hashlib.sha256(self._content.digest() + self._lengths.digest()).hexdigest()
