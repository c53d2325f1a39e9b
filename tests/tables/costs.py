"""What it costs to read a file, measured in a process of its own."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

from easeml_meter.errors import InvalidInput
from easeml_meter.tables.source import USUAL_LIMITS, Held

ENOUGH = 8 << 30
"""Bytes of address space: an attack that works must not take the machine with it."""


class Cost(NamedTuple):
    """What a child used, beside what it needed to start."""

    megabytes: float
    cpu_seconds: float
    refusal: str
    """Empty: it was taken."""


def cost_of(kind: str, path: Path) -> Cost:
    """Read a file as a server reads an upload: `validation`, `predictions`, `onnx` or `sealed`.

    One that is sealed is test set 1 of the meter "cats"; its key is beside it.
    """
    command = [sys.executable, __file__, kind, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return Cost(*json.loads(done.stdout))


def _peak() -> float:
    """Return the most memory of this process; rusage would count its parent's before exec."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    (line,) = [line for line in lines if line.startswith("VmHWM")]
    return int(line.split()[1]) / 1024


def _read(kind: str, path: Path) -> None:
    from easeml_meter.scoring.losses import parse_loss
    from easeml_meter.scoring.onnx_checks import inspect_apart
    from easeml_meter.scoring.outputs import Expected
    from easeml_meter.scoring.predictions import Predictions
    from easeml_meter.scoring.validation import Validation
    from easeml_meter.tables.opening import check_whole
    from easeml_meter.vault.inspection import Delivered
    from easeml_meter.vault.keys import Identity

    if kind == "sealed":
        key = Identity.read(path.with_suffix(".key"))
        Delivered.of(path, key, meter="cats", generations=(1,)).inspect_apart(USUAL_LIMITS)
        return
    held = Held(path.name, path.read_bytes(), limits=USUAL_LIMITS)
    if kind == "validation":
        Validation.open(held, label="label", loss=parse_loss("0-1"))
        check_whole(held)
    elif kind == "predictions":
        from easeml_meter.scoring.classes import Classes

        Predictions.open(held, expected=Expected(300, parse_loss("0-1"), Classes(("a", "b"))))
    else:
        inspect_apart(held.content)


def main(kind: str, path: Path) -> None:
    import onnx  # noqa: F401
    import pyarrow.csv
    import pyarrow.json
    import pyarrow.parquet  # noqa: F401

    import easeml_meter.scoring.validation
    import easeml_meter.vault.inspection  # noqa: F401

    resource.setrlimit(resource.RLIMIT_AS, (ENOUGH, ENOUGH))
    memory, cpu, refusal = _peak(), time.process_time(), ""
    try:
        _read(kind, path)
    except InvalidInput as error:
        refusal = str(error)
    print(json.dumps([_peak() - memory, time.process_time() - cpu, refusal]))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
