"""Exports of doccano, in the form of its documentation."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.integrations.test_sourcing import EXPORTS

from easeml_meter.errors import InvalidInput
from easeml_meter.integrations.doccano import rows
from easeml_meter.integrations.sourcing import WantedColumns


def test_texts_with_one_label_are_rows() -> None:
    table, left_out = rows(EXPORTS / "doccano.jsonl", WantedColumns("label", "id"))
    assert table.to_pylist() == [
        {"text": "Cheap loans", "sender": "a@example.org", "id": 11, "label": "spam"},
        {"text": "Lunch at noon?", "sender": "b@example.org", "id": 12, "label": "ham"},
    ]
    assert left_out == {"not labelled": 1, "more than one label": 1}


def test_labels_that_are_joined_in_one_cell_are_refused(tmp_path: Path) -> None:
    """Two labels are "ham#spam" in doccano's CSV, which became a class of its own."""
    (tmp_path / "all.csv").write_text("id,text,label\n1,Lunch?,ham\n2,Prize!,ham#spam\n")
    with pytest.raises(InvalidInput, match="export it as JSON"):
        rows(tmp_path / "all.csv", WantedColumns("label", "id"))
