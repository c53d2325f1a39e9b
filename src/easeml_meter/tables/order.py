"""Ids in their order, as one digest of them all."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from easeml_meter.tables.spelling import as_texts


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
