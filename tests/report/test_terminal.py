from __future__ import annotations

import io
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console, RenderableType
from tests.report.sessions import (
    DRAWN,
    INCREMENTAL,
    LIMITED,
    MANY_BANDS,
    SPEC,
    drawn_session,
    released,
    session,
)
from tests.report.test_checks import told
from tests.report.test_words import ANY_TEXT

from easeml_meter.core.lifecycle import Phase
from easeml_meter.core.questions.assumptions import gap_assumptions
from easeml_meter.core.signals import ABOVE_CEILING, NO_READING
from easeml_meter.core.views import Signal
from easeml_meter.report.gauge import plain
from easeml_meter.report.palette import band_colours
from easeml_meter.report.terminal import history_terminal, session_terminal, terminal
from easeml_meter.spec import MeterSpec


def signal(answer: int, spec: MeterSpec = LIMITED) -> Signal:
    return session([answer], spec).signals[0]


def printed(what: RenderableType, *, colour: bool = False, width: int = 80) -> str:
    console = Console(
        file=io.StringIO(),
        width=width,
        force_terminal=colour,
        color_system="truecolor" if colour else None,
        highlight=False,
    )
    console.print(what)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_one_answer_without_colour() -> None:
    lines = plain(session([1, 1, 2]).signals[2]).splitlines()
    assert lines[:4] == [
        "Step 3: band 2 of 5, model augmented-v3",
        "  .....1~~~~~~#####2######~~...3...........4...........5......",
        "  0           0.02        0.05        0.1         0.2         1",
        "  Gap between validation and test loss (#): 0.02 to 0.05. Tolerance (~): 0.01.",
    ]
    assert lines[-1] == "  left: [#######---] 70 %, 7 steps promised"


def test_an_incremental_bar_starts_at_zero() -> None:
    drawn = plain(signal(3, INCREMENTAL)).splitlines()[1].strip()
    assert drawn == "#############################3######~~~~.4...........5......"


@pytest.mark.parametrize(
    ("answer", "words", "sign"),
    [
        (1, "band 1 of 5", "#####1######~"),
        (5, "band 5 of 5", "~#####5######"),
        (ABOVE_CEILING, "above ceiling", ".....1......"),
        (NO_READING, "no reading", ".....1......"),
    ],
)
def test_every_answer_has_its_own_text(answer: int, words: str, sign: str) -> None:
    for text in (plain(signal(answer)), printed(terminal(signal(answer)))):
        assert words in text.splitlines()[0]
        assert signal(answer).promise.split(":")[0].split(",")[0] in text
        assert "9 steps promised" in text
    assert sign in plain(signal(answer))


def test_the_bar_is_seen_without_colour() -> None:
    assert "▒▒▒▒█████3██████▒····4" in printed(terminal(signal(3, SPEC)))
    drawn = printed(session_terminal(session([1, 3], INCREMENTAL)))
    assert "0.05 to 0.1  · █3█" in drawn
    assert "0.02 to 0.05 ▒▒▒███" in drawn.replace("▂▂▂", "▒▒▒")
    assert "0 to 0.02 █1████" in drawn


def test_a_free_answer_says_so() -> None:
    again = replace(signal(1), repeated=True)
    for text in (plain(again), printed(terminal(again))):
        assert "nothing was charged" in text


@pytest.mark.parametrize("answer", range(1, 6))
def test_the_band_told_has_its_colour(answer: int) -> None:
    colour = band_colours(5)[answer - 1]
    ground = ";".join(str(int(colour[at : at + 2], 16)) for at in (1, 3, 5))
    for what in (terminal(signal(answer, SPEC)), session_terminal(session([answer]))):
        assert f"48;2;{ground}m" in printed(what, colour=True)
        assert "\x1b[" not in printed(what)


@given(
    answer=st.sampled_from([*range(1, 6), ABOVE_CEILING, NO_READING]),
    battery=st.floats(0, 1),
)
def test_what_plain_draws_is_ascii_and_fits(answer: int, battery: float) -> None:
    text = plain(replace(signal(answer), battery=battery))
    assert text.isascii()
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize("bands", [1, 2, 7, 30, 40, 60, 61, 100])
def test_any_number_of_bands(bands: int) -> None:
    spec = MeterSpec.uniform(signals=bands, tolerance=0.05, steps=5, delta=0.05)
    for band in {1, (bands + 1) // 2, bands}:
        text = plain(signal(band, spec))
        assert f"band {band} of {bands}" in text
        assert max(map(len, text.splitlines())) <= 80
        printed(session_terminal(session([band], spec)))


@given(name=ANY_TEXT)
def test_names_cannot_steer_a_terminal(name: str) -> None:
    view = session([1], models=[name], meter=name)
    tenants = (view.signals[0], replace(view.signals[0], tenant=2))
    texts = [
        plain(view.signals[0]),
        printed(terminal(view.signals[0])),
        printed(session_terminal(view)),
        printed(history_terminal(replace(view, signals=tenants))),
    ]
    for text in texts:
        text.encode()
        assert not {"\x1b", "\x07", "\r", "\u202e"} & set(text)


def test_markup_of_rich_in_a_name_is_only_text() -> None:
    name = "[bold red]x[/] [link=/a]y"
    assert name in printed(history_terminal(session([1], models=[name])), width=120)
    assert "[bold red]x" in printed(terminal(replace(signal(1), model=name)))


def test_a_name_from_right_to_left_is_closed() -> None:
    text = printed(history_terminal(session([1], models=["\u05e9\u05dc\u05d5\u05dd"])))
    assert "\u05dd\u200e" in text


def test_status() -> None:
    text = printed(session_terminal(session([1, 1, 2, 2, ABOVE_CEILING, NO_READING], LIMITED)))
    assert "Meter sentiment, test set 1: active" in text
    assert "40 %, 4 steps promised" in text
    assert "▲ above ceiling, × no reading" in text
    assert "0.02 to 0.05  ·  · " not in text
    assert "0 to 0.02" in text
    assert "What to do now" in text
    assert "each model's test loss" in text


def test_status_says_what_the_count_of_consistent_histories_assumes() -> None:
    assumed = "This assumes that validation sets are drawn and replaced without looking"
    view = session([1])
    counted = replace(view, assumptions=gap_assumptions(view.spec))
    assert assumed in " ".join(printed(session_terminal(counted)).split())
    every = replace(view, assumptions=gap_assumptions(view.spec.replace(count="all")))
    assert assumed not in " ".join(printed(session_terminal(every)).split())
    apart = replace(view, assumptions=gap_assumptions(view.spec.replace(tenants=(5, 5))))
    shown = " ".join(printed(session_terminal(apart)).split())
    assert "This assumes that no team's models depend on another team's answers, nor" in shown
    assert "about people" not in shown


def test_status_shows_the_last_steps_of_many() -> None:
    text = printed(session_terminal(session([1] * 100)))
    assert "the last 20 of 100 steps" in text
    assert " 81             86             91             96" in text
    assert max(map(len, text.splitlines())) <= 80


def test_status_of_many_bands_is_a_row_of_numbers() -> None:
    assert "band █1█20█40█" in printed(session_terminal(session([1, 20, 40], MANY_BANDS)))


def test_status_before_the_first_answer_and_after_release() -> None:
    early = printed(session_terminal(session([], phase=Phase.REQUESTED)))
    assert "none yet in this test set, 86,542 needed" in early
    late = printed(session_terminal(told(released(SPEC, [(0.1, 0.1), (0.1, 0.14)]), 2, 5)))
    assert "call for: step 2." in " ".join(late.split())


def test_history() -> None:
    answers = [1, 2, 2, ABOVE_CEILING, NO_READING]
    text = printed(history_terminal(session(answers, LIMITED, losses=[0.3, 0.2, 0.1, 0.1, 0.1])))
    assert "sentiment, test set 1: active" in text
    assert "2 wider-net-v2 ■ band 2      0.02-0.05 20 %       14 to 26 % 2026-03-02" in text
    assert "above ceiling unknown" in text
    assert max(map(len, text.splitlines())) <= 80
    assert "no answers yet" in printed(history_terminal(session([])))


def test_history_after_release() -> None:
    view = told(released(SPEC, [(0.1, 0.1), (0.1, 0.14), None]), 2, 5)
    rows = printed(history_terminal(view)).splitlines()
    assert " ".join(rows[1].split()) == "step model answer gap validation test right?"
    assert rows[2].rstrip().endswith("yes")
    assert "NO: should be band 2" in rows[3]
    assert "unknown" in rows[4]


def test_history_names_tenants_where_there_are_several() -> None:
    view = session([1, 2])
    assert "tenant" not in printed(history_terminal(view))
    both = (view.signals[0], replace(view.signals[1], tenant=17))
    assert "17" in printed(history_terminal(replace(view, signals=both)))


def test_a_signed_gap_is_said_with_its_sign() -> None:
    spec = SPEC.replace(gap="signed")
    first = plain(session([1], spec, losses=[0.5]).signals[0])
    assert "Gap (test loss minus validation loss) (#): at most 0.02. Tolerance" in first
    assert "true error at most 53 %, 99 % sure" in first
    second = plain(session([2], spec, losses=[0.3]).signals[0])
    assert "(test loss minus validation loss) (#): 0.02 to 0.05." in second
    assert "true error at most 36 % and at least 31 %, 99 % sure" in second


def test_one_answer_with_drawn_edges() -> None:
    (signal,) = drawn_session([0.07]).signals
    lines = plain(signal).splitlines()
    assert lines[0] == "Step 1: gap 0.0314 to 0.0814, model baseline-v1"
    assert lines[1:3] == [
        "  .....~~~############~~..........................",
        "  0           0.05        0.1         0.15        0.2",
    ]
    assert printed(terminal(signal)).splitlines()[2].split() == lines[2].split()


@given(
    st.lists(st.floats(0, 1), min_size=1, max_size=30),
    st.sampled_from([0.0001, 0.013, 0.05, 0.2, 0.35, 1.0]),
)
def test_any_drawn_edges_can_be_printed(gaps: list[float], drawn: float) -> None:
    view = drawn_session([round(gap, 6) for gap in gaps], DRAWN.replace(drawn=drawn))
    for signal in view.signals:
        assert "#" in plain(signal)
        assert all(len(line) <= 80 for line in plain(signal).splitlines())
    # A band narrower than half a rung is drawn lighter.
    assert {"█", "▓"} & set(printed(session_terminal(view)))
    assert "band" in printed(history_terminal(view), width=120)
