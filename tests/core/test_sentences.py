"""What an answer promises in a sentence: for every kind of answer, with its own numbers."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from easeml_meter.core.sentences import sentence
from easeml_meter.core.signals import answer_named
from easeml_meter.core.views import Signal
from easeml_meter.spec import MeterSpec

BANDS = MeterSpec.uniform(tolerance=0.1, edges=(0.2, 0.5))
SCORE = BANDS.replace(loss="recall[a]", rows=900, floor=0.6)
CHANGE = "n - o at -0.1, 0, 0.1 +/- 0.05"


def asking(question: str, **options: Any) -> MeterSpec:
    return MeterSpec(bands=(), steps=5, delta=0.1, question=question, **options)


@pytest.mark.parametrize(
    ("spec", "answer", "said"),
    [
        (BANDS, "2", "Sure: this model's true gap lies between 0.1 and 0.6."),
        (BANDS.replace(gap="signed"), "1", "Sure: this model's true gap is at most 0.3."),
        (BANDS.replace(protocol="incremental"), "2", "Sure: this model's true gap is at most 0.6."),
        (BANDS.replace(window=3), "1", "averaged over its window of 3 batches, lies between 0 and"),
        (BANDS.replace(loss="roc[a]", rows=900), "2", "within 0.6 of those on the validation set;"),
        (
            BANDS.replace(ceiling=0.4),
            "above-ceiling",
            "(0.4). Sure: this model's true loss",
        ),
        (
            BANDS.replace(ceiling=0.4, protocol="incremental"),
            "above-ceiling",
            "The test loss is above the ceiling (0.4); nothing else is reported.",
        ),
        (SCORE, "below-floor", "floor (0.6). Sure: this model's true recall is at most 0.7."),
        (BANDS, "no-reading", "could not be measured"),
        (BANDS, "too-few", "Too few rows are predicted positive"),
        (asking("n > 0.8 +/- 0.1"), "pass", "Sure: this model has a true accuracy above 0.8."),
        (asking("n > 0.8 +/- 0.1"), "fail", "Nothing is promised about a model that fails."),
        (
            asking(CHANGE, disagreement=0.2),
            "3",
            "that of step 7 lies between -0.05 and 0.15.",
        ),
        (asking(CHANGE, disagreement=0.2), "too-far", "on more than 0.2 of the rows exactly one"),
        (asking("alarm", labels=500), "ok", "at most 0.4, its validation loss and 0.1 more."),
        (asking("alarm", labels=500), "alarm", "nothing is promised about it."),
    ],
)
def test_an_answer_says_what_it_promises(spec: MeterSpec, answer: str, said: str) -> None:
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    signal = Signal(
        spec, answer_named(answer), 8, 1, "m", 1, moment, 1.0, 1, validation_loss=0.3, old=7,
        first_edge=0.1 if spec.vouches else None,
    )  # fmt: skip
    assert said in sentence(signal, "Sure")
