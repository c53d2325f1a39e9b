"""Records of Argilla 2.8.0, as it wrote them."""

from __future__ import annotations

import pytest
from tests.integrations.test_sourcing import EXPORTS

from easeml_meter.errors import InvalidInput
from easeml_meter.integrations.argilla import rows
from easeml_meter.integrations.sourcing import WantedColumns


def test_submitted_answers_are_labels_and_suggestions_are_not() -> None:
    table, left_out = rows(EXPORTS / "argilla.json", WantedColumns("kind", "id"))
    assert table.to_pylist() == [
        {"text": "Cheap loans", "source": "inbox", "id": "m1", "kind": "spam"},
        {"text": "Invoice", "source": "inbox", "id": "m5", "kind": "ham"},
    ]
    assert left_out == {"annotators disagree": 1, "skipped": 1, "not labelled": 1}


def test_an_export_without_the_state_of_answers_is_refused() -> None:
    """Drafts and discarded answers would be labels."""
    with pytest.raises(InvalidInput, match="does not say which answers are drafts"):
        rows(EXPORTS / "argilla-nested.json", WantedColumns("kind"))


def test_a_question_that_was_not_asked_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"no label 'knd' .did you mean 'kind'"):
        rows(EXPORTS / "argilla.json", WantedColumns("knd"))
