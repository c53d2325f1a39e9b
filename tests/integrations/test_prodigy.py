"""Exports of Prodigy, in the form of its documentation."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.integrations.test_sourcing import EXPORTS

from easeml_meter.errors import InvalidInput
from easeml_meter.integrations.prodigy import rows
from easeml_meter.integrations.sourcing import WantedColumns


def test_inputs_with_an_accepted_label_are_rows() -> None:
    """A rejected label says what the label is not, so it gives none."""
    table, left_out = rows(EXPORTS / "prodigy.jsonl", WantedColumns("kind", "id"))
    assert table.to_pylist() == [
        {"text": "Cheap loans", "id": 1, "kind": "spam"},
        {"text": "Lunch at noon?", "id": 2, "kind": "ham"},
        {"text": "Prize!", "id": 5, "kind": "spam"},
    ]
    assert left_out == {"skipped": 1, "rejected": 1, "annotators disagree": 1}


def test_another_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text('{"text": "x", "label": "spam"}\n')
    with pytest.raises(InvalidInput, match="prodigy db-out"):
        rows(tmp_path / "x.jsonl", WantedColumns("kind"))
