"""Notices to labelers, and compared submissions, in words and as JSON."""

from __future__ import annotations

import json
from datetime import date
from decimal import Decimal
from typing import Any

import pytest

from easeml_meter.core.views import Compared, Differences, DifferingExample, Notice, plain


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, None),
        (True, True),
        (3, 3),
        (0.5, 0.5),
        (float("nan"), None),
        (float("inf"), None),
        (b"1234", "4 bytes"),
        ({"bytes": b"12", "path": None}, "2 bytes"),
        (date(2026, 3, 2), "2026-03-02"),
        (Decimal("1.50"), "1.50"),
        ("x" * 2_000, "x" * 1_000),
    ],
)
def test_a_cell_is_plain(value: Any, shown: Any) -> None:
    assert plain(value) == shown
    json.dumps(plain(value), allow_nan=False)


def test_differences_go_to_json_and_back() -> None:
    example = DifferingExample(2, "b", 1, ("0", "1"), (1.0, 0.0), {"x": 0.5})
    sides = Compared(1, "old", 0.5), Compared(2, "new", 0.25)
    found = Differences(
        1, *sides, 4, 0, 1, zero_one=True, page=1, pages=1, examples=(example,), found=1
    )
    assert Differences.from_json(json.loads(json.dumps(found.to_json()))) == found


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
