"""The quick lines of a drawing lie where the planner's exact answers do."""

from __future__ import annotations

import pytest

from easeml_meter.core.questions.comparison import Setting, lines
from easeml_meter.core.questions.planning import required_labels
from easeml_meter.core.questions.sketch import sketch


@pytest.mark.parametrize(
    ("steps", "signals", "tolerance", "delta"),
    [
        ((1, 10, 100), 5, 0.01, 0.01),
        ((2, 7, 30), 5, 0.01, 0.5),
        ((5, 500), 20, 0.02, 1e-6),
        ((3, 40), 2, 0.05, 0.1),
        ((4,), 1, 0.03, 0.01),
    ],
)
def test_lines_are_near_the_exact_answers(
    steps: tuple[int, ...], signals: int, tolerance: float, delta: float
) -> None:
    tolerances = tuple(tolerance * (k + 1) for k in range(signals))
    setting = Setting(signals, tolerances, delta, None)
    found = sketch(setting, steps)
    for index, count in enumerate(steps):
        for name, spec in lines(setting, count):
            exact = required_labels(spec).labels
            assert found[name][index] == pytest.approx(exact, rel=0.02), (name, count)
