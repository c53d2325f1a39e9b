"""Write the files of docs/data.md to this folder: questions with choices, and logs of a model.

python tests/cli/pages/data.py
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterable
from pathlib import Path

PAGE = Path(__file__).parents[3] / "docs" / "data.md"
LETTERS = "ABCD"

Row = dict[str, object]


def write(name: str, rows: Iterable[Row]) -> None:
    text = "".join(f"{json.dumps(row)}\n" for row in rows)
    Path(name).write_text(text, encoding="utf-8")


def questions(prefix: str, count: int, seed: int) -> list[Row]:
    """Make up questions with their right letter; some of them repeat."""
    draw = random.Random(seed)  # noqa: S311  data, no secrets
    made: list[Row] = []
    for number in range(1, count + 1):
        one, two, place = draw.randrange(10, 80), draw.randrange(10, 20), draw.randrange(4)
        sums = (f"{letter}: {one + two + at - place}" for at, letter in enumerate(LETTERS))
        prompt = f"What is {one} + {two}? {' '.join(sums)}"
        made.append({"id": f"{prefix}-{number:03}", "prompt": prompt, "target": LETTERS[place]})
    return made


def log(rows: list[Row], wrong: int, failed: int, seed: int) -> list[Row]:
    """Make up what a model says, in the order in which its samples finish."""
    draw = random.Random(seed)  # noqa: S311
    missed = draw.sample(range(len(rows)), wrong + failed)
    made: list[Row] = []
    for at, row in enumerate(rows):
        letter = LETTERS[LETTERS.find(str(row["target"])) - (at in missed)]
        said, error = (None, "timeout") if at in missed[:failed] else (f"Answer: {letter}", None)
        made.append({"id": row["id"], "prompt": row["prompt"], "completion": said, "error": error})
    draw.shuffle(made)
    return made


def free_text(hidden: list[Row], validation: list[Row]) -> None:
    """Write the same questions with sums as targets, and predictions of them."""
    for name, rows in (("labelled", hidden), ("validation", validation)):
        sums = [str(sum(map(int, re.findall(r"\d+", str(row["prompt"]))[:2]))) for row in rows]
        targets = zip(rows, sums, strict=True)
        write(f"free/{name}.jsonl", ({**row, "target": total} for row, total in targets))
        said = [*("" for _ in sums[:6]), *sums[6:]]
        predictions = zip(rows, said, strict=True)
        part = "test" if name == "labelled" else name
        write(
            f"free/llm-{part}.jsonl",
            ({"id": row["id"], "prediction": text} for row, text in predictions),
        )


def main() -> None:
    text = PAGE.read_text(encoding="utf-8")
    found = re.search(r"^```toml\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    if found is None:
        raise SystemExit("the page has no meter.toml")
    settings = found[1]
    Path("meter.toml").write_text(settings, encoding="utf-8")
    Path("free").mkdir()
    settings = re.sub("^classes = .*$", 'loss = "numpy:not_equal"', settings, flags=re.MULTILINE)
    Path("free/meter.toml").write_text(settings, encoding="utf-8")

    hidden, validation = questions("q", 320, seed=1), questions("v", 60, seed=2)
    free_text(questions("q", 400, seed=7), validation)
    for row in hidden[100:103]:
        row["target"] = "none"
    write("labelled.jsonl", ({**row, "annotator": "ann"} for row in hidden))
    write("validation.jsonl", validation)
    write("log-test.jsonl", log(hidden, wrong=40, failed=5, seed=3))
    write("log-validation.jsonl", log(validation, wrong=6, failed=1, seed=4))
    retry = log(hidden, wrong=40, failed=5, seed=5)
    write("retry-test.jsonl", ({"id": row["id"], "prediction": "A"} for row in retry))

    fresh = questions("q", 320, seed=6)
    write("fresh.jsonl", fresh)
    write("reused.jsonl", [*hidden[:2], *fresh[2:]])


if __name__ == "__main__":
    main()
