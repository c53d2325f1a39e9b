"""A plain Python program, run in the sandbox: `python plain_command.py`."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
from rich.console import Console
from setting import meter_with_sets

from easeml_meter import Command, MeterSpec

HERE = Path(__file__).parent


def mails(count: int) -> pa.Table:
    """Make up mails; one in ten does not look like what it is."""
    rng = np.random.default_rng(0)
    spam = rng.random(count) < 0.4
    odd = rng.random(count) < 0.1
    words = np.where(spam ^ odd, "you won prize", "see you at table")
    texts = [f"{each} {number}" for number, each in enumerate(words)]
    return pa.table({"text": texts, "kind": np.where(spam, "spam", "ham")})


def main(folder: Path) -> None:
    """Submit the program in commands/."""
    spec = MeterSpec.uniform(
        signals=3, edges=[0.05, 0.15], tolerance=0.1, steps=4, delta=0.05, models=True
    )
    meter = meter_with_sets(folder, spec.replace(classes=("ham", "spam")), mails(1000), "kind")
    rule = Command.of("python rule.py", folder=HERE / "commands")
    Console().print(meter.submit_any(rule, model="a rule"))


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(tempfile.mkdtemp(prefix="command-")))
