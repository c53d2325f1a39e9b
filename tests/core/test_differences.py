"""Cells of any table as JSON can have them."""

from __future__ import annotations

import json
from datetime import date
from decimal import Decimal
from typing import Any

import pytest

from easeml_meter.core.differences import Compared, Differences, DifferingExample, plain


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
