"""Numbers in the fields of a form."""

from __future__ import annotations

import pytest

from easeml_meter.errors import InvalidInput
from easeml_meter.server.web.fields import optional, read, several


def test_numbers_are_read() -> None:
    asked = {"steps": "3", "none": "", "edges": "0.1, 0.2"}
    assert read(asked, "steps", int, "a number") == 3
    assert optional(asked, "none", int, "a number") is None
    assert several(asked, "edges", float, "numbers") == (0.1, 0.2)
    assert several(asked, "none", float, "numbers") == ()


@pytest.mark.parametrize("given", ["three", "0,1", "9" * 5000])
def test_anything_else_is_refused_by_the_name_of_the_field(given: str) -> None:
    with pytest.raises(InvalidInput, match=r"steps: .*a whole number"):
        read({"steps": given}, "steps", int, "a whole number")
    with pytest.raises(InvalidInput, match=r"steps: .*or nothing"):
        optional({"steps": given}, "steps", int, "a whole number")


def test_one_wrong_number_of_several_is_refused() -> None:
    with pytest.raises(InvalidInput, match="edges"):
        several({"edges": "0.1, x"}, "edges", float, "numbers")
