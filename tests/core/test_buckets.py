"""Token buckets: so many at once, then so many a second."""

from __future__ import annotations

import pytest

from easeml_meter.core.buckets import one_taken
from easeml_meter.errors import TooMany


def test_as_many_at_once_as_it_holds_and_then_one_by_one() -> None:
    full_at = None
    for _ in range(3):
        full_at = one_taken(full_at, 100.0, rate=0.5, burst=3)
    assert full_at == 106
    with pytest.raises(TooMany) as refused:
        one_taken(full_at, 100.0, rate=0.5, burst=3)
    assert refused.value.wait == 2
    assert one_taken(full_at, 102.0, rate=0.5, burst=3) == 108


def test_a_bucket_that_was_full_long_ago_holds_no_more() -> None:
    assert one_taken(5.0, 100.0, rate=0.5, burst=3) == 102
