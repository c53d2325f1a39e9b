"""The one table of errors: classes, words, statuses, exit codes."""

from __future__ import annotations

import pytest

from easeml_meter.errors import ANSWERED, InvalidInput, MeterError, error_named


@pytest.mark.parametrize("kind", ANSWERED)
def test_a_word_names_one_error_and_leads_back_to_it(kind: type[MeterError]) -> None:
    assert [each for each in ANSWERED if each.word == kind.word] == [kind]
    found = error_named(kind.word, "what, given, to do")
    assert type(found) is kind
    assert str(found) == "what, given, to do"
    assert 400 <= kind.status < 600
    assert 1 <= kind.exit_code <= 5


def test_a_word_of_a_newer_server_is_still_an_error() -> None:
    assert type(error_named("never-heard-of", "a line")) is MeterError


def test_what_is_too_large_is_invalid_for_whoever_sent_it() -> None:
    assert isinstance(error_named("too-large", "a line"), InvalidInput)
