"""The one table of errors: classes, words, statuses, exit codes."""

from __future__ import annotations

import pytest

from easeml_meter.errors import (
    ANSWERED,
    InvalidInput,
    MeterError,
    error_named,
    invalid,
    not_installed,
)


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


def test_a_package_that_is_not_installed() -> None:
    missing = ImportError("No module named 'httpx'", name="httpx")
    line = "the client needs httpx; run: pip install 'easeml-meter[client]'"
    assert str(not_installed("the client needs", missing, "client")) == line


def test_what_was_given_is_shown_as_far_as_a_line_goes() -> None:
    """Found by fuzzing: a key of meter.toml may be as long as the file."""
    assert str(invalid("steps", 0, "one or more")) == "steps: 0 given, one or more"
    line = str(invalid("meter.toml", "x" * 10_000, "only [meter] is known"))
    assert len(line) < 400
    assert line.endswith("xxx... given, only [meter] is known")


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("use meter validation replace", "use replace_validation"),
        ("name the label column (--label)", "name the label column (label=...)"),
        ("give --fail-above BAND or --most-loss LOSS", "give fail_above=... or most_loss=..."),
        ("name its column (--id)", "name its column (id_column=...)"),
        ("'--' given, n > 0.8 -- 2", "'--' given, n > 0.8 -- 2"),
    ],
)
def test_a_notebook_shows_one_line_in_the_words_of_python(said: str, shown: str) -> None:
    assert InvalidInput(said)._render_traceback_() == [f"InvalidInput: {shown}"]
