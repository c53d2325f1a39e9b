"""A site with one meter that answers, for tests of what happens around it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from easeml_meter.core.views import Signal
from easeml_meter.meter import Meter
from easeml_meter.service.actor import SYSTEM
from easeml_meter.service.meters import create_meter
from easeml_meter.service.place import Site
from easeml_meter.spec import MeterSpec
from easeml_meter.vault.keys import Identity

from .helpers import Clock, Session, deliver, rows, small_spec


def make_site(
    folder: Path, database: str, *, clock: Clock | None = None, allowed_losses: Sequence[str] = ()
) -> Site:
    """Make a site in a folder."""
    folder.mkdir(exist_ok=True)
    place = folder / "files", folder / "server.key"
    return Site.open(database, *place, clock or Clock(), allowed_losses=allowed_losses)


@dataclass
class Room:
    """A meter of a site, and the folder where its people keep their files."""

    site: Site
    id: str
    session: Session

    @property
    def meter(self) -> Meter:
        """The meter."""
        return self.session.meter

    def submit(self, errors: int, *, model: str, tenant: int = 1) -> Signal:
        """Hand in a model."""
        return self.session.submit(errors, 0, model=model, tenant=tenant)


def make_room(
    site: Site, folder: Path, spec: MeterSpec | None = None, *, seed: int = 0, name: str = "small"
) -> Room:
    """Make a meter on a site, give it a validation set and a test set."""
    folder.mkdir(exist_ok=True)
    meter_id = create_meter(SYSTEM, site, spec or small_spec(), name).id
    meter = Meter(site.space(meter_id))
    labels = np.random.default_rng(seed).integers(0, 2, meter.plan.labels)
    validation = np.random.default_rng(99).integers(0, 2, 20)
    pq.write_table(rows(validation, seed=7), folder / "validation.parquet")
    meter.set_validation(folder / "validation.parquet", label="label")
    deliver(meter, folder, labels, seed=seed)
    return Room(site, meter_id, Session(folder, meter, labels, validation))


def same_key(folder: Path, site_folder: Path) -> None:
    """Put a site's key into another folder."""
    folder.mkdir(exist_ok=True)
    Identity.read(site_folder / "server.key").write(folder / "server.key")
