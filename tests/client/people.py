"""Those who use one meter, in a folder or at a server, and their files."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from tests.live import Live
from tests.service.helpers import Labels, rows, small_spec, with_errors, write_predictions

from easeml_meter.client import RemoteMeter
from easeml_meter.core.views import Signal
from easeml_meter.meter import Meter

SEEDS = itertools.count()

VALIDATION = np.random.default_rng(99).integers(0, 2, 20)


def fresh(labels: Labels) -> pa.Table:
    """Make rows: a server takes the same ones once, whatever meter they are for."""
    return rows(labels, seed=1000 + next(SEEDS))


@dataclass
class People:
    """Those who use one meter, and their files."""

    folder: Path
    labeler: Meter | RemoteMeter
    developer: Meter | RemoteMeter

    def sealed(self, table: pa.Table, *, part: bool = False) -> Path:
        """Seal rows."""
        name = f"{next(SEEDS)}"
        plain, sealed = self.folder / f"{name}.parquet", self.folder / f"{name}.sealed"
        pq.write_table(table, plain)
        self.labeler.seal(plain, sealed, label="label", id_column="id", part=part)
        return sealed

    def validation(self, *, seed: int = 7) -> Path:
        path = self.folder / f"validation-{seed}.parquet"
        pq.write_table(rows(VALIDATION, seed=seed), path)
        return path

    def begin(self) -> Labels:
        """Give both sets; return the hidden labels."""
        self.developer.set_validation(self.validation(), label="label")
        labels = np.random.default_rng(0).integers(0, 2, self.labeler.plan.labels)
        self.labeler.add_test_set(self.sealed(fresh(labels)), ids_renumbered=True)
        return labels

    def predictions(self, labels: Labels, errors: int, *, salt: str = "") -> tuple[Path, Path]:
        test, validation = (
            self.folder / f"t{errors}{salt}.parquet",
            self.folder / f"v{salt}.parquet",
        )
        write_predictions(test, with_errors(labels, errors), salt)
        write_predictions(validation, VALIDATION, salt)
        return test, validation

    def submit(
        self, labels: Labels, errors: int, *, model: str = "model", **options: Any
    ) -> Signal:
        files = self.predictions(labels, errors, salt=model)
        return self.developer.submit(*files, model=model, **options)


def people_at(site: Live, folder: Path, prefix: str, **options: object) -> Iterator[People]:
    meter = site.served.add_meter(small_spec(**options), prefix=prefix)
    with (
        site.meter(f"{prefix}labeler", meter) as labeler,
        site.meter(f"{prefix}developer", f"{prefix}meter") as developer,
    ):
        yield People(folder, labeler, developer)
