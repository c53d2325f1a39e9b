"""Sentences of meters, word for word."""

from __future__ import annotations

import pytest

from easeml_meter.promise.meter import Meter
from easeml_meter.promise.words import answers, promise_of, statistic, together, words_of

GAP = 'question = {ask = "gap", tolerance = 0.05, edges = [0.2]}\n'
BETWEEN = (
    "lies between the lower edge of the reported band minus that tolerance and the upper edge plus "
    "it"
)


@pytest.mark.parametrize(
    ("settings", "asked", "promised"),
    [
        (
            GAP,
            "the gap between validation loss and test loss",
            "With probability at least 0.9, in all 10 steps together, each model's test loss is "
            f"within 0.05 of its true loss. So its true gap {BETWEEN}.",
        ),
        (
            f"{GAP}renewal = {{window = 3}}\nbudget = {{steps = 4}}",
            "the gap between validation loss and the loss on the last 3 batches",
            "With probability at least 0.9, in the first 4 windows together, each model's loss on "
            "its window is within 0.05 of its true loss, averaged over the window.",
        ),
        (
            f'{GAP}sample = {{loss = "recall[a]"}}',
            "the gap between validation and test set in recall",
            "With probability at least 0.9, in all 10 steps together, each model's recall on the "
            f"test set is within 0.05 of its true one. So its true gap {BETWEEN}.",
        ),
        (
            'question = {ask = "gap", tolerance = 0.05, edges = [0.2], ceiling = 0.3}',
            "the gap between validation loss and test loss",
            "With probability at least 0.9, in all 10 steps together, each model's test loss is "
            'within 0.05 of its true loss (or is reported as "above the ceiling", 0.3: then its '
            f"true loss is at least 0.25). So its true gap {BETWEEN}.",
        ),
        (
            'question = {ask = "n - o > 0 +/- 0.02", disagreement = 0.1}\nbudget = {steps = 1}',
            "n - o > 0 +/- 0.02",
            "With probability at least 0.9, in its one step, every model that passes is truly more "
            "accurate than the old one. Nothing is promised about a model that fails.",
        ),
        (
            'question = {ask = "alarm", g = 0.08}',
            "is the true loss at most the validation loss and 0.08 more?",
            "With probability at least 0.9, in all 10 steps together, the true loss of every model "
            "that is ok is at most its validation loss and 0.08 more. Nothing is promised about an "
            "alarm.",
        ),
    ],
)
def test_a_promise_is_said_in_one_sentence(settings: str, asked: str, promised: str) -> None:
    meter = Meter.loads(settings)
    assert (statistic(meter), promise_of(meter)) == (asked, promised)


def test_later_windows_cost_another_delta() -> None:
    meter = Meter.loads(f"{GAP}renewal = {{window = 3}}\nbudget = {{steps = 4}}")
    assert promise_of(meter, 5).startswith("With probability at least 0.8, in the first 8 windows")
    said = "for the first 8 windows together (4 further ones cost another 0.1)"
    assert together(meter, 5) == said


@pytest.mark.parametrize(("number", "verb"), [(1, "is"), (2, "was")])
def test_a_top_up_shares_the_promise(number: int, verb: str) -> None:
    meter = Meter.loads(f"{GAP}renewal = {{then = 6}}")
    assert together(meter, number).endswith(f"before and after it {verb} topped up")
    assert "in all 10 steps and 6 more after the top-up together" in promise_of(meter)


def test_every_answer_has_a_name() -> None:
    floor = 'question = {ask = "gap", tolerance = 0.05, edges = [0.2], floor = 0.8}\n'
    meter = Meter.loads(f'{floor}sample = {{loss = "precision[a]", models = true}}')
    named = ("band 1", "band 2", "below the floor", "too few predicted positives", "no reading")
    assert answers(meter) == named
    assert words_of(meter) is None
