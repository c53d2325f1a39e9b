"""Notices to labelers, in words and as JSON."""

from __future__ import annotations

import pytest

from easeml_meter.core.notices import Notice

AT = "2026-01-01T00:00:00+00:00"


@pytest.mark.parametrize(
    ("notice", "sentence"),
    [
        (
            Notice(at=AT, generation=2, rows_shared=1200),
            "1,200 rows of test set 2 have the inputs of another of its rows",
        ),
        (
            Notice(at=AT, generation=2, validation_set=3, rows_shared=5, first_rows=(1, 4)),
            "validation set 3 shares 5 rows with test set 2",
        ),
        (
            Notice(at=AT, generation=2, test_set=1, rows_shared=0, ids_renumbered=7),
            "test set 1 shares 0 rows with test set 2, and 7 ids with other inputs",
        ),
        (
            Notice(at=AT, generation=2, validation_set=3, rows_shared=None),
            "it is not known whether validation set 3 shares rows with test set 2",
        ),
    ],
)
def test_a_notice_says_what_is_shared_and_survives_json(notice: Notice, sentence: str) -> None:
    assert notice.sentence == sentence
    assert Notice.from_json(notice.to_json()) == notice
