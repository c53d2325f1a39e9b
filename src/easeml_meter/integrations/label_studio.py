"""Rows from the exports of Label Studio: JSON, JSON_MIN and CSV.

JSON has tasks with all their annotations. JSON_MIN and CSV have one row for each annotation, and do
not say which columns are data of the task and which are what annotators said.
"""

from __future__ import annotations

import json
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

_SINGLE = ("choices", "rating", "number", "text", "datetime")
"""Kinds of controls that say one thing of a whole task."""
_UNCOUNTED = "skipped tasks, which only an export as JSON has"


def rows(path: Path, wanted: WantedColumns) -> Rows:
    """Return one row for each task."""
    # As written: 007 is no number, and NA may be a label.
    found = records(path, texts=(wanted.label, wanted.id_column, OWN_ID, *wanted.others))
    if all("data" in each and "annotations" in each for each in found):
        return _from_tasks(found, wanted)
    return _from_annotations(found, wanted)


def _from_tasks(tasks: list[dict[str, Any]], wanted: WantedColumns) -> Rows:
    given = [each for task in tasks for each in task["annotations"]]
    controls = {str(said.get("from_name")) for each in given for said in each.get("result", ())}
    if wanted.label not in controls:
        raise no_label(wanted.label, controls)
    examples = []
    for task in tasks:
        given = task["annotations"]
        # An annotation that its owner marked as the truth counts alone.
        truth = [each for each in given if each.get("ground_truth") and not _skipped(each)]
        answers = [_answer(each, wanted.label) for each in truth or given]
        examples.append(Example(task["data"], answers, task.get("id")))
    return gather(examples, wanted)


def _skipped(annotation: dict[str, Any]) -> bool:
    return bool(annotation.get("was_cancelled"))


def _answer(annotation: dict[str, Any], control: str) -> Any:
    if _skipped(annotation):
        return LeftOut.SKIPPED
    said = [each for each in annotation.get("result", ()) if each.get("from_name") == control]
    for each in said:
        kind = each.get("type")
        # What is said of a region (perRegion) repeats where that is.
        if kind not in _SINGLE or set(each["value"]) - {kind}:
            of = "regions" if kind in _SINGLE else kind
            needed = f"controls that say one thing of a task ({', '.join(_SINGLE)})"
            raise InvalidInput(f"{control!r} is a control of {of}, {needed} needed")
    if len(said) > 1:
        return LeftOut.SEVERAL
    return only(said[0]["value"].get(said[0]["type"])) if said else LeftOut.UNLABELLED


def _from_annotations(found: list[dict[str, Any]], wanted: WantedColumns) -> Rows:
    known = {name for each in found for name in each}
    if wanted.label not in known:
        raise no_label(wanted.label, known)
    if OWN_ID not in known or "annotation_id" not in known:
        raise InvalidInput("no export of Label Studio: JSON, JSON_MIN or CSV needed")
    if wanted.columns is None:
        why = "this kind of export does not tell data from annotations"
        raise InvalidInput(f"{why}: name the inputs with --columns, or export as JSON")
    tasks: dict[Any, list[dict[str, Any]]] = {}
    for each in found:
        tasks.setdefault(each[OWN_ID], []).append(each)
    kept = {*wanted.columns, *wanted.others, wanted.id_column} - {None}
    examples = [
        Example(
            {name: value for name, value in each[0].items() if name in kept and name != OWN_ID},
            [_plain(row.get(wanted.label)) for row in each],
            task,
        )
        for task, each in tasks.items()
    ]
    table, left_out = gather(examples, wanted)
    return table, left_out | {_UNCOUNTED: 0}


def _plain(cell: Any) -> Any:
    """Read what a row says: "spam", {"choices": ["a", "b"]} or [{"rating": 3}], by case."""
    if isinstance(cell, str) and cell[:1] in ("{", "["):
        try:
            return _plain(json.loads(cell))
        except ValueError:
            return cell
    if isinstance(cell, list) and len(cell) == 1:
        return _plain(cell[0])
    if isinstance(cell, dict):
        return only(next((cell[kind] for kind in _SINGLE if kind in cell), None))
    return only(cell)
