"""Exports of Prodigy, in the form of its documentation."""

from __future__ import annotations

import json
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


@pytest.mark.parametrize(
    ("answers", "label"),
    [("ar", None), ("arr", None), ("aar", "spam"), ("ai", "spam"), ("r", None)],
)
def test_a_label_that_as_many_reject_is_none(
    tmp_path: Path, answers: str, label: str | None
) -> None:
    """One annotator decided against two who rejected the label."""
    words = {"a": "accept", "r": "reject", "i": "ignore"}
    asked = {"text": "x", "label": "spam", "_input_hash": 1}
    lines = [json.dumps(asked | {"answer": words[each]}) for each in answers]
    (tmp_path / "x.jsonl").write_text("\n".join(lines))
    table, left_out = rows(tmp_path / "x.jsonl", WantedColumns("kind"))
    assert table["kind"].to_pylist() == ([label] if label else [])
    assert sum(left_out.values()) == (0 if label else 1)


def test_another_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text('{"text": "x", "label": "spam"}\n')
    with pytest.raises(InvalidInput, match="prodigy db-out"):
        rows(tmp_path / "x.jsonl", WantedColumns("kind"))
