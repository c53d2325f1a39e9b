"""An answer of the ledger, its bar being known, next to counting rows that are right or wrong."""

from __future__ import annotations

from fractions import Fraction
from functools import partial

import numpy as np

from bench import Benchmark
from easeml_meter.conditions import Comparison
from easeml_meter.promise import ledger
from easeml_meter.promise.meter import Meter
from easeml_meter.promise.questions import Shown, measured_of

ROWS, MANY = 20_000, 100
QUESTIONS = {
    "a band": '{ask = "gap", tolerance = 0.02, edges = [0.05, 0.1]}',
    "an alarm": '{ask = "alarm"}',
    "n - o, a limit announced": '{ask = "n - o > -0.01 +/- 0.02", disagreement = 0.1}',
}
_LABELS = np.arange(ROWS) % 10
_GUESSES = np.where(_LABELS == 0, 1, _LABELS)


def benchmarks() -> list[Benchmark]:
    """List them: a scan of 20,000 rows takes about 10 microseconds, an answer less than 1,000."""
    return [
        Benchmark(
            name=f"{MANY} answers: {name} of {ROWS:,} rows (reference: count the rows)",
            ours=partial(_answers, question),
            reference=_counts,
            at_most=100,
            agree=lambda ours, reference: ours == reference == MANY,
            prepare=partial(_answers, question),
        )
        for name, question in QUESTIONS.items()
    ]


def _answers(question: str) -> int:
    meter = Meter.loads(f"question = {question}")
    at = ledger.start(meter)
    shown = Shown(ROWS, Fraction(1, 10), ROWS // 2)
    rows = measured_of(shown, Fraction(1, 10), Comparison(ROWS, 300, 200, 600))
    return sum(bool(ledger.decide(meter, at, rows).answer) for _ in range(MANY))


def _counts() -> int:
    return sum(bool(np.count_nonzero(_LABELS != _GUESSES)) for _ in range(MANY))
