"""Labelled rows from the exports of labeling tools: one row for each example, and what is left out.

An example that annotators skip, or disagree about, is often a hard one. Without it the sample is no
longer random, so what is left out is counted, and whoever seals has to accept it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Any

import pyarrow as pa

from easeml_meter.errors import InvalidInput, MeterError
from easeml_meter.integrations.registry import Group, find
from easeml_meter.tables.memory import as_source
from easeml_meter.tables.opening import open_table
from easeml_meter.tables.source import Held, Source, about, excerpt, named, no_column, some

OWN_ID = "id"
"""What `--id` calls the tool's own id of an example, unless an input has that name."""


class LeftOut(Enum):
    """Why an example has no label; no text, since a label may be called "rejected"."""

    DISAGREE = "annotators disagree"
    SKIPPED = "skipped"
    UNLABELLED = "not labelled"
    SEVERAL = "more than one label"
    REJECTED = "rejected"


@dataclass(frozen=True)
class WantedColumns:
    """What `meter seal` was asked for."""

    label: str
    """The name of the label: of a control, question or column of the tool."""
    id_column: str | None = None
    columns: Sequence[str] | None = None
    """The inputs; None: all that the export has."""
    usage: str | None = None
    """Which rows of a Kaggle solution."""
    others: Sequence[str] = ()
    """What else sealing asks for by name: clusters, a judge's words, what it leaves out."""


@dataclass(frozen=True)
class Example:
    """What annotators said of one example: a label each, or why there is none."""

    inputs: Mapping[str, Any]
    answers: Sequence[Any]
    own_id: Any = None


Rows = tuple[pa.Table, dict[str, int]]
"""One row for each example, and how many are left out for which reason; 0: an unknown number."""


def rows_from(
    name: str, path: Path, wanted: WantedColumns, *, allow_left_out: bool
) -> tuple[Source, str]:
    """Return the rows of an export as a file to seal, and a line about what is left out.

    Raises:
        InvalidInput: the export cannot be read, or something is left out that was not accepted.
    """
    source = find(Group.SOURCES, name)
    with about(path):
        table, left_out = _read(name, source, path, wanted)
    if not left_out:
        return _held(table, path), ""
    total = table.num_rows + sum(left_out.values())
    reasons = ", ".join(
        f"{count:,} {reason}" if count else reason for reason, count in left_out.items()
    )
    line = f"{table.num_rows:,} of {total:,} examples; left out: {reasons}"
    if not allow_left_out:
        why = "without the hard ones the sample is no longer random"
        raise InvalidInput(f"{named(path)}: {line}: {why}; --allow-left-out to go on")
    return _held(table, path), line


def _read(name: str, source: Any, path: Path, wanted: WantedColumns) -> Rows:
    """Refuse in one line whatever a source trips over: an export may hold anything."""
    try:
        found: Rows = source(path, wanted)
    except MeterError:
        raise
    except Exception as error:
        reason = excerpt(f"{type(error).__name__}: {error}", 100)
        raise InvalidInput(f"no export of {name} that can be read ({reason})") from None
    if not found[0].num_rows:
        raise InvalidInput(f"no example has a label ({', '.join(found[1])})")
    return found


def _held(table: pa.Table, path: Path) -> Source:
    held = as_source(table, "rows", a_set=True)
    return replace(held, title=named(path)) if isinstance(held, Held) else held


def gather(examples: Sequence[Example], wanted: WantedColumns) -> Rows:
    """Give each example one label, and count those that have none."""
    if wanted.id_column is None:  # else sealing refuses ids that repeat
        # What stands there twice, as in exports put together, would be counted so in the sample.
        own_ids = Counter(str(each.own_id) for each in examples if each.own_id is not None)
        if repeated := [each for each, count in own_ids.items() if count > 1]:
            which = f"examples given more than once (own id {some(repeated, 3)})"
            raise InvalidInput(f"{which}: export each once, or tell them apart with --id NAME")
    rows, left_out = [], Counter[str]()
    # Either kind of id for all examples: of both together, two may be the same.
    own = wanted.id_column == OWN_ID and all(OWN_ID not in each.inputs for each in examples)
    for each in examples:
        label = _vote(each.answers)
        if isinstance(label, LeftOut):
            left_out[label.value] += 1
            continue
        if wanted.label in each.inputs:
            raise InvalidInput(f"{wanted.label!r} is the label and an input: rename one of them")
        ids = {OWN_ID: each.own_id} if own and each.own_id is not None else {}
        rows.append({**each.inputs, **ids, wanted.label: label})
    # Of all rows: the first may lack an input that others have.
    inputs = dict.fromkeys(name for row in rows for name in row if name != wanted.label)
    try:
        table = pa.table(
            {name: [row.get(name) for row in rows] for name in (*inputs, wanted.label)}
        )
    except pa.ArrowException:
        raise InvalidInput("values of one input or label are of several kinds") from None
    return table, dict(left_out)


def _vote(answers: Sequence[Any]) -> Any:
    """Return the label that most annotators gave; a tie is none."""
    silent = (LeftOut.SKIPPED, LeftOut.UNLABELLED, LeftOut.REJECTED)
    votes = Counter(each for each in answers if each not in silent)
    if not votes:
        return next((each for each in silent if each in answers), LeftOut.UNLABELLED)
    (first, most), *others = votes.most_common(2)
    return LeftOut.DISAGREE if others and others[0][1] == most else first


def only(labels: Any) -> Any:
    """Return the one label of a list, or why there is none."""
    if not isinstance(labels, list):
        return LeftOut.UNLABELLED if labels is None or labels == "" else labels
    if len(labels) == 1:
        return only(labels[0])
    return LeftOut.SEVERAL if labels else LeftOut.UNLABELLED


def records(path: Path, texts: Sequence[str | None] | None = None) -> list[dict[str, Any]]:
    """Read an export: a JSON array, JSON Lines, or a table.

    `texts` are columns of CSV that stay as they are written; without it, CSV is refused: a cell
    does not say whether it has one label or several.
    """
    ending = path.suffix.lower()
    if ending not in (".json", ".jsonl", ".ndjson"):
        if texts is None and ending in (".csv", ".tsv"):
            raise InvalidInput(f"{ending} given: export it as JSON, which tells labels apart")
        kept = [name for name in texts or () if name is not None]
        found: list[dict[str, Any]] = open_table(path, texts=kept).in_memory().to_pylist()
        return found
    try:
        text = path.read_text(encoding="utf-8-sig")
        read = (
            json.loads(text)
            if ending == ".json"
            else [json.loads(line) for line in text.split("\n") if line.strip()]
        )
    except OSError as error:
        raise InvalidInput(f"cannot be read: {error.strerror or error}") from None
    except (ValueError, RecursionError):  # JSON that is none, or bytes that are no UTF-8
        raise InvalidInput("no JSON: export it again") from None
    if not isinstance(read, list) or not all(isinstance(each, dict) for each in read):
        raise InvalidInput("no list of examples: is it an export of this tool?")
    if not read:
        raise InvalidInput("no examples in it")
    return read


def no_label(wanted: str, known: Iterable[str]) -> InvalidInput:
    """Say that the export has no such label, and which one was probably meant."""
    return InvalidInput(no_column(wanted, sorted(known)).replace("no column", "no label", 1))
