"""Binomial tails against fifty digits."""

from __future__ import annotations

import numpy as np
import pytest
from mpmath import mp
from tests.promise import oracle

from easeml_meter.promise.numbers.binomial import tail_and_ratio


@pytest.mark.parametrize("tolerance", [0.1, 0.01, 0.001])
@pytest.mark.parametrize("labels", [30, 2_000, 100_000, 10_000_000])
def test_one_binomial_tail_to_eleven_digits(labels: int, tolerance: float) -> None:
    shares = np.array([0.05, 0.11, 0.35, 0.5, 0.65, 0.89, 0.98])
    errors = np.unique(np.ceil(labels * (tolerance + (1 - tolerance) * shares)))
    log_pmf, ratio = tail_and_ratio(labels, errors, errors - labels * tolerance)
    for j, found in zip(errors, log_pmf + np.log(ratio), strict=True):
        truth = oracle.precise_log_upper_tail(labels, int(j), tolerance)
        with mp.workdps(oracle.DIGITS):
            assert abs(mp.mpf(float(found)) - truth) <= 1e-11 + 1e-14 * abs(truth)


@pytest.mark.parametrize(
    "errors",
    [1, 2, 3, 15, 16, 17, 500, 983, 984, 985, 999, 1000],
)
def test_one_binomial_tail_at_the_ends(errors: int) -> None:
    """Few errors or few successes: Stirling's series gives way to a table below 16."""
    tolerance = 0.0005
    mean = errors - 1000 * tolerance
    log_pmf, ratio = tail_and_ratio(1000, np.array([float(errors)]), np.array([mean]))
    truth = oracle.log_upper_tail(1000, errors, tolerance)
    assert float(log_pmf[0] + np.log(ratio[0])) == pytest.approx(truth, abs=1e-12)
