"""The exact interval, against scipy's."""

from __future__ import annotations

import pytest
from scipy.special import betaincinv

from easeml_meter.promise.numbers.intervals import clopper_pearson


@pytest.mark.parametrize("error", [0.05, 1e-3])
@pytest.mark.parametrize(
    ("successes", "trials"),
    [(0, 1), (1, 1), (3, 7), (10, 100), (0, 50), (50, 50), (1, 10**6), (10**5, 10**6)],
)
def test_the_interval_is_that_of_scipy(successes: int, trials: int, error: float) -> None:
    rest = trials - successes
    lower = betaincinv(successes, rest + 1, error) if successes else 0
    upper = betaincinv(successes + 1, rest, 1 - error) if rest else 1
    assert clopper_pearson(successes, trials, error) == pytest.approx((lower, upper), rel=1e-9)
