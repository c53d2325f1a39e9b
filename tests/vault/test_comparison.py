"""Which rows of a test set stand in another set: by id and inputs."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from easeml_meter.tables.opening import open_table
from easeml_meter.vault.comparison import Rows, compare

KEY = bytes(range(32))


def table_rows(table: pa.Table, id_column: str | None = "id") -> Rows:
    return Rows.of_table(open_table(table), "label", id_column, KEY)


HERE = {"id": ["a", "b", "c", "d"], "x": [1, 2, 2, 4], "label": [0, 1, 0, 1]}


@pytest.mark.parametrize(
    ("other", "again", "renumbered", "inputs"),
    [
        ({"id": ["b"], "x": [2.0]}, [2], [], [2, 3]),
        ({"id": ["b"], "x": [9]}, [], [2], []),
        ({"id": ["z"], "x": [4]}, [], [], [4]),
        ({"id": ["d", "c"]}, [3, 4], [], []),
        ({"x": [1]}, [], [], [1]),
        ({"id": ["a", "b"], "x": [2, 1]}, [], [1, 2], [1, 2, 3]),
        ({"id": ["a"], "x": [1], "more": ["u"]}, [1], [], [1]),
    ],
)
def test_ids_and_inputs_tell_rows_apart(
    other: dict[str, list[object]],
    again: list[int],
    renumbered: list[int],
    inputs: list[int],
) -> None:
    found = compare(table_rows(pa.table(HERE)), table_rows(pa.table(other)))
    assert found.compared
    assert found.again.tolist() == again
    assert found.renumbered.tolist() == renumbered
    assert found.inputs.tolist() == inputs


def test_nothing_in_common_is_not_compared() -> None:
    for other in ({"y": [1], "label": [0]}, {"key": ["a"], "label": [1]}):
        assert not compare(table_rows(pa.table(HERE)), table_rows(pa.table(other))).compared


def test_an_id_is_the_same_as_number_and_as_text() -> None:
    number = pa.table({"id": [7, 8], "x": [1, 2]})
    text = pa.table({"id": ["8", "07"], "x": [2, 1]})
    assert compare(table_rows(number), table_rows(text)).again.tolist() == [2]


def test_repeated_inputs_are_counted() -> None:
    assert table_rows(pa.table(HERE)).repeated_inputs() == 1
    assert table_rows(pa.table({"id": [1, 2], "label": [0, 0]})).repeated_inputs() == 0


def test_shuffled_rows_are_found() -> None:
    count = 200_000
    random = np.random.default_rng(0)
    big = pa.table({"id": random.permutation(count), "x": random.random(count)})
    shuffled = big.take(random.permutation(count)).slice(0, count // 2)
    found = compare(table_rows(big), table_rows(shuffled))
    assert len(found.again) == count // 2
    assert len(found.renumbered) == 0
