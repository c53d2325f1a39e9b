"""Make a meter with three answers, by the code on PYTHONPATH, and pack it.

python tests/data/schemas/make.py NNNN.tar.xz
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory

from easeml_meter import Meter
from easeml_meter.spec import MeterSpec

MOVES = 5
TOLD = 3
LABELS = "ab"


def table(path: Path, header: str, rows: list[str]) -> Path:
    path.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    return path


def labelled(path: Path, count: int, first: int, draw: random.Random) -> list[str]:
    labels = [draw.choice(LABELS) for _ in range(count)]
    rows = [f"{first + at},{draw.random():.9f},{label}" for at, label in enumerate(labels)]
    table(path, "id,x,label", rows)
    return labels


def predicted(path: Path, labels: list[str], first: int, wrong: int) -> Path:
    others = dict(zip(LABELS, reversed(LABELS), strict=True))
    given = [others[each] if at < wrong else each for at, each in enumerate(labels)]
    rows = [f"{first + at},{label}" for at, label in enumerate(given)]
    return table(path, "id,prediction", rows)


def make(out: Path) -> None:
    draw = random.Random(7)  # noqa: S311  data, no secrets
    given = out / "given"
    given.mkdir()
    spec = MeterSpec.uniform(
        signals=3, tolerance=0.2, steps=6, delta=0.1, edges=[0.1, 0.3], inputs="public"
    )
    meter = Meter.create(out / "meter", spec)
    hidden = labelled(given / "hidden.csv", meter.plan.labels, 0, draw)
    visible = labelled(given / "validation.csv", 40, 10_000, draw)
    meter.set_validation(given / "validation.csv", label="label")
    meter.seal(given / "hidden.csv", out / "sealed", label="label", id_column="id")
    meter.add_test_set(out / "sealed")
    (out / "sealed").unlink()
    told = []
    for number in range(MOVES):
        test = predicted(given / f"test-{number}.csv", hidden, 0, 12 * number)
        validation = predicted(given / f"validation-{number}.csv", visible, 10_000, 0)
        if number < TOLD:
            told.append(str(meter.submit(test, validation, model=f"m{number}").answer))
    (out / "told.json").write_text(json.dumps(told))


def main() -> None:
    with TemporaryDirectory() as folder:
        make(Path(folder))
        words = ["backup", f"{folder}/backup", "--with-key", "-C", f"{folder}/meter"]
        program = "from easeml_meter.cli import main; main()"
        subprocess.run([sys.executable, "-c", program, *words], check=False)
        with tarfile.open(sys.argv[1], "w:xz") as packed:
            packed.add(folder, ".")


if __name__ == "__main__":
    main()
