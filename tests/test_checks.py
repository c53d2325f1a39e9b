"""One rule for the names of users, tokens, meters, models and files."""

from __future__ import annotations

import re

import pytest

from easeml_meter.checks import MAX_NAME, NAME, check_name
from easeml_meter.errors import InvalidInput


@pytest.mark.parametrize("name", ["a", "Ada <b>", "größe", "模型 1", "x" * MAX_NAME, "a "])
def test_names(name: str) -> None:
    check_name("name", name)
    assert re.search(NAME, name)


@pytest.mark.parametrize(
    "name",
    [
        "",
        " ",
        " a",
        "x" * (MAX_NAME + 1),
        "a\nb",
        "a\n",
        "a\0",
        "a\x7f",
        "a\u202eb",
        "\u200b",
        "a\udc80",
    ],
)
def test_what_is_no_name(name: str) -> None:
    with pytest.raises(InvalidInput, match=r"model: .* given, 1 to 200 printable characters"):
        check_name("model", name)


def test_the_message_is_one_short_line() -> None:
    with pytest.raises(InvalidInput) as refused:
        check_name("model", "x" * 10_000 + "\n")
    assert len(str(refused.value)) < 120
    assert str(refused.value).isprintable()
