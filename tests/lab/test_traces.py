"""What the meters tell along a history; and the histories themselves."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from easeml_meter.errors import InvalidInput
from easeml_meter.lab import histories
from easeml_meter.lab.meters import Protocol
from easeml_meter.lab.traces import Trace, TracedStep, meter_for, planned, readings

EDGES = (0.05, 0.1, 0.2, 0.3)
GAPS = (0.0, 0.04, 0.05, 0.12, 0.35, 0.02, 0.2, 0.1)


def a_trace(tolerance: float = 0.05) -> Trace:
    meter, labels = planned(EDGES, tolerance)
    steps = tuple(TracedStep(f"change {gap}", round(0.4 - gap, 2), 0.4) for gap in GAPS)
    return Trace("made up", "for a test", labels, meter, steps)


def test_a_regular_meter_tells_the_band_of_each_gap() -> None:
    told = readings(a_trace(), Protocol.REGULAR)
    assert [reading.answer for reading in told] == [1, 1, 2, 3, 5, 1, 4, 3]
    assert (told[3].lower, told[3].upper, told[3].below) == (0.1, 0.2, 0.1)
    assert told[3].tolerance == 0.05


def test_an_incremental_meter_tells_the_worst_so_far() -> None:
    told = readings(a_trace(), Protocol.INCREMENTAL)
    assert [reading.answer for reading in told] == [1, 1, 2, 3, 5, 5, 5, 5]
    assert told[-1].below == 0  # of this very model, only an upper edge is known


def test_the_incremental_meter_is_more_exact_on_the_same_labels() -> None:
    trace = a_trace()
    regular, incremental = (
        meter_for(trace, each).question.tolerances[0] for each in list(Protocol)[:2]
    )
    assert incremental < regular


def test_too_few_labels_are_refused() -> None:
    trace = a_trace()
    short = Trace(trace.title, trace.story, trace.labels // 2, trace.meter, trace.steps)
    with pytest.raises(InvalidInput):
        readings(short, Protocol.REGULAR)


def test_the_digits_history_visibly_overfits_and_repeats() -> None:
    trace = histories.digits()
    assert len(trace.steps) == 8
    assert trace.labels + 180 == 1797
    gaps = [step.gap for step in trace.steps]
    assert max(gaps) > 0.2
    assert max(gaps) > 2 * gaps[0]
    assert trace.steps[5].validation_loss == 0  # trained on the validation set
    answers = [reading.answer for reading in readings(trace, Protocol.REGULAR)]
    assert answers[-1] < max(answers)  # the regular meter comes down again
    histories.digits.cache_clear()
    assert histories.digits() == trace


def test_the_made_history_keeps_the_promise() -> None:
    trace = histories.made()
    assert len(trace.steps) == 8
    assert float(trace.meter.question.tolerances[0]) == 0.01
    for step in trace.steps:
        assert step.true_loss is not None
        assert abs(step.test_loss - step.true_loss) <= 0.01
    assert trace.steps[-1].gap < trace.steps[-2].gap  # a new validation set


def test_the_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    example = Path(__file__).parents[2] / "examples" / "development_history.py"
    runpy.run_path(str(example), run_name="__main__")
    out = capsys.readouterr().out
    for trace in histories.histories():
        assert trace.title in out
        assert all(step.change in out for step in trace.steps)
