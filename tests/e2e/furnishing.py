"""A site as teams have it after a while: meters in use, asked for, and released."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from tests.live import Live
from tests.server.driving import add, begin, sealed, submit
from tests.service.helpers import Labels, rows, small_spec

from easeml_meter.core.people import Role
from easeml_meter.service import seats
from easeml_meter.service.actor import SYSTEM
from easeml_meter.service.meters import create_meter
from easeml_meter.spec import MeterSpec

from .browsing import PASSWORD


@dataclass(frozen=True)
class Furnished:
    """The site, and its meters by the state they are in."""

    live: Live
    meters: dict[str, str]
    """Ids of the meters ACTIVE, REQUESTED and RELEASED."""
    seen: set[str] = field(default_factory=set)
    """Kinds of pages that were looked at already."""


def furnish(live: Live, folder: Path) -> Furnished:
    """Make the users ada (admin), labeler, developer, runner, and meters with a past."""
    served = live.served
    served.add_user("ada", admin=True, password=PASSWORD)
    for role in (Role.LABELER, Role.DEVELOPER, Role.RUNNER):
        served.add_user(str(role), password=PASSWORD)
    bands = {"signals": 5, "edges": [0.02, 0.05, 0.1, 0.2], "tolerance": 0.05}
    active = _meter(live, "spam filter", small_spec(**bands, steps=12, inputs="public"))
    requested = _meter(live, "translation quality", small_spec(**bands, steps=20, inputs="public"))
    released = _meter(live, "crash triage", small_spec(steps=8, tolerance=0.15, inputs="public"))

    labels = begin(served, active, folder)
    for number, percent in enumerate((20, 21, 19, 23, 26, 32, 31)):
        _submit(live, active, labels, percent, number)
    labels = begin(served, released, folder, seed=1)
    for number in range(8):
        _submit(live, released, labels, 18 + number, number)
    labeler = served.client("labeler")
    assert labeler.post(f"/meters/{released}/test-sets/1/release").is_success
    whole = rows(np.random.default_rng(5).integers(0, 2, 750), seed=5)
    for part in (whole.slice(0, 300), whole.slice(300)):
        assert add(labeler, requested, sealed(served, requested, part, folder)).is_success
    described = {"reason": "The spring release", "deadline": "2026-03-31T18:00:00+00:00"}
    assert labeler.patch(f"/meters/{requested}/requests/1", json=described).is_success
    return Furnished(live, {"ACTIVE": active, "REQUESTED": requested, "RELEASED": released})


def _meter(live: Live, name: str, spec: MeterSpec) -> str:
    served = live.served
    meter = create_meter(SYSTEM, served.site, spec, name).id
    for role in (Role.LABELER, Role.DEVELOPER, Role.RUNNER):
        seats.add_seat(SYSTEM, served.site.space(meter), served.users[str(role)].id, role)
    return meter


def _submit(live: Live, meter: str, labels: Labels, percent: int, number: int) -> None:
    """Hand in a checkpoint that errs on so many of the hidden rows, and ever less on the others."""
    told = submit(
        live.served.client("developer"),
        meter,
        labels,
        errors=percent * len(labels) // 100,
        validation_errors=4 - number // 2,
        model=f"checkpoint {number + 1}",
    )
    assert told.is_success, told.text
