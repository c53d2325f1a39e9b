"""Write the files of docs/embedded.md to this folder: a mail filter, its data, four models.

python tests/cli/pages/embedded.py
"""

from __future__ import annotations

import csv
import random
import re
from pathlib import Path

PAGE = Path(__file__).parents[3] / "docs" / "embedded.md"
OTHER = {"spam": "ham", "ham": "spam"}


def write(name: str, header: list[str], rows: list[list[object]]) -> None:
    with Path(name).open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([header, *rows])


def mails(name: str, count: int, seed: int) -> list[str]:
    """Write made-up mails with labels; give the labels."""
    draw = random.Random(seed)  # noqa: S311  data, no secrets
    labels = ["spam" if draw.random() < 0.4 else "ham" for _ in range(count)]
    rows: list[list[object]] = [
        [number, draw.randrange(10**6), draw.randrange(9), label]
        for number, label in enumerate(labels, 1)
    ]
    write(name, ["id", "bytes", "links", "label"], rows)
    return labels


def predict(name: str, labels: list[str], wrong: int) -> None:
    """Write the predictions of a model that gets so many wrong."""
    missed = set(random.Random(wrong).sample(range(len(labels)), wrong))  # noqa: S311
    rows: list[list[object]] = [
        [at + 1, OTHER[label] if at in missed else label] for at, label in enumerate(labels)
    ]
    write(name, ["id", "prediction"], rows)


def main() -> None:
    text = PAGE.read_text(encoding="utf-8")
    found = re.search(r"^```toml\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    if found is None:
        raise SystemExit("the page has no meter.toml")
    Path("meter.toml").write_text(found[1], encoding="utf-8")
    hidden = mails("labelled.csv", 300, seed=1)
    validation = mails("validation.csv", 50, seed=2)
    fresh = mails("fresh.csv", 50, seed=3)
    # From model to model the validation loss falls, and the test loss does not.
    for number, (on_test, on_validation) in enumerate([(48, 8), (45, 4), (51, 1)], 1):
        predict(f"v{number}-test.csv", hidden, on_test)
        predict(f"v{number}-validation.csv", validation, on_validation)
    predict("v4-test.csv", hidden, 39)
    predict("v4-validation.csv", fresh, 7)


if __name__ == "__main__":
    main()
