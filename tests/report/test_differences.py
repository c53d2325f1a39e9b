"""Two submissions in a terminal."""

from __future__ import annotations

import io
from dataclasses import replace

from rich.console import Console
from tests.report.sessions import SPEC

from easeml_meter.core.views import Compared, Differences, DifferingExample
from easeml_meter.report.differences import differences_terminal

FOUND = Differences(
    generation=1,
    first=Compared(1, "old", 0.5),
    second=Compared(3, "new\x1b[31m", 0.25),
    rows=4,
    worse=1,
    better=2,
    zero_one=True,
    page=1,
    pages=1,
    examples=(
        DifferingExample(2, None, 1, ("1", "0"), (0.0, 1.0), {"x": 0.25, "text": "long " * 20}),
    ),
    found=1,
)


def printed(found: Differences, *, better: bool = False) -> str:
    console = Console(file=io.StringIO(), width=90, color_system=None)
    console.print(differences_terminal(SPEC, found, better=better))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_sums_come_first_then_the_examples() -> None:
    lines = printed(FOUND).splitlines()
    assert lines[0] == "step 1, old: test error 50 %"
    assert lines[1].endswith(": test error 25 %")
    assert "\x1b" not in lines[1]
    assert lines[2] == "of 4 examples, 1 went from right to wrong, 2 went from wrong to right"
    assert lines[4] == "those that went from right to wrong"
    assert lines[5].split()[:5] == ["row", "label", "step", "1", "step"]
    assert lines[6].split()[:5] == ["2", "1", "1", "0", "0.25"]
    assert "…" in lines[6]


def test_ids_pages_and_other_losses() -> None:
    named = replace(FOUND.examples[0], id="b7")
    shown = printed(replace(FOUND, zero_one=False, pages=3, page=2, examples=(named,)), better=True)
    assert "1 became worse, 2 became better" in shown
    assert "those that became better, page 2 of 3" in shown
    assert "b7" in shown
    assert "those" not in printed(replace(FOUND, examples=()))
