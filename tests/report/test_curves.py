from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.report.parsing import drawing, nodes, texts
from tests.report.sessions import LIMITED, SPEC, released, session
from tests.report.test_checks import losses, told

from easeml_meter.report.curves import curves_svg
from easeml_meter.report.palette import TOLERANCE, WRONG

MARCH = [(0.2 - 0.01 * step, 0.2 - 0.002 * step) for step in range(8)]


def test_both_losses_and_the_promise_are_drawn() -> None:
    root = drawing(curves_svg(released(SPEC, MARCH)))
    kinds = [node.get("class") for node in nodes(root, "g")]
    assert kinds.count("m-validation") == kinds.count("m-test") == 2  # the curve, the legend
    assert {"validation loss", "test loss", "true loss, as promised"} <= set(texts(root))
    assert {str(step) for step in range(1, 9)} <= set(texts(root))
    grey = [node for node in nodes(root, "path") if node.get("fill") == TOLERANCE]
    assert len(grey) == 2


def test_the_lines_differ_by_more_than_colour() -> None:
    root = drawing(curves_svg(released(SPEC, MARCH)))
    dashes = {
        (node.get("class"), path.get("stroke-dasharray"))
        for node in nodes(root, "g")
        for path in node
        if node.get("class") in ("m-validation", "m-test") and path.get("fill") == "none"
    }
    assert dashes == {("m-validation", None), ("m-test", "5 3")}


def test_a_wrong_answer_is_crossed_out() -> None:
    right = released(SPEC, MARCH)
    assert "wrong answer" not in texts(drawing(curves_svg(right)))
    root = drawing(curves_svg(told(right, 3, 5)))
    assert "wrong answer" in texts(root)
    crosses = [node for node in nodes(root, "path") if node.get("stroke") == WRONG]
    assert len(crosses) == 2  # at the step, and in the legend
    (said,) = nodes(root, "desc")
    assert "step 3" in (said.text or "")


def test_before_release_there_is_nothing_to_draw() -> None:
    assert any("not been released" in words for words in texts(drawing(curves_svg(session([1])))))


@given(
    pairs=st.lists(st.none() | st.tuples(losses, losses), min_size=1, max_size=90),
    meter=st.text(),
)
def test_any_losses_can_be_drawn(pairs: list[tuple[float, float] | None], meter: str) -> None:
    view = replace(released(LIMITED, pairs), meter=meter)
    svg = curves_svg(view)
    root = drawing(svg)
    assert "nan" not in svg.replace(meter, "") or "nan" in meter
    assert float(root.get("width", "")) <= 740


@pytest.mark.parametrize("steps", [1, 2, 10, 100, 400])
def test_it_stays_small(steps: int) -> None:
    pairs = [(0.3 - step / 4000, 0.3 - step / 9000) for step in range(steps)]
    svg = curves_svg(released(SPEC.replace(steps=steps), pairs))
    assert len(svg.encode()) < 40_000
    assert svg == curves_svg(released(SPEC.replace(steps=steps), pairs))
