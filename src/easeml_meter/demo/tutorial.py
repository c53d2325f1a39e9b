"""The files of the tutorial (docs/embedded.md): a mail filter, its data, four models."""

from __future__ import annotations

import csv
import random
from pathlib import Path

_OTHER = {"spam": "ham", "ham": "spam"}

SETTINGS = """\
[meter]
steps = 4                     # promised answers
delta = 0.05                  # the promise may fail with this probability
loss = "0-1"
inputs = "public"             # developers see the test inputs, never the labels
classes = ["ham", "spam"]

[[bands]]
lower = 0.0
upper = 0.05
tolerance = 0.1

[[bands]]
lower = 0.05
upper = 0.12
tolerance = 0.1

[[bands]]
lower = 0.12
upper = 1.0
tolerance = 0.1
"""
"""The meter.toml of the tutorial."""


def write(folder: Path) -> None:
    """Write the files to a new folder."""
    folder.mkdir(parents=True)
    (folder / "meter.toml").write_text(SETTINGS, encoding="utf-8")
    hidden = _mails(folder / "labelled.csv", 300, seed=1)
    validation = _mails(folder / "validation.csv", 50, seed=2)
    fresh = _mails(folder / "fresh.csv", 50, seed=3)
    # From model to model the validation loss falls, and the test loss does not.
    for number, (on_test, on_validation) in enumerate([(48, 8), (45, 4), (51, 1)], 1):
        _predict(folder / f"v{number}-test.csv", hidden, on_test)
        _predict(folder / f"v{number}-validation.csv", validation, on_validation)
    _predict(folder / "v4-test.csv", hidden, 39)
    _predict(folder / "v4-validation.csv", fresh, 7)


def _mails(path: Path, count: int, seed: int) -> list[str]:
    """Write made-up mails with labels; return the labels."""
    draw = random.Random(seed)  # noqa: S311  data, no secrets
    labels = ["spam" if draw.random() < 0.4 else "ham" for _ in range(count)]
    rows: list[list[object]] = [
        [number, draw.randrange(10**6), draw.randrange(9), label]
        for number, label in enumerate(labels, 1)
    ]
    _rows(path, ["id", "bytes", "links", "label"], rows)
    return labels


def _predict(path: Path, labels: list[str], wrong: int) -> None:
    """Write the predictions of a model that gets so many wrong."""
    missed = set(random.Random(wrong).sample(range(len(labels)), wrong))  # noqa: S311
    rows: list[list[object]] = [
        [at + 1, _OTHER[label] if at in missed else label] for at, label in enumerate(labels)
    ]
    _rows(path, ["id", "prediction"], rows)


def _rows(path: Path, header: list[str], rows: list[list[object]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([header, *rows])
