"""Files, labels and losses of one's own, for the tests; importable, so that processes see them."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

from easeml_meter.errors import InvalidInput
from easeml_meter.scoring.classes import Classes
from easeml_meter.scoring.losses import Loss, parse_loss
from easeml_meter.scoring.outputs import Expected
from easeml_meter.scoring.predictions import Predictions
from easeml_meter.scoring.score import score

ANIMALS = Classes.of(["cat", "dog", "owl"])
DIGITS = Classes.of(range(10))
FORMATS = (".parquet", ".arrow", ".arrows", ".csv", ".jsonl", ".json", ".npy")


def expected(rows: int, loss: str | Loss = "0-1", classes: Classes | None = None) -> Expected:
    return Expected(rows, parse_loss(loss) if isinstance(loss, str) else loss, classes)


def write(path: Path, columns: dict[str, Any]) -> Path:
    """Write columns in the format of the path's ending; npy takes the first."""
    table = pa.table({name: pa.array(values) for name, values in columns.items()})
    match path.suffix:
        case ".parquet":
            pq.write_table(table, path, row_group_size=3)
        case ".arrow":
            with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
                writer.write_table(table, max_chunksize=3)
        case ".arrows":
            with (
                pa.OSFile(str(path), "wb") as sink,
                pa.ipc.new_stream(sink, table.schema) as writer,
            ):
                writer.write_table(table, max_chunksize=3)
        case ".csv":
            from pyarrow import csv

            csv.write_csv(table, str(path))
        case ".jsonl":
            path.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))
        case ".json":
            path.write_text(json.dumps(table.to_pylist(), indent=1))
        case ".npy":
            np.save(path, np.array(next(iter(columns.values()))))
    return path


def untouchable() -> Iterator[NoReturn]:
    """Labels that nobody may ask for."""
    raise AssertionError("a label was touched")
    yield


def refusal(path: Path, needed: Expected) -> str:
    """Submit a bad file; give the one line that it is refused with, after seeing no label."""
    with pytest.raises(InvalidInput) as refused:
        score(Predictions.open(path, expected=needed), untouchable())
    line = str(refused.value)
    assert "\n" not in line
    assert line.isprintable()
    assert len(line) < 400
    assert refused.value.exit_code == 2
    return line


def split(values: Any, sizes: Iterable[int]) -> list[Any]:
    """Cut into pieces of these sizes."""
    pieces, at = [], 0
    for size in sizes:
        pieces.append(values[at : at + size])
        at += size
    return pieces


@dataclass(frozen=True)
class Held:
    """Labels of a row group that are read inside their task."""

    values: tuple[Any, ...]

    def __len__(self) -> int:
        return len(self.values)

    def read(self) -> Any:
        return pa.array(self.values)


@dataclass(frozen=True)
class InMemory:
    """Predictions that are fit for the loss already."""

    expected: Expected
    values: NDArray[Any]

    def batches(self, sizes: Iterable[int]) -> Iterator[NDArray[Any]]:
        at = 0
        for size in sizes:
            yield self.values[at : at + size]
            at += size


# --- Losses of one's own ---


def half(predictions: NDArray[Any], labels: NDArray[Any]) -> NDArray[Any]:
    return np.where(predictions == labels, 0.0, 0.5)


def lengths(predictions: NDArray[Any], labels: NDArray[Any]) -> list[float]:
    """Compare texts by their lengths."""
    return [abs(len(a) - len(b)) / 10 for a, b in zip(predictions, labels, strict=True)]


def too_few(predictions: NDArray[Any], labels: NDArray[Any]) -> NDArray[Any]:
    return np.zeros(len(labels) - 1)


def too_large(predictions: NDArray[Any], labels: NDArray[Any]) -> NDArray[Any]:
    return np.full(len(labels), 1.0000001)


def negative(predictions: NDArray[Any], labels: NDArray[Any]) -> NDArray[Any]:
    return np.full(len(labels), -1e-9)


def not_finite(predictions: NDArray[Any], labels: NDArray[Any]) -> NDArray[Any]:
    return np.full(len(labels), np.nan)


def raising(predictions: NDArray[Any], labels: NDArray[Any]) -> NDArray[Any]:
    raise RuntimeError(f"the secret labels are {labels.tolist()}")


def stuck(predictions: NDArray[Any], labels: NDArray[Any]) -> NDArray[Any]:
    """Hang on more than 20 labels, until there is the file that the environment names."""
    while len(labels) > 20 and not Path(os.environ["METER_TESTS_GO"]).exists():
        time.sleep(0.01)
    return half(predictions, labels)


def no_numbers(predictions: NDArray[Any], labels: NDArray[Any]) -> Sequence[str]:
    return ["bad"] * len(labels)


NO_FUNCTION = 3
