"""Rows from the records of Argilla, as `records.to_list(flatten=True)` gives them.

`records.to_json` leaves out which answers are drafts or discarded, so it is refused.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from easeml_meter.errors import InvalidInput
from easeml_meter.integrations.sourcing import (
    OWN_ID,
    Example,
    LeftOut,
    Rows,
    WantedColumns,
    gather,
    no_label,
    only,
    records,
)

_ADDED = (OWN_ID, "status", "_server_id")
_RESPONSES = ".responses"


def rows(path: Path, wanted: WantedColumns) -> Rows:
    """Return one row for each record, by the submitted answers to one question."""
    found = records(path)
    if any("fields" in each for each in found):
        why = "records.to_json does not say which answers are drafts"
        raise InvalidInput(f"{why}: write json.dumps(dataset.records.to_list(flatten=True))")
    questions = {
        name.removesuffix(_RESPONSES) for each in found for name in each if _RESPONSES in name
    }
    if wanted.label not in questions:
        raise no_label(wanted.label, {each for each in questions if "." not in each})
    return gather([_example(each, wanted.label) for each in found], wanted)


def _example(record: dict[str, Any], question: str) -> Example:
    given = record.get(question + _RESPONSES) or []
    states = record.get(f"{question}{_RESPONSES}.status") or []
    if len(given) != len(states):
        raise InvalidInput("answers without their status: no export of Argilla 2.8")
    answers = [_answer(value, state) for value, state in zip(given, states, strict=True)]
    # What questions, suggestions and their scores are called has a dot in it.
    fields = {
        name: value for name, value in record.items() if "." not in name and name not in _ADDED
    }
    return Example(fields, answers, record.get(OWN_ID))


def _answer(value: Any, status: str) -> Any:
    if status == "discarded":
        return LeftOut.SKIPPED
    return only(value) if status == "submitted" else LeftOut.UNLABELLED
