"""The drawing of rules in loops of edits."""

from __future__ import annotations

from tests.report.parsing import boxes, drawing, nodes, texts

from easeml_meter.report.loops import Bars, loops_svg

ROWS = [Bars("higher", (1.0, 1.0), (0.9, 1.0)), Bars("a <gate>", (0.08, 0.0), (0.346, 0.999))]


def test_each_rule_has_four_bars_and_their_numbers() -> None:
    root = drawing(loops_svg("Loops of 50 edits", ROWS))
    said = texts(root)
    for words in ("higher", "a <gate>", "8.0 %", "0 %", "35 %", "100 %", "a gain of 5 points"):
        assert words in said
    (description,) = nodes(root, "desc")
    assert "a <gate>: a useless edit in 8.0 % of loops, attacked in 0 %" in (description.text or "")


def test_bars_are_as_long_as_their_share() -> None:
    paths = [node.attrib["d"] for node in nodes(drawing(loops_svg("Loops", ROWS[1:])), "path")]
    widths = [width for path in paths for _, _, width, _ in boxes(path)]
    tracks, bars = widths[:8:2], widths[1:8:2]
    assert len(set(tracks)) == 1
    shares = [bar / track for bar, track in zip(bars, tracks, strict=True)]
    assert [round(share, 2) for share in shares] == [0.08, 0.0, 0.35, 1.0]
