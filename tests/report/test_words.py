from __future__ import annotations

import unicodedata
from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.report.sessions import (
    DRAWN,
    INCREMENTAL,
    LIMITED,
    SPEC,
    START,
    drawn_session,
    released,
    session,
)

from easeml_meter.core.questions.planning import required_labels
from easeml_meter.core.signals import ABOVE_CEILING, NO_READING
from easeml_meter.report.page import html_page
from easeml_meter.report.story import Story
from easeml_meter.report.words import (
    ago,
    answer_words,
    history_words,
    loss_sentence,
    meaning_words,
    settings_words,
    share_words,
    short_words,
    shown,
    standing_words,
    steps_words,
    told_words,
    true_loss_words,
    when,
)

ANY_TEXT = st.text(st.characters(exclude_categories=()))


@given(ANY_TEXT, st.integers(4, 40))
def test_shown_is_short_and_cannot_steer(text: str, limit: int) -> None:
    safe = shown(text, limit)
    assert len(safe) <= limit
    assert not any(unicodedata.category(char) in ("Cc", "Cs", "Zl", "Zp") for char in safe)
    assert not any(unicodedata.bidirectional(char) in ("RLO", "LRO", "RLI", "LRI") for char in safe)
    assert len(safe) == min(len(text), limit)


@pytest.mark.parametrize(
    "char", ["\0", "\x1b", "\x9b", "\u061c", "\u200f", "\u2028", "\u2066", "\ud800", "\ufffe"]
)
def test_what_is_not_shown(char: str) -> None:
    """Escapes, turns of direction, line ends, and what XML or UTF-8 cannot hold."""
    assert shown(f"a{char}b") == "a\ufffdb"


def test_shown_keeps_both_ends() -> None:
    assert shown("experiments/2026/resnet-v17", 16) == "experime…net-v17"
    assert shown("a\x1b[31mb\u202ec") == "a\ufffd[31mb\ufffdc"
    assert shown("naïve 模型 שלום 👩‍🔬") == "naïve 模型 שלום 👩‍🔬"
    assert len(shown("x" * 10_000_000)) == 60


def test_every_answer_has_words_of_its_own() -> None:
    answers = [1, 2, 3, ABOVE_CEILING, NO_READING]
    assert len({answer_words(answer) for answer in answers}) == len(answers)


@pytest.mark.parametrize(
    ("share", "words"),
    [(0, "0 %"), (0.001, "1 %"), (0.5, "50 %"), (0.999, "99 %"), (1, "100 %")],
)
def test_empty_and_full_are_said_only_where_exact(share: float, words: str) -> None:
    assert share_words(share) == words


def test_steps_are_counted() -> None:
    assert [steps_words(n) for n in (0, 1, 2000)] == ["0 steps", "1 step", "2,000 steps"]


def test_moments_are_in_utc_whatever_the_machine_is_set_to() -> None:
    east = timezone(timedelta(hours=2))
    assert when(datetime(2026, 3, 2, 11, 0, tzinfo=east)) == "2026-03-02T09:00:00Z"
    assert when(datetime(2026, 3, 2, 9, 0)) == "2026-03-02T09:00:00Z"


def test_history_is_told_by_runs() -> None:
    view = session([1, 1, 1, 2, NO_READING])
    assert history_words(view) == "Steps 1 to 3: band 1. Step 4: band 2. Step 5: no reading."
    assert history_words(session([])) == "No answers yet."


def test_a_restless_history_is_told_by_counts() -> None:
    words = history_words(session([1, 2] * 50))
    assert words == "100 steps: band 1 in 50, band 2 in 50. The last, at step 100: band 2."


@pytest.mark.parametrize(
    ("answer", "loss", "sentence"),
    [
        (1, 0.01, "Validation error 1 %: true error at most 4 %, 99 % sure."),
        (2, 0.2, "Validation error 20 %: true error at most 26 % and at least 14 %, 99 % sure."),
        (5, 0.25, "Validation error 25 %: true error at most 6 %, 99 % sure."),
        (
            NO_READING,
            0.2,
            "Validation error 20 %. This answer gives no upper bound on the true error.",
        ),
        (1, 1 / 3, "Validation error 33.3 %: true error at most 36.4 % and at least 30.3 %, 99"),
    ],
)
def test_the_true_error_is_said_with_the_validation_error(
    answer: int, loss: float, sentence: str
) -> None:
    (signal,) = session([answer], LIMITED, losses=[loss]).signals
    assert loss_sentence(signal).startswith(sentence)


def test_other_losses_are_said_as_they_are_defined() -> None:
    spec = INCREMENTAL.replace(loss="brier", delta=0.1)
    (signal,) = session([2], spec, losses=[0.155]).signals
    assert loss_sentence(signal) == "Validation loss 0.155: true loss at most 0.225, 90 % sure."
    assert loss_sentence(session([2], SPEC).signals[0]) == ""
    (top,) = session([5], SPEC, losses=[0.5]).signals
    assert loss_sentence(top).endswith("This answer gives no upper bound on the true error.")


def test_a_band_with_drawn_edges_is_called_by_its_edges() -> None:
    view = drawn_session([0.01, 0.01, 0.09, ABOVE_CEILING])
    assert [told_words(signal) for signal in view.signals] == [
        "gap 0 to 0.0314",
        "gap 0.0001 to 0.0501",
        "gap 0.0473 to 0.0973",
        "above ceiling",
    ]
    assert [short_words(signal) for signal in view.signals] == ["band"] * 3 + ["above ceiling"]
    assert told_words(view.signals[0], 3) == "gap 0.0814 to 0.1314"  # another, of the same edges
    assert standing_words(drawn_session([0.01])) == "test set 1: gap 0 to 0.0314"
    assert "Step 3: gap 0.0473 to 0.0973. Step 4: above ceiling." in history_words(view)
    assert "bands of its own, 0.05 wide" in meaning_words(view)
    long = history_words(drawn_session([*[0.01, 0.06] * 20, ABOVE_CEILING]))
    assert long == "41 steps: a gap in 40, above ceiling in 1. The last, at step 41: above ceiling."


def test_six_digits_of_a_drawn_edge_are_shown_for_narrow_bands_only() -> None:
    """Rounded outwards, so the gap is still between them."""
    (wide,) = drawn_session([0.25]).signals
    assert told_words(replace(wide, first_edge=0.039942)) == "gap 0.2399 to 0.29"
    narrow = replace(wide, spec=DRAWN.replace(drawn=0.001), first_edge=0.000941, answer=241)
    assert told_words(narrow) == "gap 0.239941 to 0.240941"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-5, "just now"),
        (59, "just now"),
        (60, "1 minute ago"),
        (14 * 60 + 59, "14 minutes ago"),
        (3600, "1 hour ago"),
        (86_400, "1 day ago"),
        (30 * 86_400, "30 days ago"),
        (31 * 86_400, "2 Mar 2026"),
    ],
)
def test_moments_are_said_as_people_say_them(seconds: int, words: str) -> None:
    assert ago(START, START + timedelta(seconds=seconds)) == words


def test_settings_are_said_in_words() -> None:
    said = {name: (value, note) for name, value, note in settings_words(SPEC)}
    assert said["Bands"] == ("0, 2, 5, 10, 20, 100 %", "edges of the gap")
    assert said["Tolerance"][0] == "1 %"
    assert said["Each answer tells"][0] == "the band of this model"
    incremental = {name: value for name, value, _ in settings_words(INCREMENTAL)}
    assert incremental["Tolerance"] == "1 to 5 %"
    assert incremental["Each answer tells"] == "the worst band so far"
    drawn = {name: value for name, value, _ in settings_words(DRAWN)}
    assert drawn["Bands"] == "5 % wide"
    assert "Ceiling" in {name for name, _, _ in settings_words(LIMITED)}


@pytest.mark.parametrize(
    ("number", "sure", "words"),
    [
        (1, "99", "for the first 4 windows together"),
        (4, "99", "for the first 4 windows together"),
        (5, "98", "for the first 8 windows together"),
        (12, "97", "for the first 12 windows together"),
        (400, "0", "for the first 400 windows together"),
    ],
)
def test_a_promise_names_the_windows_that_share_its_probability(
    number: int, sure: str, words: str
) -> None:
    """Nothing smaller is proved of later windows alone."""
    spec = SPEC.replace(window=3, steps=4)
    last = replace(session([1], spec, losses=[0.1]).signals[0], generation=number)
    words += " (4 further ones cost another 0.01)"
    probability = "0" if sure == "0" else f"0.{sure}"
    assert last.promise.startswith(f"With probability at least {probability}, {words}: this model")
    assert last.confidence == float(probability)
    assert loss_sentence(last, alone=True).endswith(f"{sure} % sure {words}.")


def test_a_window_of_one_batch_is_said_in_the_singular() -> None:
    spec = SPEC.replace(window=1, steps=1)
    first = session([1], spec).signals[0]
    assert "for the first window (each further one costs another 0.01): " in first.promise
    assert "averaged over its window of 1 batch, lies" in first.promise
    later = replace(first, generation=7)
    assert "0.93, for the first 7 windows together (each further one costs" in later.promise
    plan = required_labels(spec)
    assert plan.question.statistic.endswith("the loss on the last batch")
    assert plan.notes == (f"the first step needs 1 batch, {plan.size:,} labels",)


def test_what_remains_promised_of_a_window_names_its_windows() -> None:
    view = replace(released(SPEC.replace(window=3, steps=4), [(0.2, 0.21)]), generation=5)
    page = html_page(view)
    assert "98 % sure for the first 8 windows together (4 further ones" in page
    assert "The true loss, averaged over the window, stays unknown" in page
    assert (
        Story(view).promised
        == "Its true error, averaged over its window, is 20 to 22 %, 98 % sure."
    )


def test_a_table_shows_the_lower_end_where_only_that_is_promised() -> None:
    (signal,) = session([ABOVE_CEILING], SPEC.replace(ceiling=0.1), losses=[0.07]).signals
    assert "true error at least 9 %" in loss_sentence(signal)
    assert true_loss_words(signal) == "9 to 100 %"
    (silent,) = session([NO_READING], losses=[0.07]).signals
    assert true_loss_words(silent) == "0 to 100 %"
