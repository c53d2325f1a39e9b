"""`meter lab figures` from end to end: pictures, data, page."""

from __future__ import annotations

import csv
import html
import re
import struct
from pathlib import Path

import pytest

from easeml_meter.errors import InvalidInput, MeterError
from easeml_meter.lab import figures
from easeml_meter.lab.curves import CurveForm, time_travel, uniform
from easeml_meter.lab.drawings import panels, signs, ticks
from easeml_meter.lab.figures import FIGURES, Report, draw, tally
from easeml_meter.lab.numbers import ClaimVerdict

Drawn = tuple[Path, Report, list[str]]


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Drawn:
    """Draw every figure, once."""
    out = tmp_path_factory.mktemp("figures")
    shown: list[str] = []
    return out, draw(out, progress=shown.append), shown


def table(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def test_every_figure_is_drawn(drawn: Drawn) -> None:
    out, report, shown = drawn
    assert shown == [*FIGURES, "index page"]
    assert [drawing.name for drawing in report.drawings] == list(FIGURES)
    for name in FIGURES:
        svg = (out / f"{name}.svg").read_text(encoding="utf-8")
        assert svg.startswith("<svg")
        assert FIGURES[name].number in svg
        assert "NaN" not in svg
        png = (out / f"{name}.png").read_bytes()
        assert png.startswith(b"\x89PNG")
        width, height = struct.unpack(">II", png[16:24])
        assert width >= 600
        assert height >= 300
        assert table(out / f"{name}.csv")
    assert (out / "index.html").exists()


def test_the_csv_holds_what_is_drawn(drawn: Drawn) -> None:
    out, *_ = drawn
    rows = table(out / "uniform.csv")
    assert list(rows[0]) == ["panel", "series", "bound", "steps T", "labels"]
    at = {(r["panel"], r["series"], r["bound"], r["steps T"]): int(r["labels"]) for r in rows}
    headline = "delta = 0.01, epsilon = 0.01"
    assert at[headline, "Regular Meter", "as published", "10"] == 108_080
    assert at[headline, "Regular Meter", "tightened", "10"] == pytest.approx(86_542, rel=0.001)
    assert len(rows) == len(at) == sum(len(panel.points) for panel in uniform().panels)
    by_reverts = {
        (r["panel"], r["series"], r["bound"], r["reverts B"]): int(r["labels"])
        for r in table(out / "time-travel.csv")
    }
    for panel in time_travel().panels:
        for point in panel.points:
            assert by_reverts[panel.title, point.series, point.form, str(point.x)] == point.labels


def test_the_csv_of_trees_and_traces(drawn: Drawn) -> None:
    out, *_ = drawn
    nodes = table(out / "trees.csv")
    assert [row["node"] for row in nodes if row["pruned"] == "1"] == ["2-1"]
    assert sum(int(row["counted by the paper"]) for row in nodes) == 6 + 5
    steps = table(out / "traces.csv")
    assert len(steps) == 2 * 2 * 8
    for row in steps:
        gap = abs(float(row["validation loss"]) - float(row["test loss"]))
        assert float(row["gap"]) == pytest.approx(gap)
        if row["meter"] == "regular":
            assert float(row["band lower"]) <= gap <= float(row["band upper"])
        else:
            assert gap <= float(row["band upper"])


def test_numbers_claims_and_misprints_are_written(drawn: Drawn) -> None:
    out, report, _ = drawn
    numbers = table(out / "numbers.csv")
    assert len(numbers) == len(report.numbers)
    [tenants] = [row for row in numbers if row["printed"] == "71K"]
    assert (tenants["computed"], tenants["verdict"]) == ("63261", "does not hold")
    claims = table(out / "claims.csv")
    assert claims == [{key: str(value) for key, value in row.items()} for row in report.claims()]
    assert len(table(out / "misprints.csv")) == len(report.misprints)


def test_the_page_says_what_was_claimed_and_found(drawn: Drawn) -> None:
    out, report, _ = drawn
    page = html.unescape((out / "index.html").read_text(encoding="utf-8"))
    for row in report.claims():
        assert str(row["claim"]) in page
        assert str(row["found"]) in page
    for number in report.numbers:
        assert number.printed in page
        assert number.shown in page
    for misprint in report.misprints:
        assert misprint.printed in page
        assert misprint.formula in page
    judged = [row["verdict"] for row in report.claims()] + [str(n.verdict) for n in report.numbers]
    for verdict in ClaimVerdict:
        badges = re.findall(rf'class="verdict \w+">{verdict}<', page)
        assert len(badges) == judged.count(str(verdict))
    assert "not published as numbers" in page
    assert "no team's models depend on another team's answers" in page
    assert "fixed in advance" in page


def test_the_page_is_one_file_that_loads_nothing(drawn: Drawn) -> None:
    out, report, _ = drawn
    page = (out / "index.html").read_text(encoding="utf-8")
    assert not re.search(r"<(script|link|img|iframe|object|embed)\b", page)
    assert not re.search(r"@import|url\(", page)
    links = re.findall(r'(?:href|src)="([^"]*)"', page)
    assert links
    for link in links:
        assert link.startswith("#") or (out / link).exists(), link
    ids = re.findall(r'\bid="([^"]*)"', page)
    assert len(ids) == len(set(ids))
    assert {link[1:] for link in links if link.startswith("#")} <= set(ids)
    assert 'name="viewport"' in page
    assert "prefers-color-scheme: dark" in page
    assert page.count("<svg") == sum(len(drawing.panels) for drawing in report.drawings)


def test_panels_on_the_page_take_its_ink(drawn: Drawn) -> None:
    _, report, _ = drawn
    for drawing in report.drawings:
        for panel in drawing.panels:
            assert "currentColor" in panel
            assert 'fill="white"/>' not in panel.split("<g", 1)[0]  # no background of its own
            assert len(panel) < 40_000


def test_only_some_figures(tmp_path: Path) -> None:
    report = draw(tmp_path / "deep" / "folder", ["trees", "trees"])
    assert [drawing.name for drawing in report.drawings] == ["trees"]
    written = {path.name for path in (tmp_path / "deep" / "folder").iterdir()}
    tables = {f"{name}.csv" for name in ("trees", "numbers", "claims", "misprints")}
    assert written == {"trees.svg", "trees.png", "index.html"} | tables


def test_bad_folders_are_refused_before_anything_is_computed(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("mine", encoding="utf-8")
    began: list[str] = []
    for out in (file, file / "below", Path("/proc/nowhere"), tmp_path / ("long" * 100)):
        with pytest.raises(InvalidInput, match="out"):
            draw(out, progress=began.append)
    assert began == []
    assert file.read_text(encoding="utf-8") == "mine"


def test_missing_extras_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(figures, "find_spec", lambda name: None if name == "sklearn" else object())
    with pytest.raises(MeterError, match=r"sklearn.*easeml-meter\[lab\]"):
        draw(tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_every_curve_has_a_sign_in_the_legend() -> None:
    words = [sign.word for sign in signs(uniform())]
    assert words == [
        "Resampling",
        "Regular Meter",
        "Incremental Meter",
        "No Adaptivity",
        *CurveForm,
    ]
    assert len(panels(uniform())) == 4


def test_ticks_are_round_and_few() -> None:
    assert ticks(20_000, 900_000) == [20_000, 50_000, 100_000, 200_000, 500_000]
    assert ticks(800, 6e6) == [1e3, 1e4, 1e5, 1e6]


def test_tally() -> None:
    holds, roughly, fails = ClaimVerdict
    assert tally([holds, fails, fails, holds, roughly]) == "2 hold, 1 holds roughly, 2 do not hold"
