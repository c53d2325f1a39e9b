"""Two tenants with labels to spare."""

from __future__ import annotations

from pathlib import Path

from tests.service.helpers import Session, make_session, small_spec

from easeml_meter.core.questions.planning import required_labels
from easeml_meter.spec import MeterSpec

TENANTS = (3, 3)


def tenant_spec(**options: object) -> MeterSpec:
    return small_spec(steps=6, tenants=TENANTS, **options)


def made(tmp_path: Path, extra: int = 10, **options: object) -> Session:
    """Make a session whose test set is larger than planned."""
    spec = tenant_spec(**options)
    return make_session(tmp_path, spec, size=required_labels(spec).labels + extra)
