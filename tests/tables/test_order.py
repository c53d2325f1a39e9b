"""The digest of ids: their order and nothing else."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from easeml_meter.tables.order import OrderDigest


def order_digest(*parts: pa.Array) -> str:
    digest = OrderDigest()
    for part in parts:
        digest.update(part)
    return digest.hexdigest()


def test_the_order_digest_is_the_documented_one() -> None:
    ids = ["r1", "", "row 3"]
    content = hashlib.sha256("".join(ids).encode()).digest()
    lengths = hashlib.sha256(np.array([2, 0, 5], "<i8").tobytes()).digest()
    wanted = hashlib.sha256(content + lengths).hexdigest()
    array = pa.array(ids)
    assert order_digest(array) == wanted
    assert order_digest(array.slice(0, 1), array.slice(1)) == wanted
    assert order_digest(array.cast(pa.large_string())) == wanted
    assert order_digest(array.dictionary_encode()) == wanted
    assert order_digest(array.take([1, 0, 2])) != wanted
    assert order_digest(pa.array([7, 8])) == order_digest(pa.array(["7", "8"]))
    assert order_digest(pa.array(["12", "3"])) != order_digest(pa.array(["1", "23"]))


@given(st.lists(st.text()) | st.lists(st.integers(-(2**63), 2**63 - 1)), st.integers(0, 10))
def test_only_the_order_matters(ids: list[Any], cut: int) -> None:
    kind = pa.int64() if ids and isinstance(ids[0], int) else pa.string()
    texts = [str(each) for each in ids]
    whole = order_digest(pa.array(texts, pa.string()))
    assert order_digest(pa.array(ids[:cut], kind), pa.array(ids[cut:], kind)) == whole
    assert (
        order_digest(pa.array(texts[:cut], pa.large_string()), pa.array(texts[cut:], pa.string()))
        == whole
    )
    assert (order_digest(pa.array(texts[::-1], pa.string())) == whole) == (texts == texts[::-1])
    joined = ["".join(texts)]
    assert (order_digest(pa.array(joined)) == whole) == (joined == texts)
