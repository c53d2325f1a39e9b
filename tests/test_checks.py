"""One rule for names of all kinds, for ids, and for which hosts are this machine."""

from __future__ import annotations

import re

import pytest

from easeml_meter.checks import (
    MAX_NAME,
    NAME,
    check_name,
    is_id,
    is_loopback,
    read_confidence,
    read_share,
    read_whole,
)
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
        # https://www.unicode.org/Public/UCD/latest/ucd/DerivedCoreProperties.txt, and U+2800
        *map(
            "ad{}min".format,
            "\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b\u180e\u180f\u200b\u202e\u2065\u206f\u2800\u3164"
            "\ufe00\ufe0f\ufeff\uffa0\ufff0\ufff8\ufffc\U0001bca0\U0001d17a\U000e0001\U000e0041\U000e0fff",
        ),
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


@pytest.mark.parametrize("text", ["1000", "1,000", "1k", "1 K", "1'000", " 1000 ", "0.001m"])
def test_whole_numbers_as_people_write_them(text: str) -> None:
    assert read_whole("labels", text) == 1000


@pytest.mark.parametrize("text", ["", "many", "1.5", "1,00", "k", "1,000.5", "inf"])
def test_what_is_no_whole_number(text: str) -> None:
    with pytest.raises(InvalidInput, match=r"labels: .* given, a whole number, such as 1000"):
        read_whole("labels", text)


def test_shares_and_confidences_as_people_write_them() -> None:
    assert {read_share("x", each) for each in ("0.05", ".05", "0,05", "5%", "5 %")} == {0.05}
    assert {read_confidence(each) for each in ("95", "95%", "0.95", ".95", "0,95")} == {0.05}
    for wrong in ("0", "1", "100", "nan", "inf", "-5", "100%", "sure"):
        with pytest.raises(InvalidInput, match="confidence: "):
            read_confidence(wrong)
