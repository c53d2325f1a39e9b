"""Small meters for tests: a folder, a sealed test set, a validation set, submissions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

from easeml_meter.core.people import Role
from easeml_meter.core.views import Signal
from easeml_meter.meter import Meter
from easeml_meter.service.actor import Actor
from easeml_meter.spec import MeterSpec
from easeml_meter.storage.journal import Journal

Labels = NDArray[np.int64]


def small_spec(**options: Any) -> MeterSpec:
    """Give a meter that needs only a few dozen labels."""
    settings: dict[str, Any] = {
        "signals": 3,
        "tolerance": 0.25,
        "steps": 4,
        "delta": 0.2,
        "edges": [0.1, 0.3],
        "inputs": "hidden",
        "classes": (0, 1),
    }
    settings |= options
    if settings.get("models") is True and settings["inputs"] == "hidden":  # most are commands
        settings = {"commands_may_carry_inputs_out": True} | settings
    return MeterSpec.uniform(**settings)


@contextmanager
def older_books(folder: Path) -> Iterator[None]:
    """Put the books of a meter back afterwards, as they are now."""
    database = folder / "meter" / ".meter" / "meter.db"
    before = database.read_bytes()
    yield
    for name in ("meter.db-wal", "meter.db-shm"):
        database.with_name(name).unlink(missing_ok=True)
    database.write_bytes(before)


def condition_spec(**options: Any) -> MeterSpec:
    """Give a meter that asks a condition, and needs only a few dozen labels."""
    settings: dict[str, Any] = {
        "bands": (),
        "question": "n > 0.5 +/- 0.2",
        "steps": 4,
        "delta": 0.2,
        "classes": (0, 1),
    }
    return MeterSpec(**(settings | options))


class Clock:
    """A clock that moves one second at every look."""

    def __init__(self) -> None:
        self.moment = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        self.moment += timedelta(seconds=1)
        return self.moment


class StoppedClock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.moment = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.moment

    def pass_by(self, time: timedelta) -> None:
        """Move it on."""
        self.moment += time


def rows(labels: Labels, *, seed: int) -> pa.Table:
    """Make a table of ids, inputs and labels."""
    inputs = np.random.default_rng(seed).normal(size=(len(labels), 2))
    columns = {"id": np.arange(len(labels)), "x": inputs[:, 0], "y": inputs[:, 1]}
    return pa.table({**columns, "label": labels})


@dataclass
class Session:
    """A meter with an active test set, and a developer who knows which answers would be right.

    `submit(k, v)` hands in predictions with k errors on the test set and v on the validation set.
    """

    folder: Path
    meter: Meter
    test_labels: Labels
    validation_labels: Labels
    salts: dict[tuple[int, int], list[str]] = field(default_factory=dict, repr=False)

    def submit(
        self, test_errors: int, validation_errors: int, *, model: str = "model", **options: Any
    ) -> Signal:
        """Hand in a model with that many errors."""
        test, validation = self.files(test_errors, validation_errors, salt=model)
        return self.meter.submit(test, validation, model=model, **options)

    def released(self) -> Path:
        """Retire the test set in use, and release it."""
        self.meter.retire()
        return self.meter.release()

    def files(
        self, test_errors: int, validation_errors: int, *, salt: str = ""
    ) -> tuple[Path, Path]:
        """Write the two prediction files of a model; another `salt` makes another submission.

        It is known by what it predicts: the second of as many errors has one more, at the end.
        """
        salts = self.salts.setdefault((test_errors, validation_errors), [])
        salts += [salt] if salt not in salts else []
        tag = f"{test_errors}-{validation_errors}-{salt}"
        test = self.folder / f"test-{tag}.parquet"
        validation = self.folder / f"validation-{tag}.parquet"
        guess = with_errors(self.test_labels, test_errors)
        seen = with_errors(self.validation_labels, validation_errors)
        number = salts.index(salt)
        for each in (guess, seen):  # on the validation set only if there are very few test rows
            for place in range(len(each) - 1, 4, -1):
                each[place] ^= number & 1
                number >>= 1
        write_predictions(test, guess, salt)
        write_predictions(validation, seen, salt)
        return test, validation


def with_errors(labels: Labels, errors: int) -> Labels:
    """Get the first few wrong."""
    predictions = labels.copy()
    predictions[:errors] = 1 - predictions[:errors]
    return predictions


def write_predictions(path: Path, predictions: Labels, salt: str = "") -> None:
    """Write a predictions file."""
    table = pa.table({"id": np.arange(len(predictions)), "prediction": predictions})
    pq.write_table(table.replace_schema_metadata({"salt": salt}), path)


def make_session(
    folder: Path,
    spec: MeterSpec | None = None,
    *,
    seed: int = 0,
    size: int | None = None,
    validation_size: int = 20,
) -> Session:
    """Make a meter in folder/meter, seal a test set and give a validation set."""
    meter = Meter.create(folder / "meter", spec or small_spec(), name="small", clock=Clock())
    rng = np.random.default_rng(seed)
    test = rng.integers(0, 2, size or meter.plan.labels)
    validation = np.random.default_rng(99).integers(0, 2, validation_size)
    pq.write_table(rows(validation, seed=7), folder / "validation.parquet")
    meter.set_validation(folder / "validation.parquet", label="label")
    deliver(meter, folder, test, seed=seed)
    return Session(folder, meter, test, validation)


def deliver(meter: Meter, folder: Path, labels: Labels, *, seed: int) -> None:
    """Seal a test set and take it in."""
    plain, sealed = folder / f"plain-{seed}.parquet", folder / f"set-{seed}.sealed"
    pq.write_table(rows(labels, seed=1000 + seed), plain)
    meter.seal(plain, sealed, label="label", id_column="id")
    plain.unlink()
    # Every set of these small meters is numbered from 0.
    meter.add_test_set(sealed, ids_renumbered=True)


def retire_cut_short(meter: Meter) -> None:
    """Retire the active test set with a power cut before the journal says so."""
    cut = mock.patch.object(Journal, "retire", side_effect=KeyboardInterrupt)
    with cut, pytest.raises(KeyboardInterrupt):
        meter.retire()


def actor_of(user: str) -> Actor:
    """Return a user, by their id, as if they had signed in."""
    return Actor(((Role.USER, 0),), user=user)
