"""Write the files of docs/models.md into this folder: two commands, two sets, a meter.toml."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv

SETTINGS = """
[question]
ask = "gap"
tolerance = 0.1
edges = [0.05, 0.15]

[budget]
steps = 4

[sample]
models = true
classes = ["ham", "spam"]

[meter]
delta = 0.05
"""

PAGE = Path(__file__).parents[3] / "docs" / "models.md"


def predict() -> str:
    """Give the program that the page shows."""
    found = re.search(r"```py\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert found, "the page shows no program"
    return found[1]


def mails(count: int, seed: int) -> pa.Table:
    """Make up mails: spam has more links and more shouting."""
    rng = np.random.default_rng(seed)
    spam = rng.random(count) < 0.4
    links = rng.poisson(np.where(spam, 7, 1))
    shouting = rng.random(count) + spam
    kind = np.where(spam, "spam", "ham")
    return pa.table({"links": links, "shouting": shouting, "kind": kind})


def main() -> None:
    """Write everything."""
    Path("meter.toml").write_text(SETTINGS.lstrip())
    Path("predict.py").write_text(predict())
    # The validation set has 100 rows.
    fragile = predict().replace("guess =", "assert batch.num_rows < 200\n        guess =")
    Path("fragile.py").write_text(fragile)
    pa.csv.write_csv(mails(400, 1), "labelled.csv")
    pa.csv.write_csv(mails(100, 2), "validation.csv")


if __name__ == "__main__":
    main()
