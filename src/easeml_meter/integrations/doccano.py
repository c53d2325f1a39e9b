"""Rows from the JSON Lines of doccano's text classification."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from easeml_meter.errors import InvalidInput
from easeml_meter.integrations.sourcing import (
    Example,
    Rows,
    WantedColumns,
    gather,
    no_label,
    only,
    records,
)

_ADDED = ("id", "Comments")
"""What doccano adds to an example."""


def rows(path: Path, wanted: WantedColumns) -> Rows:
    """Return one row for each example; annotators who worked apart are in several exports."""
    found = records(path)
    if not all(wanted.label in each for each in found):
        raise no_label(wanted.label, {name for each in found for name in each})
    return gather([_example(each, wanted) for each in found], wanted)


def _example(record: dict[str, Any], wanted: WantedColumns) -> Example:
    labels = record[wanted.label]
    if isinstance(labels, list) and any(isinstance(each, list | dict) for each in labels):
        raise InvalidInput(f"{wanted.label!r} has spans of a text; one label for each text needed")
    inputs = {name: value for name, value in record.items() if name not in (*_ADDED, wanted.label)}
    return Example(inputs, [only(labels)], record.get("id"))
