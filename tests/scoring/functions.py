"""Models and tasks that are functions; importable, so that workers of all kinds can run them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from easeml_meter.errors import InvalidInput
from easeml_meter.scoring.classes import Classes
from easeml_meter.scoring.losses import parse_loss
from easeml_meter.scoring.running import HiddenRows
from easeml_meter.vault.keys import Identity
from easeml_meter.vault.sealing import SealedTestSet, seal

ANIMALS = ("cat", "dog", "owl")
CLASSES = {"0-1": Classes.of(ANIMALS), "brier": Classes.of(ANIMALS), "absolute[-3,3]": None}
"""The losses that are tried, with their classes."""


def labelled(loss: str, rows: int, seed: int = 1) -> pa.Table:
    """Make inputs, and labels that a model gets right often enough."""
    random = np.random.default_rng(seed)
    size, weight = random.normal(size=rows), random.normal(size=rows)
    place = np.clip(np.rint(size + 1 + random.normal(size=rows) / 2), 0, 2).astype(int)
    label: Any = np.clip(size + weight / 9, -3, 3)
    if CLASSES[loss] is not None:
        label = np.array(ANIMALS)[place]
    return pa.table({"size": size, "weight": weight, "label": label})


@contextmanager
def hidden(table: pa.Table, folder: Path, loss: str, group: int = 64) -> Iterator[SealedTestSet]:
    """Seal a table, and open it."""
    key, path = Identity.new(), folder / "hidden.sealed"
    if not path.exists():
        key.write(folder / "key")
        seal(
            table,
            path,
            meter="cats",
            generation=1,
            label="label",
            recipients=[key.recipient],
            row_group_size=group,
        )
    key = Identity.read(folder / "key")
    with SealedTestSet.open(path, key, meter="cats", generation=1) as sealed:
        yield sealed


def rows_of(sealed: SealedTestSet, loss: str) -> HiddenRows:
    return HiddenRows.of(sealed, parse_loss(loss), CLASSES.get(loss))


# --- Models ---


def classes(batch: pa.RecordBatch) -> NDArray[Any]:
    places = np.clip(np.rint(batch.column("size").to_numpy() + 1), 0, 2).astype(int)
    return np.asarray(np.array(ANIMALS)[places])


def probabilities(batch: pa.RecordBatch) -> NDArray[Any]:
    size = batch.column("size").to_numpy()[:, None]
    scores = np.exp(-((size + 1 - np.arange(3)) ** 2))
    shares: NDArray[Any] = scores / scores.sum(axis=1, keepdims=True)
    return shares


def numbers(batch: pa.RecordBatch) -> NDArray[Any]:
    return np.asarray(np.clip(batch.column("size").to_numpy(), -3, 3))


MODELS = {"0-1": classes, "brier": probabilities, "absolute[-3,3]": numbers}


def telling(batch: pa.RecordBatch) -> NoReturn:
    """Fail with an input in the message, after printing it everywhere."""
    value = batch.column("size")[0].as_py()
    print(f"secret {value}")
    print(f"secret {value}", file=sys.stderr)
    warnings.warn(f"secret {value}", stacklevel=1)
    raise RuntimeError(f"secret {value}")


def leaving(batch: pa.RecordBatch) -> NoReturn:
    sys.exit("secret")


def dying_once(folder: str, batch: pa.RecordBatch) -> NDArray[Any]:
    """Let the worker be killed while it runs its first shard."""
    if once(folder):
        os.kill(os.getpid(), signal.SIGKILL)
    return classes(batch)


# --- Tasks ---


def square(number: int) -> int:
    return number * number


def refusing(number: int) -> int:
    try:
        raise KeyError("what it was working on")
    except KeyError:
        raise InvalidInput(f"number: {number} given, none needed") from None


def dying(number: int) -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


def waiting(task: tuple[str, str]) -> str:
    """Leave a note, and wait until there is a file named `go`."""
    folder, name = task
    (Path(folder) / name).touch()
    while name.startswith("wait") and not (Path(folder) / "go").exists():
        time.sleep(0.01)
    return name


def starting(folder: str) -> int:
    """Start a program that does not end, and leave a note when it has ended."""
    command = ["sh", "-c", "touch started; exec sleep 1000"]
    code = subprocess.run(command, cwd=folder, check=False).returncode
    (Path(folder) / "ended").touch()
    return code


def once(folder: str) -> bool:
    """Tell whether this is the first call with this folder, in any process."""
    try:
        (Path(folder) / "called").touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def same(value: Any) -> Any:
    return value


class Evil:
    """Makes a file where it is unpickled."""

    def __init__(self, place: str) -> None:
        self.place = place

    def __reduce__(self) -> Any:
        return open, (self.place, "w")


def evil(place: str) -> Evil:
    return Evil(place)
