"""Which rows of a test set stand in another set: by id and inputs, whatever columns are called."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

from easeml_meter.tables.opening import open_table
from easeml_meter.vault.overlap import LARGEST_SHARE, Rows, compare, likeness, repeated

KEY = bytes(range(32))


def table_rows(table: pa.Table, id_column: str | None = "id") -> Rows:
    return Rows.of_table(open_table(table), "label", id_column, KEY)


HERE = {"id": ["a", "b", "c", "d"], "x": [1, 2, 2, 4], "label": [0, 1, 0, 1]}


@pytest.mark.parametrize(
    ("other", "again", "renumbered", "inputs"),
    [
        ({"id": ["b"], "x": [2.0]}, [2], [], []),
        ({"id": ["b"], "x": [9]}, [], [2], []),
        ({"id": ["z"], "x": [4]}, [], [], [4]),
        ({"id": ["d", "c"]}, [3, 4], [], []),
        ({"x": [1]}, [], [], [1]),
        ({"id": ["a", "b"], "x": [2, 1]}, [], [1, 2], [1]),
        ({"id": ["a"], "x": [1], "more": ["u"]}, [1], [], [1]),
        ({"id": ["y", "z"], "x": [4, 4]}, [], [], []),
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


COUNT = 300


def rows_of(table: pa.Table) -> Rows:
    return Rows.of_table(open_table(table), "label", "id", KEY)


def drawn(seed: int, count: int = COUNT) -> pa.Table:
    """Draw an id, a real number, a text, a category and a label."""
    random = np.random.default_rng(seed)
    texts = [f"message {number}" for number in random.integers(0, 10**9, count)]
    columns = {"x": random.random(count), "text": texts, "kind": random.integers(0, 4, count)}
    return pa.table({"id": np.arange(count), **columns, "label": random.integers(0, 2, count)})


def shuffled(table: pa.Table) -> pa.Table:
    return table.take(np.random.default_rng(0).permutation(len(table)))


TABLE = drawn(1)
CHANGES: dict[str, Callable[[pa.Table], pa.Table]] = {
    "the same": lambda table: table,
    "one row left out": lambda table: table.slice(1),
    "one row exchanged": lambda table: pa.concat_tables([table.slice(1), drawn(2, 1)]),
    "other ids": lambda table: table.set_column(0, "id", pa.array(np.arange(COUNT) + 10**6)),
    "no ids": lambda table: table.drop_columns(["id"]),
    "a column renamed": lambda table: table.rename_columns(["id", "z", "text", "kind", "label"]),
    "all renamed": lambda table: table.rename_columns(["id", "a", "b", "c", "label"]),
    "names exchanged": lambda table: table.rename_columns(["id", "kind", "x", "text", "label"]),
    "a constant more": lambda table: table.append_column("source", pa.array(["web"] * COUNT)),
    "a varying one more": lambda table: table.append_column("n", pa.array(np.arange(COUNT))),
    "a column less": lambda table: table.drop_columns(["text"]),
    "renamed, and one more": lambda table: table.rename_columns(
        ["id", "a", "b", "c", "label"]
    ).append_column("n", pa.array(np.arange(COUNT) * 1.5)),
    "a fifth of them": lambda table: table.slice(0, COUNT // 5),
    "twice as many": lambda table: pa.concat_tables([table, drawn(3)]),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_the_same_rows_are_found(change: Callable[[pa.Table], pa.Table]) -> None:
    other = shuffled(change(TABLE))
    assert likeness(rows_of(other), rows_of(TABLE)) > LARGEST_SHARE
    assert likeness(rows_of(TABLE), rows_of(other)) > LARGEST_SHARE


def test_independent_rows_are_not_the_same() -> None:
    assert likeness(rows_of(drawn(4)), rows_of(drawn(5))) == 0


@pytest.mark.parametrize("cells", [2, 30, 300, 3000])
def test_inputs_that_repeat_by_chance_are_not_the_same_rows(cells: int) -> None:
    """Also where every value is expected once, the worst case, and ids are numbered alike."""
    random = np.random.default_rng(cells)

    def few(column: str) -> pa.Table:
        values = random.integers(0, cells, COUNT)
        return pa.table({"id": np.arange(COUNT), column: values, "label": values % 2})

    for other in ("cell", "place"):
        assert likeness(rows_of(few("cell")), rows_of(few(other))) < LARGEST_SHARE


def test_ids_tell_the_same_rows_where_inputs_repeat() -> None:
    random = np.random.default_rng(8)
    ages = random.integers(18, 80, COUNT)
    table = pa.table({"id": np.arange(COUNT), "age": ages, "label": ages % 2})
    assert likeness(rows_of(shuffled(table).slice(1)), rows_of(table)) > LARGEST_SHARE


def test_the_same_customers_are_not_the_same_rows() -> None:
    names = [f"customer {number}" for number in range(COUNT)]
    both = []
    for seed in (6, 7):
        random = np.random.default_rng(seed)
        columns = {f"{seed}-{place}": random.random(COUNT) for place in range(4)}
        both.append(rows_of(pa.table({"customer": names, **columns})))
    assert likeness(*both) == 0


def test_rows_without_inputs_are_not_compared() -> None:
    bare = pa.table({"id": np.arange(COUNT), "label": np.zeros(COUNT)})
    assert likeness(rows_of(bare), rows_of(bare)) == 0


def test_a_part_is_found_in_another_by_inputs_that_occur_once() -> None:
    part = rows_of(TABLE.slice(0, 10))
    assert repeated(part, rows_of(TABLE)) == repeated(rows_of(TABLE), part) == 1
    assert repeated(part, rows_of(TABLE.slice(4, 100))) == 0.6
    assert repeated(part, rows_of(drawn(2))) == 0
    few, alone = TABLE.select(["id", "kind", "label"]), TABLE.select(["id", "label"])
    for table in (few, alone):  # equal by chance, and nothing to compare
        assert repeated(rows_of(table), rows_of(table)) == 0
