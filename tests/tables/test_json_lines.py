"""A JSON file with an array of objects reads like the same objects on lines of their own."""

from __future__ import annotations

import codecs
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from easeml_meter.errors import InvalidInput, TooLarge
from easeml_meter.tables import json_lines
from easeml_meter.tables import table as blocks
from easeml_meter.tables.opening import open_raw, open_table
from easeml_meter.tables.table import Table

OPENERS: list[Callable[[Path], Table]] = [open_table, open_raw]
NASTY = st.text(st.sampled_from('ab"\\{}[],:\n\té '), max_size=12)


def rows_of(table: Table) -> list[Any]:
    return [row for batch in table.batches() for row in batch.to_pylist()]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.lists(st.tuples(NASTY, NASTY, st.integers(-9, 9)), min_size=1, max_size=20),
    indent=st.sampled_from([None, 0, 2]),
    block=st.integers(8, 200),
)
def test_however_it_is_written_and_cut(
    tmp_path: Path, rows: list[Any], indent: int | None, block: int
) -> None:
    given = [{"id": f"-{a}", "n": n, "more": [f"-{b}", "x"]} for a, b, n in rows]
    path = tmp_path / "rows.json"
    path.write_text(f" \n{json.dumps(given, indent=indent, ensure_ascii=False)}\n", "utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "BLOCK", block)
        for opener in OPENERS:
            assert rows_of(opener(path)) == given


def test_a_byte_order_mark_and_other_endings_of_lines(tmp_path: Path) -> None:
    path = tmp_path / "rows.JSON"
    path.write_bytes(codecs.BOM_UTF8 + b'\r\n[\r\n{"a": 1},\r\n\t{"a": 2}\r\n]\r\n')
    for opener in OPENERS:
        assert rows_of(opener(path)) == [{"a": 1}, {"a": 2}]


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ('{"a": [1, 2]}', "no array of objects"),
        ('{"a": 1}\n{"a": 2}\n', "one object per line in a .jsonl"),
        ("[]", "no rows given"),
        ("[ \n ]", "no rows given"),
        ("[1, 2]", "row 1: no whole JSON object"),
        ('[{"a": 1}, [{"a": 2}]]', "row 2: no whole JSON object"),
        ('[{"a": 1}, "x", {"a": 2}]', "row 2: no whole JSON object"),
        ('[{"a": 1},, {"a": 2}]', "row 2: no whole JSON object"),
        ('[{"a": 1} {"a": 2}]', "the array does not end after row 1"),
        ('[, {"a": 1}]', "row 1: no whole JSON object"),
        ('[{"a": 1}, ]', "row 2: no whole JSON object"),
        ('[{"a": 1}, {"a": 2}', "the array does not end after row 2"),
        ('[{"a": 1}, {"a": ', "row 2: no whole JSON object"),
        ('[{"a": "1}]', "row 1: no whole JSON object"),
        ('[{"a": 1}] [{"a": 2}]', "the array does not end after row 1"),
        ('[{"a": 1}, {"a": "x"}]', "no JSON object of the same kind"),
    ],
)
def test_what_is_no_array_of_objects_is_refused_in_one_line(
    tmp_path: Path, content: str, line: str
) -> None:
    path = tmp_path / "rows.json"
    path.write_text(content)
    for opener in OPENERS:
        with pytest.raises(InvalidInput) as refused:
            rows_of(opener(path))
        assert line in str(refused.value)
        assert "\n" not in str(refused.value)


def test_what_would_take_much_memory_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "rows.json"
    path.write_text('[{"a": 1}]')
    monkeypatch.setattr(json_lines, "MOST", 10)
    assert rows_of(open_table(path)) == [{"a": 1}]
    monkeypatch.setattr(json_lines, "MOST", 9)
    with pytest.raises(
        TooLarge, match=r"more than 9 bytes: write one object per line in a \.jsonl"
    ):
        open_table(path)


def test_deep_values_are_refused_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "rows.json"
    for value in ("[" * 100_000, "[" * 100_000 + "]" * 100_000):
        path.write_text(f'[{{"a": {value}}}]')
        with pytest.raises(InvalidInput) as refused:
            rows_of(open_table(path))
        assert "\n" not in str(refused.value)
