"""A regression whose loss lies in [0, 1] because a range is declared: `python regression_range.py`.

The targets are minutes from 0 to 60; the loss is |prediction - target| / 60. The Python function is
trusted: it runs in this process, without a sandbox.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from rich.console import Console
from setting import meter_with_sets

from easeml_meter import Function, MeterSpec


def minutes(batch: pa.RecordBatch) -> Any:
    """Predict; what is outside the declared range would be refused, so it is clipped."""
    return np.clip(6 * batch.column("kilometres").to_numpy() + 5, 0, 60)


def main(folder: Path) -> None:
    """Submit a linear rule for how long a ride takes."""
    rng = np.random.default_rng(0)
    kilometres = rng.uniform(0, 9, 3000)
    rides = np.clip(5.5 * kilometres + 6 + rng.normal(0, 3, 3000), 0, 60)
    spec = MeterSpec.uniform(
        signals=3,
        edges=[0.02, 0.1],
        tolerance=0.05,
        steps=4,
        delta=0.05,
        loss="absolute[0,60]",
        models=True,
    )
    rows = pa.table({"kilometres": kilometres, "minutes": rides})
    meter = meter_with_sets(folder, spec, rows, "minutes")
    line = Function.of(minutes, identity="6 minutes a kilometre, plus 5")
    Console().print(meter.submit_any(line, model="a line"))


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(tempfile.mkdtemp(prefix="minutes-")))
