"""The journal beside a test set."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from tests.storage import examples

from easeml_meter.core.model import HandOver, Promotion
from easeml_meter.errors import MeterError
from easeml_meter.storage.files import FolderFiles
from easeml_meter.storage.journal import Journal

ENTRY = replace(examples.ENTRY, user="anna")
HANDOVER = HandOver("m", 1, 1, 2, "2026-01-01")


@pytest.fixture
def files(tmp_path: Path) -> FolderFiles:
    return FolderFiles(tmp_path)


@pytest.fixture
def journal(files: FolderFiles) -> Journal:
    return Journal(files, "x.journal")


def test_entries_come_back_in_the_order_of_each_tenants_steps(journal: Journal) -> None:
    assert journal.read() == []
    second, other = replace(ENTRY, step=2), replace(ENTRY, tenant=2)
    assert journal.answers() == 0
    journal.append([other, second], 2)
    journal.append([ENTRY], 3)
    assert journal.answers() == 3
    assert journal.read() == [ENTRY, second, other]


def test_hand_overs_come_back_in_the_order_of_their_time(journal: Journal) -> None:
    later = replace(HANDOVER, giver=3, at="2026-01-02")
    journal.append_handover(later)
    journal.append_handover(HANDOVER)
    assert journal.handovers() == [HANDOVER, later]


def test_promotions_come_back_in_order(files: FolderFiles, journal: Journal) -> None:
    rows = [Promotion(1, step, "m", f"2026-01-0{step}") for step in (2, 3)]
    for row in reversed(rows):
        journal.append_promotion(row)
    files.append("x.promotions", ["{", '{"tenant": 1}', '{"format": 2, "tenant": "1"}'])
    assert journal.promotions() == rows
    assert journal.read() == []


@pytest.mark.parametrize(
    "line",
    [
        "5",
        "{}",
        "[1]",
        "\ufffd",
        '{"tenant": 1}',
        '{"format": 2}',
        '{"answer": "1", "ste',
        "[" * 9999,
    ],
)
def test_what_is_no_entry_is_left_out(files: FolderFiles, journal: Journal, line: str) -> None:
    files.append("x.journal", [line])
    files.append("x.handovers", [line])
    journal.append([ENTRY], 1)
    assert journal.read() == [ENTRY]
    assert journal.handovers() == []


def test_a_retirement_counts_as_a_line_and_is_no_entry(journal: Journal) -> None:
    journal.append([ENTRY], 1)
    assert not journal.retired()
    journal.retire("2026-01-02", 1)
    assert journal.retired()
    assert journal.answers() == 2
    assert journal.read() == [ENTRY]


@pytest.mark.parametrize(
    "change", [{"step": 10**30}, {"step": "1"}, {"answer": 2}, {"model": None}]
)
def test_a_line_with_other_types_is_no_answer(tmp_path: Path, change: dict[str, Any]) -> None:
    """It ended `meter submit` and `meter audit` with a traceback."""
    journal = Journal(FolderFiles(tmp_path), "x.journal")
    journal.append([ENTRY], 1)
    line = json.dumps({"format": 2, **asdict(ENTRY), **change})
    with (tmp_path / "x.journal").open("a") as file:
        file.write(f"{line}\n")
    assert journal.read() == [ENTRY]


def test_a_pipe_in_the_place_of_a_journal_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "x.journal")
    journal = Journal(FolderFiles(tmp_path), "x.journal")
    for read in (journal.read, journal.answers):
        with pytest.raises(MeterError, match="not a regular file"):
            read()
