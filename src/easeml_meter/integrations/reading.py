"""What readers make of the logs of other tools: a value for each id, checked before it is sent.

A reader is called `read(path, spec) -> Reading`. Whatever it refuses costs nothing, and nothing of
the file has left this machine by then.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from easeml_meter.errors import InvalidInput, MeterError
from easeml_meter.integrations.registry import Group, find
from easeml_meter.scoring.ids import RowMatching
from easeml_meter.scoring.losses import parse_loss
from easeml_meter.scoring.outputs import Expected
from easeml_meter.scoring.predictions import Predictions
from easeml_meter.service.submissions.kinds import PredictionFiles
from easeml_meter.spec import MeterSpec
from easeml_meter.tables.binary import COLUMN
from easeml_meter.tables.memory import ID, as_source
from easeml_meter.tables.source import Held, excerpt, named, some

_NAMED = 5


class OfOneCase(InvalidInput):
    """Something is wrong with one example, and the message may tell which it is."""


@dataclass(frozen=True)
class Reading:
    """What was found in one log: a score, or a completion, for each example."""

    ids: tuple[str, ...]
    values: tuple[float | str, ...] = field(repr=False)

    def __post_init__(self) -> None:
        if len(self.ids) != len(self.values):
            raise ValueError(f"{len(self.ids)} ids for {len(self.values)} values")
        check_distinct(self.ids)


def read_both(name: str, test: Path, validation: Path, spec: MeterSpec) -> PredictionFiles:
    """Return what a reader finds in the logs of both sets, ready to be submitted.

    Raises:
        InvalidInput: there is no such reader, or a log is not what it should be.
    """
    read = find(Group.READERS, name)
    hidden, visible = (_source(name, read, path, spec) for path in (test, validation))
    return PredictionFiles(hidden, visible, RowMatching(id_column=ID))


def _source(name: str, read: Any, path: Path, spec: MeterSpec) -> Held:
    """Read one log, and check what can be checked without the set."""
    with _refusing(path, name):
        found = read(path, spec)
        if not isinstance(found, Reading):
            raise InvalidInput("the reader returned something else than a Reading")
        if not found.ids:
            raise InvalidInput("no examples found, at least one needed")
        table = pa.table({ID: list(found.ids), COLUMN: list(found.values)})
    source = as_source(table, path.stem)
    if not isinstance(source, Held):
        raise TypeError("a table in memory is held there")
    source = replace(source, title=str(named(path)))
    if spec.meter.sample.takes_scores:
        Predictions.open(
            source,
            expected=Expected(len(found.ids), parse_loss(spec.meter.sample.loss)),
            matching=RowMatching(in_order=True),
        )
    return source


@contextmanager
def _refusing(path: Path, tool: str) -> Iterator[None]:
    """Refuse in one line whatever the reader trips over: a log may hold anything."""
    try:
        path.open("rb").close()  # a name that is wrong comes before what the log should hold
        yield
    except InvalidInput as error:
        start = f"{named(path)}: "
        line = str(error).removeprefix(start)  # what opens tables has named the file
        raise InvalidInput(f"{start}{line}") from None
    except MeterError:
        raise
    except OSError as error:
        raise InvalidInput(f"{named(path)}: cannot be read ({error.strerror or error})") from None
    except Exception as error:
        reason = excerpt(f"{type(error).__name__}: {error}", 100)
        raise InvalidInput(f"{named(path)}: no log of {tool} that can be read ({reason})") from None


def check_distinct(ids: Sequence[str]) -> None:
    """Refuse ids that stand there more than once: an id is one example."""
    repeated = [each for each, count in Counter(ids).items() if count > 1]
    if repeated:
        raise OfOneCase(
            f"ids that stand there more than once: {some(repeated, _NAMED)}: give each example an "
            "id of its own"
        )


def read_json(path: Path) -> Any:
    """Return what a JSON file holds."""
    return json.loads(path.read_text(encoding="utf-8"))


def read_json_lines(path: Path) -> list[Any]:
    """Return what the lines of a file hold."""
    # Not by splitlines: U+2028 and others stand in texts as they are.
    lines = path.read_text(encoding="utf-8").split("\n")
    return [json.loads(line) for line in lines if line.strip()]


def needed_metric(spec: MeterSpec, known: str) -> str:
    """Return the metric that counts; it is fixed in meter.toml, never chosen when scores are known.

    Raises:
        InvalidInput: the meter takes no scores, or names no metric.
    """
    sample = spec.meter.sample
    if not sample.takes_scores:
        raise InvalidInput(f'scores given, and the loss of this meter is "{sample.loss}"')
    if not sample.metric:
        raise InvalidInput(f"several metrics may be in it, and meter.toml names none: {known}")
    return sample.metric


def lowest(spec: MeterSpec) -> float:
    """Return the score of an example that failed: left out, it would raise the mean."""
    low, _ = parse_loss(spec.meter.sample.loss).span or (0.0, 1.0)
    return low


def as_number(value: object, where: str) -> float:
    """Return a score as a number.

    Raises:
        InvalidInput: it is none; a list is what a metric of the whole set collects.
    """
    if isinstance(value, list | tuple | Mapping):
        raise OfOneCase(
            f"{where}: no number for each example: a metric of the whole set (F1, BLEU, AUC, ...) "
            "has no mean that a meter could promise"
        )
    if not isinstance(value, int | float) or not math.isfinite(value):
        raise OfOneCase(f"{where}: {excerpt(value)} given, a finite number needed")
    return float(value)
