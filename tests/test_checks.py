"""One rule for names of all kinds, for ids, and for which hosts are this machine."""

from __future__ import annotations

import re

import pytest

from easeml_meter.checks import MAX_NAME, NAME, check_name, is_id, is_loopback
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


def test_ids() -> None:
    assert is_id("0" * 31 + "f")
    for text in ("0" * 31, "0" * 33, "F" * 32, "g" * 32, "0" * 32 + "\n", ""):
        assert not is_id(text)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.8.8.8", "::1"])
def test_this_machine(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["", "localhost.example.org", "10.0.0.1", "::", "meter"])
def test_another_machine(host: str) -> None:
    assert not is_loopback(host)
