"""Which entries of a public leaderboard are better than the one kept before, all together?

    python leaderboard.py FOLDER [--file NAME] [--id COLUMN] [--score COLUMN] [--range LOW,HIGH]

FOLDER has a file of results by case for each entry: DATE_NAME.json, or NAME/FILE in a clone, where
Git knows the dates. All entries are asked in that order, since to ask only those with a higher
score would be a choice that the cases made. Results here are public: the answer is a promise only
where nobody fitted an entry to these cases.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import tempfile
from fractions import Fraction
from pathlib import Path
from typing import Any

from easeml_meter import Gate
from easeml_meter.client.results import Form, read_results
from easeml_meter.errors import InvalidInput, Spent


def dated(folder: Path, file: str | None) -> list[tuple[str, str, Path]]:
    """Return date, name and results of each entry, the oldest first."""
    found = sorted(folder.glob(f"*/{file}" if file else "*.*"))
    added: dict[str, str] = {}
    command = ["git", "-C", str(folder), "log", "--diff-filter=A", "--name-only", "--relative"]
    done = subprocess.run([*command, "--format=%x00%as"], capture_output=True, check=False)  # noqa: S603
    for commit in done.stdout.decode().split("\0")[1:]:
        day, *names = commit.split("\n")
        added |= {name: day for name in names if name}  # the oldest comes last, and stays
    entries = []
    for path in found:
        name = path.relative_to(folder).parts[0]
        begins = re.match(r"\d{4}-?\d\d-?\d\d", name)
        date = begins.group() if begins else added.get(str(path.relative_to(folder)))
        if date is None:
            raise SystemExit(f"{path}: no date in its name, and Git knows none")
        entries.append((date, Path(name).stem if file is None else name, path))
    return sorted(entries)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("folder", type=Path)
    for option in ("--file", "--id", "--score", "--range"):
        options.add_argument(option)
    given = options.parse_args()
    columns: dict[str, Any] = {"id": given.id, "score": given.score}
    low, high = map(Fraction, (given.range or "0,1").split(","))
    form = Form(**columns, scores=True, range=(low, high))
    (_, best, held), *entries = dated(given.folder, given.file)

    def mean(path: Path) -> float:
        cases = read_results(path, form, path.name).cases.values()
        return float(sum(cases) / len(cases))

    top = mean(held)
    asked = records = kept = 0
    with tempfile.TemporaryDirectory() as place:
        gate = Gate(Path(place) / "gate.jsonl", scores=True, range=given.range, **columns)
        for date, name, path in entries:
            try:
                score = mean(path)
                answer = gate.ask(held, path, name=name, old_name=best)
            except InvalidInput as error:  # as where an entry lacks cases
                print(f"{date}  {name} is left out: {error}")
                continue
            except Spent as spent:
                print(spent)
                break
            asked, records, top = asked + 1, records + (score > top), max(score, top)
            if answer.yes:
                print(f"{date}  {name} is better than {best}")
                best, held, kept = name, path, kept + 1
    print(f"{asked} entries asked: {records} records by the score, {kept} kept, 90 % sure of all")


if __name__ == "__main__":
    main()
