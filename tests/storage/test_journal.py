"""The journal beside a test set, written by this version and by the one before."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from tests.storage import examples

from easeml_meter.core.model import Entry, HandOver, Promotion
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


def as_before(row: Entry | HandOver) -> str:
    """Write a line as the version before did: tenants from 0, no format, no user."""
    counted: dict[str, Any] = {
        name: value - 1 if name in ("tenant", "giver", "receiver") else value
        for name, value in asdict(row).items()
        if name != "user"
    }
    return json.dumps(counted, sort_keys=True)


def test_entries_come_back_in_the_order_of_each_tenants_steps(journal: Journal) -> None:
    assert journal.read() == []
    second, other = replace(ENTRY, step=2), replace(ENTRY, tenant=2)
    assert journal.answers() == 0
    journal.append([other, second], 2)
    journal.append([ENTRY], 3)
    assert journal.answers() == 3
    assert journal.read() == [ENTRY, second, other]


def test_lines_of_the_version_before_count_tenants_from_zero(
    files: FolderFiles, journal: Journal
) -> None:
    old = [replace(ENTRY, tenant=tenant, user="") for tenant in (1, 2)]
    files.append("x.journal", [as_before(entry) for entry in old])
    assert journal.read() == old
    new = [replace(ENTRY, tenant=tenant, step=2) for tenant in (1, 2)]
    assert journal.answers() is None  # they did not say
    journal.append(new, 4)
    assert journal.answers() == 4
    assert journal.read() == [old[0], new[0], old[1], new[1]]


def test_hand_overs_of_both_versions(files: FolderFiles, journal: Journal) -> None:
    files.append("x.handovers", [as_before(HANDOVER)])
    later = replace(HANDOVER, giver=3, at="2026-01-02")
    journal.append_handover(later)
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
