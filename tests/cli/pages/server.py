"""Write the site of docs/server.md to this folder: a server with one meter that has answered twice.

python tests/cli/pages/server.py
"""

from __future__ import annotations

import random
from pathlib import Path

from easeml_meter.meter import Meter
from easeml_meter.scoring.ids import RowMatching
from easeml_meter.server import worker
from easeml_meter.server.settings import Settings
from easeml_meter.service.actor import SYSTEM
from easeml_meter.service.meters import create_meter
from easeml_meter.service.place import Site
from easeml_meter.spec import MeterSpec


def table(name: str, header: str, rows: list[str]) -> Path:
    path = Path(name)
    path.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    return path


def labelled(name: str, count: int, seed: int) -> list[str]:
    draw = random.Random(seed)  # noqa: S311  data, no secrets
    labels = [draw.choice(["ham", "spam"]) for _ in range(count)]
    rows = [f"{number},{draw.random()},{label}" for number, label in enumerate(labels, 1000 * seed)]
    table(name, "id,length,label", rows)
    return labels


def main() -> None:
    settings = Settings()
    settings.folder.mkdir(mode=0o700)
    site = Site.open(settings.database_url, settings.files_place, settings.key_file)
    worker.prepare(site)  # as every server does at its start
    spec = MeterSpec.uniform(
        signals=3,
        tolerance=0.2,
        steps=4,
        delta=0.1,
        edges=[0.1, 0.3],
        inputs="public",
        classes=("ham", "spam"),
    )
    meter = Meter(site.space(create_meter(SYSTEM, site, spec, "spam").id))
    hidden = labelled("hidden.csv", meter.plan.labels, seed=1)
    visible = labelled("validation.csv", 50, seed=2)
    meter.set_validation("validation.csv", label="label")
    meter.seal("hidden.csv", "testset.sealed", label="label", id_column="id")
    meter.add_test_set("testset.sealed")
    for wrong in (3, 5):
        guesses = ["ham"] * wrong + hidden[wrong:]
        test = table("test-predictions.csv", "prediction", guesses)
        validation = table("validation-predictions.csv", "prediction", visible)
        meter.submit(test, validation, model=f"v{wrong}", matching=RowMatching(in_order=True))
    site.close()


if __name__ == "__main__":
    main()
