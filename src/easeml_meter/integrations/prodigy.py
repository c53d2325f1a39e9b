"""Rows from what `prodigy db-out` writes: one line for each answer of an annotator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from easeml_meter.errors import InvalidInput
from easeml_meter.integrations.sourcing import (
    Example,
    LeftOut,
    Rows,
    WantedColumns,
    gather,
    only,
    records,
)

_ADDED = ("accept", "answer", "config", "label", "meta", "options", "spans", "tokens")
"""What Prodigy adds to an example, besides names that begin with "_"."""


def rows(path: Path, wanted: WantedColumns) -> Rows:
    """Return one row for each input; the label is what was accepted, under the name asked for."""
    inputs: dict[Any, list[dict[str, Any]]] = {}
    for each in records(path):
        if "answer" not in each or "_input_hash" not in each:
            raise InvalidInput("no export of Prodigy: write it with prodigy db-out")
        inputs.setdefault(each["_input_hash"], []).append(each)
    examples = [
        Example(
            {
                name: value
                for name, value in each[0].items()
                if name not in _ADDED and not name.startswith("_")
            },
            _answers(each),
            own,
        )
        for own, each in inputs.items()
    ]
    return gather(examples, wanted)


def _answers(records: list[dict[str, Any]]) -> list[Any]:
    """Return what was said of one input; a label that as many rejected as accepted is none."""
    rejected = [each.get("label") for each in records if each["answer"] == "reject"]
    given = [_answer(each) for each in records]
    return [
        LeftOut.DISAGREE if given.count(each) <= rejected.count(each) else each for each in given
    ]


def _answer(record: dict[str, Any]) -> Any:
    if record["answer"] == "reject":  # it says what the label is not
        return LeftOut.REJECTED
    if record["answer"] != "accept":
        return LeftOut.SKIPPED
    return only(record.get("accept", record.get("label")))
