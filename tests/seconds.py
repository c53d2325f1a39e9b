"""Longest files first, so that no worker is left with a long one at the end.

Files are ordered, not tests: what a module shares is made once. `seconds.json` has the seconds of
each file that takes a while; `make seconds` writes it again.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).parent.parent
TABLE = Path(__file__).with_name("seconds.json")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the longest files first, each as a whole; those that are not in the table come last."""
    known: dict[str, float] = json.loads(TABLE.read_text(encoding="utf-8"))
    files = [item.nodeid.partition("::")[0] for item in items]
    order = {file: (-known.get(file, 0), file) for file in files}
    items.sort(key=lambda item: order[item.nodeid.partition("::")[0]])


def seconds_of(report: Path) -> dict[str, int]:
    """Add up a junit report by file, the longest first, without those below a second."""
    found: dict[str, float] = defaultdict(float)
    for case in ElementTree.parse(report).iter("testcase"):  # noqa: S314 - our own report
        file = ROOT.joinpath(*case.attrib["classname"].split("."))
        while file != ROOT and not file.with_suffix(".py").is_file():
            file = file.parent  # of a class
        found[f"{file.relative_to(ROOT)}.py"] += float(case.attrib["time"])
    longest = sorted(found.items(), key=lambda each: -each[1])
    return {file: round(each) for file, each in longest if round(each)}


if __name__ == "__main__":
    TABLE.write_text(json.dumps(seconds_of(Path(sys.argv[1])), indent=1) + "\n", encoding="utf-8")
