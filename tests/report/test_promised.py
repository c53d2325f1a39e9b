from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.report.sessions import SPEC, over, released, session

from easeml_meter.core.views import SessionView
from easeml_meter.report.promised import MOST, best_promise, bounded, mark, promised_svg, tones
from easeml_meter.report.svg import text_width
from easeml_meter.spec import Gap, MeterSpec


def told(answers: list[int], losses: list[float], spec: MeterSpec = SPEC) -> SessionView:
    """Give a session in which these answers were told to models of these losses."""
    return session(answers, spec, losses=losses)


def parsed(svg: str) -> ElementTree.Element:
    """Read a drawing back; it must be safe under a strict policy."""
    root = ElementTree.fromstring(svg)  # noqa: S314  our own
    for node in root.iter():
        assert "style" not in node.attrib
        assert "nan" not in [node.get(name) for name in ("x", "y", "d", "height", "width")]
    return root


def kinds(svg: str, kind: str) -> list[ElementTree.Element]:
    """Give the elements of a class."""
    return [node for node in parsed(svg).iter() if kind in node.get("class", "").split()]


def heights(svg: str) -> list[tuple[float, float]]:
    """Give the losses that the bars cover, read back from the drawing: above, then below."""
    ticks = [node for node in kinds(svg, "axis") if (node.text or "").endswith(" %")]
    ticks = [node for node in ticks if ":" not in (node.text or "")]
    losses = [float((node.text or "").removesuffix(" %")) / 100 for node in ticks]
    places = [float(node.get("y", "")) - 4 for node in ticks]
    scale = (losses[-1] - losses[0]) / (places[0] - places[-1])
    found = []
    for node in [*kinds(svg, "above"), *kinds(svg, "below")]:
        top = (places[0] - float(node.get("y", ""))) * scale
        found.append((top - float(node.get("height", "")) * scale, top))
    return found


def test_a_bar_covers_what_the_promise_leaves_and_nothing_else() -> None:
    view = told([2], [0.4])
    (signal,) = view.signals
    assert signal.true_gap is not None
    near, far = signal.true_gap
    bars = heights(promised_svg(view))
    expected = [(0.4 + near, 0.4 + far), (0.4 - far, 0.4 - near)]
    for bar, edges in zip(bars, expected, strict=True):
        assert bar == pytest.approx(edges, abs=0.005)


@pytest.mark.parametrize("change", [{"protocol": "incremental"}, {"gap": Gap.SIGNED}])
def test_an_answer_that_tells_an_upper_end_leaves_out_nothing_below(
    change: dict[str, object],
) -> None:
    spec = SPEC.replace(**change)
    view = told([2], [0.3], spec)
    (signal,) = view.signals
    if spec.gap is Gap.SIGNED:
        assert signal.true_loss_at_least is not None
        lowest = signal.true_loss_at_least
    else:
        assert signal.true_loss_at_least is None
        lowest = 0.0
    bars = heights(promised_svg(view))
    assert min(low for low, _ in bars) == pytest.approx(lowest, abs=0.005)
    assert max(high for _, high in bars) == pytest.approx(signal.true_loss_at_most, abs=0.005)


def test_a_bound_that_bounds_nothing_has_no_cap() -> None:
    worst = SPEC.signals
    view = told([1, worst], [0.2, 0.1])
    assert bounded(view.signals[1]) is None
    assert [node.text for node in kinds(promised_svg(view), "cap")] != []
    assert len(kinds(promised_svg(view), "cap")) == 1
    assert best_promise(view) is view.signals[0]
    assert "no upper bound" in promised_svg(view)


def test_every_column_leads_to_its_line_and_has_its_name() -> None:
    view = told([1, 2, 1], [0.2, 0.15, 0.1])
    svg = promised_svg(view)
    links = [node for node in parsed(svg).iter() if node.tag.endswith("a")]
    assert [link.get("href") for link in links] == ["#answer-1", "#answer-2", "#answer-3"]
    for link, signal in zip(links, view.signals, strict=True):
        assert signal.model in link.get("aria-label", "")


def test_answers_left_are_slots_and_only_the_newest_are_drawn() -> None:
    view = replace(told([1], [0.2]), steps_left=3)
    assert len(kinds(promised_svg(view), "slot")) == 3
    long = told([1] * (MOST + 9), [0.2] * (MOST + 9))
    assert promised_svg(long).count("<a ") == MOST
    assert promised_svg(long, phone=True).count("<a ") == 12


def test_without_a_promise_or_a_validation_loss_there_is_no_bar() -> None:
    view = session([-3, -5, 1])
    svg = promised_svg(view)
    assert kinds(svg, "above") == kinds(svg, "below") == []


@given(
    answers=st.lists(st.tuples(st.integers(1, SPEC.signals), st.floats(0, 1)), max_size=60),
    name=st.text(max_size=80),
    phone=st.booleans(),
)
def test_any_session_can_be_drawn(answers: list[tuple[int, float]], name: str, phone: bool) -> None:
    view = told([answer for answer, _ in answers], [loss for _, loss in answers])
    named = tuple(replace(signal, model=name) for signal in view.signals)
    svg = promised_svg(replace(view, signals=named), phone=phone)
    parsed(svg)


def test_after_release_the_test_losses_are_drawn_into_the_promises() -> None:
    view = released(SPEC, [(0.2, 0.21), None, (0.1, 0.3)])
    for phone in (False, True):
        svg = promised_svg(view, phone=phone)
        assert len(kinds(svg, "ring")) == 2
        (line,) = kinds(svg, "truth")
        assert line.get("d", "").count("M") == 2, "the line is broken where nothing is known"
    lowest, highest = (float(node.get("cy", "")) for node in kinds(promised_svg(view), "ring"))
    assert highest < lowest
    assert "test error 30 %" in svg
    assert "best promise" not in svg


def test_before_release_there_is_no_truth_to_draw() -> None:
    svg = promised_svg(told([1, 2], [0.2, 0.1]))
    assert not kinds(svg, "ring")
    assert not kinds(svg, "truth")
    assert "test error" not in svg


def test_only_the_truths_of_the_columns_drawn_are_drawn() -> None:
    view = released(SPEC, [(0.1, 0.12)] * MOST + [(0.1, 0.5)] * 2)
    rings = kinds(promised_svg(view), "ring")
    assert len(rings) == MOST
    assert len({node.get("cy") for node in rings[-2:]}) == 1
    assert rings[-1].get("cy") != rings[0].get("cy")


def test_the_legend_has_the_colours_of_the_bars() -> None:
    view = told([1, 3, 1, 5], [0.4, 0.3, 0.2, 0.1])
    drawn = {node.get("class", "").split()[0] for node in kinds(promised_svg(view), "above")}
    assert {f"fill-{tone}" for tone in tones(view)} == drawn
    assert tones(session([])) == [1]


def test_on_a_phone_numbers_keep_away_from_the_axis_and_from_each_other() -> None:
    svg = promised_svg(told([1, 1, 1, 1], [0.2467, 0.2, 0.1, 0.0912]), phone=True)
    numbers = kinds(svg, "halo")
    assert len(numbers) == 4  # of the first and the last, and no words on the line of the best
    for node in numbers:
        half = text_width(node.text or "", 12) / 2
        assert float(node.get("x", "")) - half >= 46
        assert float(node.get("x", "")) + half <= 320


def test_the_sign_of_bands_that_an_answer_reaches_over_names_both() -> None:
    """Near the ceiling: pages show it where the words are only heard."""
    (signal,) = session([1], SPEC.replace(ceiling=0.1)).signals
    assert mark(over(signal, (0.0, 0.02))) == "1"
    assert mark(over(signal, (0.0, 0.05))) == "1-2"
