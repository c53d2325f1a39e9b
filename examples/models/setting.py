"""What the examples share: a meter that takes models, with both of its sets in place."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from easeml_meter import Meter, MeterSpec


def meter_with_sets(folder: Path, spec: MeterSpec, rows: pa.Table, label: str) -> Meter:
    """Make a meter; seal as many rows as it asks for, and give 100 others for validation."""
    meter = Meter.create(folder / "meter", spec, name=folder.name)
    hidden, visible = rows.slice(0, meter.plan.labels), rows.slice(meter.plan.labels, 100)
    plain, sealed = folder / "labelled.parquet", folder / "testset.sealed"
    pq.write_table(hidden, plain)
    meter.seal(plain, sealed, label=label)
    plain.unlink()
    pq.write_table(visible, folder / "validation.parquet")
    meter.set_validation(folder / "validation.parquet", label=label)
    meter.add_test_set(sealed)
    return meter
