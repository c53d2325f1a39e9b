"""The curves have the published values, and every panel has every curve."""

from __future__ import annotations

import pytest

from easeml_meter.lab import curves
from easeml_meter.lab.curves import CurveForm, Curves


def value(figure: Curves, panel: str, series: str, form: CurveForm, x: float) -> int:
    [found] = [
        point.labels
        for each in figure.panels
        if each.title == panel
        for point in each.points
        if (point.series, point.form, point.x) == (series, form, x)
    ]
    return found


PANELS = ("delta = 0.01, epsilon = 0.01 to 0.05", "T = 8, epsilon = 0.01 (nonuniform: to 0.05)")


@pytest.mark.parametrize(
    ("figure", "panel", "series", "x", "published", "tightened"),
    [
        ("uniform", "delta = 0.01, epsilon = 0.01", "Resampling", 10, 380_050, 271_690),
        ("uniform", "delta = 0.01, epsilon = 0.01", "Regular Meter", 10, 108_080, 86_542),
        ("uniform", "delta = 0.01, epsilon = 0.01", "Incremental Meter", 10, 66_527, 52_197),
        ("uniform", "delta = 0.01, epsilon = 0.01", "Regular Meter", 100, 832_327, 805_314),
        ("uniform", "delta = 0.05, epsilon = 0.05", "No Adaptivity", 100, 1_659, None),
        ("uniform", "delta = 0.05, epsilon = 0.05", "Incremental Meter", 100, 4_415, None),
        ("signals", "m = 10", "Regular Meter", 50, 602_665, None),
        ("signals", "m = 10", "Incremental Meter", 50, 151_722, None),
        ("signals", "m = 5", "Incremental Meter", 100, 118_420, 104_242),
        ("nonuniform", "delta = 0.01", "Regular, Nonuniform", 10, 100_033, 86_542),
        ("nonuniform", "delta = 0.01", "Incremental, Nonuniform", 10, 38_005, 27_169),
        ("tenants", PANELS[0], "Regular, Two Tenants", 10, 63_261, None),
        ("time_travel", "T = 10", "Regular, Time Travel", 3, 75_892, None),
        ("time_travel", "T = 5", "Regular, Time Travel", 2, 43_975, None),
        ("time_travel", "T = 10", "Incremental, Time Travel", 7, 38_005, 27_169),
        ("case_study", PANELS[1], "Resampling", 0.9, 203_008, None),
        ("case_study", PANELS[1], "Incremental Meter", 0.99, 62_289, 47_765),
    ],
)
def test_points_of_the_figures(
    *, figure: str, panel: str, series: str, x: float, published: int, tightened: int | None
) -> None:
    drawn: Curves = getattr(curves, figure)()
    assert value(drawn, panel, series, CurveForm.PUBLISHED, x) == published
    if tightened is not None:
        found = value(drawn, panel, series, CurveForm.TIGHTENED, x)
        assert found == pytest.approx(tightened, rel=0.001)


@pytest.mark.parametrize(
    ("figure", "panels", "xs"),
    [
        ("uniform", 4, {10.0, 100.0}),
        ("signals", 4, {10.0, 100.0}),
        ("nonuniform", 2, {10.0, 100.0}),
        ("tenants", 1, {10.0, 100.0}),
        ("time_travel", 2, {1.0, 5.0}),
        ("case_study", 1, {0.9, 0.95, 0.99}),
    ],
)
def test_every_panel_has_every_curve_over_the_whole_range(
    figure: str, panels: int, xs: set[float]
) -> None:
    drawn: Curves = getattr(curves, figure)()
    assert len(drawn.panels) == panels
    series = {point.series for point in drawn.panels[0].points}
    for panel in drawn.panels:
        for name in series:
            for form in CurveForm:
                at = {p.x for p in panel.points if (p.series, p.form) == (name, form)}
                assert xs <= at


def test_a_tightened_point_never_needs_more_labels() -> None:
    for drawn in (curves.uniform(), curves.time_travel(), curves.tenants()):
        for panel in drawn.panels:
            for point in panel.points:
                if point.form is CurveForm.TIGHTENED:
                    published = value(
                        drawn, panel.title, point.series, CurveForm.PUBLISHED, point.x
                    )
                    assert point.labels < published
