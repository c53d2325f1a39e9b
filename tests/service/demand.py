"""Meters whose labels are asked for when two models differ."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from easeml_meter.core.model import Wanted
from easeml_meter.core.views import Signal
from easeml_meter.errors import Waiting
from easeml_meter.meter import Meter
from easeml_meter.spec import MeterSpec

from .helpers import Clock, Labels, condition_spec, rows, write_predictions

QUESTION = "n - o > 0 +/- 0.15"
OWN = np.arange(20) % 2


def spec_of(**options: Any) -> MeterSpec:
    """Return a small meter with labels on demand."""
    given: dict[str, Any] = {"question": QUESTION, "disagreement": 0.3, "inputs": "public"}
    return condition_spec(**(given | {"on_demand": True, "steps": 5} | options))


@dataclass
class Demand:
    """A meter whose test set was sealed without labels, and people who know them."""

    folder: Path
    meter: Any
    labels: Labels

    @property
    def quota(self) -> int:
        return math.ceil(len(self.labels) * 0.3)

    def predicted(self, wrong: Any) -> Labels:
        found = self.labels.copy()
        found[wrong] = 1 - found[wrong]
        return found

    def files(self, wrong: Any, model: str) -> tuple[Path, Path]:
        test, own = self.folder / f"{model}-test.parquet", self.folder / f"{model}-own.parquet"
        write_predictions(test, self.predicted(wrong), model)
        write_predictions(own, OWN, model)
        return test, own

    def submit(self, wrong: range, model: str, tenant: int = 1) -> Signal:
        first = model.startswith("deployed")
        files = self.files(wrong, model)
        found: Signal = self.meter.submit(*files, model=model, tenant=tenant, baseline=first)
        return found

    def wait(self, wrong: range, model: str, tenant: int = 1) -> Wanted:
        """Submit what has to wait; return what the labelers are asked for."""
        with pytest.raises(Waiting, match=f"{model} waits for [0-9]+ labels"):
            self.submit(wrong, model, tenant)
        found: Wanted | None = self.meter.wanted()
        assert found is not None
        return found

    def label(self, asked: Wanted) -> Any:
        """Give the labels that are asked for."""
        known = [str(self.labels[int(each)]) for each in asked.ids]
        return self.meter.give_labels(pa.table({"id": list(asked.ids), "is": known}), label="is")

    def answered(self, wrong: range, model: str, tenant: int = 1) -> Signal:
        self.label(self.wait(wrong, model, tenant))
        found = self.submit(wrong, model, tenant)
        assert found.repeated  # it was answered when the labels came
        return found


def begin(folder: Path, spec: MeterSpec | None = None, *, seed: int = 0) -> Demand:
    """Make a meter in a folder whose test set has no labels yet."""
    meter = Meter.create(folder / "meter", spec or spec_of(), name="demand", clock=Clock())
    return begin_at(meter, folder, seed=seed)


def begin_at(meter: Meter, folder: Path, *, seed: int = 0) -> Demand:
    """Give a meter its validation set, and a test set without labels."""
    labels = np.random.default_rng(seed).integers(0, 2, meter.plan.labels)
    pq.write_table(rows(OWN, seed=7), folder / "validation.parquet")
    meter.set_validation(folder / "validation.parquet", label="label")
    inputs = rows(labels, seed=3).drop_columns(["label"])
    meter.seal(inputs, folder / "set.sealed", id_column="id", columns=["x", "y"])
    meter.add_test_set(folder / "set.sealed", ids_renumbered=True)
    return Demand(folder, meter, labels)
