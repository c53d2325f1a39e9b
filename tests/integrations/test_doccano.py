"""Exports of doccano, in the form of its documentation."""

from __future__ import annotations

from tests.integrations.test_sourcing import EXPORTS

from easeml_meter.integrations.doccano import rows
from easeml_meter.integrations.sourcing import WantedColumns


def test_texts_with_one_label_are_rows() -> None:
    table, left_out = rows(EXPORTS / "doccano.jsonl", WantedColumns("label", "id"))
    assert table.to_pylist() == [
        {"text": "Cheap loans", "sender": "a@example.org", "id": 11, "label": "spam"},
        {"text": "Lunch at noon?", "sender": "b@example.org", "id": 12, "label": "ham"},
    ]
    assert left_out == {"not labelled": 1, "more than one label": 1}
