"""The text form of ids and labels: the same text for the same value, whatever the file.

docs/data.md has the same table for users.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from easeml_meter.errors import InvalidInput
from easeml_meter.tables.wording import excerpt


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
