from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.report.parsing import boxes, drawing, nodes, texts
from tests.report.pictures import IMAGES, MARCHING, PICTURES
from tests.report.sessions import INCREMENTAL, LIMITED, MANY_BANDS, SPEC, over, session
from tests.report.test_words import ANY_TEXT

from easeml_meter.core.signals import ABOVE_CEILING, NO_READING
from easeml_meter.report.gauge import plain
from easeml_meter.report.meter import meter_svg
from easeml_meter.report.palette import TOLERANCE, band_colours
from easeml_meter.report.svg import BOLD, MARGIN, text_width
from easeml_meter.spec import MeterSpec

EVERY_ANSWER = [1, 2, 3, 4, 5, ABOVE_CEILING, NO_READING]


def columns(svg: str) -> list[str]:
    """The tips of the columns, one per step."""
    root = drawing(svg)
    return [node.text or "" for node in nodes(root, "title")][1:]


def test_a_column_per_step_with_its_band_in_words() -> None:
    tips = columns(meter_svg(session([1, 2, ABOVE_CEILING, NO_READING], LIMITED)))
    assert tips == [
        "1 \u2068baseline-v1\u2069: band 1, gap 0 to 0.02, promised 0 to 0.03",
        "2 \u2068wider-net-v2\u2069: band 2, gap 0.02 to 0.05, promised 0.01 to 0.06",
        "3 \u2068augmented-v3\u2069: above ceiling",
        "4 \u2068tuned lr-v4\u2069: no reading",
    ]


def test_bars_are_the_gap_told_and_grey_the_tolerance() -> None:
    """Bands are 30 high: the bar fills its band, the grey has the scale of the next one."""
    root = drawing(meter_svg(session([2])))
    colour = band_colours(5)[1]
    bars = [
        b
        for node in nodes(root, "g")
        for p in node
        for b in boxes(p.get("d") or "")
        if p.get("fill") == colour and b[0] == 0
    ]
    assert bars == [(0, 90, 24, 30)]
    grey = [boxes(p.get("d") or "") for p in nodes(root, "path") if p.get("fill") == TOLERANCE]
    (above, below), *_ = grey
    top = below[1] - 120
    assert above[3] == pytest.approx(30 * 0.01 / 0.05)
    assert above[1] == pytest.approx(top + 90 - above[3])
    assert below[3] == pytest.approx(30 * 0.01 / 0.02)


def test_an_incremental_bar_stands_on_the_ground() -> None:
    root = drawing(meter_svg(session([3], INCREMENTAL)))
    colour = band_colours(5)[2]
    bars = [boxes(p.get("d") or "")[0] for p in nodes(root, "path") if p.get("fill") == colour]
    assert (0, 60, 24, 90) in bars


def test_a_bar_over_several_bands_has_the_number_of_the_lowest_in_that_one() -> None:
    """Near the ceiling: the 1 stood beside the edges of band 2."""
    spec = SPEC.replace(ceiling=0.1)
    view = session([1], spec, left=0)
    heights = [
        float(node.get("y") or 0)
        for edges in ((0.0, 0.02), (0.0, 0.05))
        for node in nodes(
            drawing(meter_svg(replace(view, signals=(over(view.signals[0], edges),)))),
            "text",
        )
        if node.text == "1" and node.get("x") == "12" and node.get("fill")
    ]
    assert heights == [139, 139]


def test_a_tolerance_is_never_too_thin_to_see() -> None:
    thin = MeterSpec.uniform(signals=2, tolerance=1e-6, edges=[0.5], steps=3, delta=0.01)
    root = drawing(meter_svg(session([1], thin)))
    grey = [boxes(p.get("d") or "") for p in nodes(root, "path") if p.get("fill") == TOLERANCE]
    assert grey[0][0][3] == 3


@pytest.mark.parametrize("answer", EVERY_ANSWER)
def test_every_answer_is_written_out(answer: int) -> None:
    """Colour is never alone: the number, or the name, stands in the column."""
    with_it = texts(drawing(meter_svg(session([answer], LIMITED, left=0))))
    without = texts(drawing(meter_svg(session([], LIMITED, left=0))))
    names = {ABOVE_CEILING: "above ceiling", NO_READING: "no reading"}
    assert names.get(answer, str(answer)) in with_it
    assert names.get(answer, "baseline-v1") not in without


def test_answers_without_a_band_have_signs_of_their_own() -> None:
    def signs(answer: int) -> set[str]:
        root = drawing(meter_svg(session([answer], LIMITED)))
        return {node.get("d") or "" for node in nodes(root, "path")}

    odd = [signs(answer) for answer in EVERY_ANSWER if answer < 0]
    for index, paths in enumerate(odd):
        others = set().union(*(each for other, each in enumerate(odd) if other != index))
        assert paths - others


@pytest.mark.parametrize("steps", [0, 1, 10, 24, 25, 100, 400])
def test_it_remains_readable(steps: int) -> None:
    svg = meter_svg(
        session([1 + step % 5 for step in range(steps)], SPEC.replace(steps=max(1, steps)))
    )
    root = drawing(svg)
    assert len(columns(svg)) == steps
    assert float(root.get("width", "")) <= 800
    if steps <= 12:
        assert float(root.get("width", "")) <= 400, "fits a phone"
    written = texts(root)
    assert all(len(words) < 80 for words in written)
    named = [words for words in written if words.startswith("baseline")]
    assert bool(named) == (0 < steps <= 24)
    sizes = [float(n.get("font-size", 9)) for n in root.iter() if n.get("font-size")]
    assert min(sizes) >= 9


def test_400_steps_are_under_400_kilobytes() -> None:
    names = [f"experiments/sweep-{step}/checkpoint-with-a-long-name" for step in range(400)]
    svg = meter_svg(session([1 + step % 5 for step in range(400)], models=names))
    assert len(svg.encode()) < 120_000


def test_steps_still_promised_are_empty_columns() -> None:
    written = texts(drawing(meter_svg(session([1, 2]))))
    assert "10" in written
    assert "step still promised" in written
    assert "step still promised" not in texts(drawing(meter_svg(session([1] * 10))))


def test_the_history_is_told_in_words() -> None:
    (said,) = nodes(drawing(meter_svg(session([1, 1, 2]))), "desc")
    assert said.text is not None
    assert said.text.startswith("Steps 1 to 2: band 1. Step 3: band 2. Band 1 is a gap from 0 to")
    (worst,) = nodes(drawing(meter_svg(session([1], INCREMENTAL))), "desc")
    assert "worst band so far" in (worst.text or "")


def test_wide_names_stay_inside() -> None:
    """A name leans down to the left, by its width times 0.71, from the middle of its column."""
    svg = meter_svg(session([1, 2, 3], models=["W" * 40] * 3, meter="M" * 60, left=0))
    for node in nodes(drawing(svg), "text"):
        words, size = node.text or "", float(node.get("font-size", 10))
        if "rotate(-45)" in (node.get("transform") or ""):
            x = float(re.findall(r"[\d.]+", node.get("transform") or "")[0])
            assert len(words) * 0.95 * size * 0.71 <= x
        elif node.get("font-weight"):
            assert text_width(words, BOLD) <= 350 - MARGIN


def test_a_thousand_bands() -> None:
    many = MeterSpec.uniform(signals=1000, tolerance=0.01, steps=3, delta=0.01)
    root = drawing(meter_svg(session([1, 1000], many)))
    assert float(root.get("height", "")) < 700


def test_many_bands_still_carry_their_numbers() -> None:
    written = texts(drawing(meter_svg(session([1, 20, 40], MANY_BANDS))))
    assert {"20", "40"} <= set(written)


@given(name=ANY_TEXT, meter=ANY_TEXT)
def test_hostile_names_are_only_text(name: str, meter: str) -> None:
    drawing(meter_svg(session([1], models=[name], meter=meter)))


def test_markup_in_names_is_shown_as_it_is() -> None:
    svg = meter_svg(session([1], models=["<g a='1'>&amp;"], meter='<script>"'))
    root = drawing(svg)
    assert "<g a='1'>&amp;" in texts(root)
    assert "<script" not in svg
    assert (root[0].text or "").startswith('Meter <script>"')


def test_nothing_but_the_view_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    before = meter_svg(session(EVERY_ANSWER, LIMITED))
    monkeypatch.setenv("TZ", "Pacific/Auckland")
    monkeypatch.setenv("COLUMNS", "20")
    assert meter_svg(session(EVERY_ANSWER, LIMITED)) == before


@given(answers=st.lists(st.sampled_from(EVERY_ANSWER), max_size=70), left=st.integers(0, 30))
def test_any_history_can_be_drawn(answers: list[int], left: int) -> None:
    root = drawing(meter_svg(session(answers, LIMITED, left=left)))
    height = float(root.get("height", ""))
    for node in nodes(root, "text"):
        assert float(node.get("y", 0)) < height


@pytest.mark.parametrize("gap", ["absolute", "signed"])
@pytest.mark.parametrize("steps", [2, 40])
def test_the_caption_fits_into_the_picture(steps: int, gap: str) -> None:
    """A narrow meter ended in the middle of "bands equally high"."""
    drawn = meter_svg(session([1] * steps, SPEC.replace(steps=steps, gap=gap)))
    width = re.search(r'width="([\d.]+)"', drawn)
    caption = re.search(r">(height: [^<]*)<", drawn)
    assert width is not None
    assert caption is not None
    assert text_width(caption[1], 11) <= float(width[1]) - 2 * MARGIN
    assert ("bands equally high" in caption[1]) == (steps == 40)


PAGE = (IMAGES.parent / "reading-the-meter.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", PICTURES)
def test_picture(name: str) -> None:
    assert f"(images/{name})" in PAGE
    again = "run: python -m tests.report.pictures"
    assert (IMAGES / name).read_text(encoding="utf-8") == PICTURES[name], again


def test_the_terminal_on_the_page() -> None:
    assert f"```text\n{plain(MARCHING.signals[-1])}\n```" in PAGE
