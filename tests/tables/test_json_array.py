"""A JSON file with an array of objects reads like the same objects on lines of their own."""

from __future__ import annotations

import codecs
import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from easeml_meter.errors import InvalidInput
from easeml_meter.tables import text as blocks
from easeml_meter.tables.opening import open_raw, open_table
from easeml_meter.tables.table import Table

OPENERS: list[Callable[[Path], Table]] = [open_table, open_raw]
NASTY = st.text(st.sampled_from('ab"\\{}[],:\n\té '), max_size=12)


def rows_of(table: Table) -> list[Any]:
    return [row for batch in table.batches() for row in batch.to_pylist()]


class TooLong(Exception):
    """An object that is longer than four blocks."""


@contextlib.contextmanager
def too_long() -> Iterator[None]:
    try:
        yield
    except InvalidInput as error:
        raise TooLong if "does not end within" in str(error) else error from None


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
            # An object may be too long for such blocks, but is never misread.
            with contextlib.suppress(TooLong), too_long():
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
        ("[1, 2]", "no JSON object between two commas"),
        ('[{"a": 1}, [{"a": 2}]]', "no JSON object between two commas"),
        ('[{"a": 1}, "x", {"a": 2}]', "row 1 or later: no JSON object between two commas"),
        ('[{"a": 1},, {"a": 2}]', "no JSON object between two commas"),
        ('[{"a": 1} {"a": 2}]', "no JSON object between two commas"),
        ('[, {"a": 1}]', "no JSON object between two commas"),
        ('[{"a": 1}, ]', "no JSON object between two commas"),
        ('[{"a": 1}, {"a": 2}', "the array does not end after row 2"),
        ('[{"a": 1}, {"a": ', "the array does not end after row 1"),
        ('[{"a": "1}]', "the array does not end after row 0"),
        ('[{"a": 1}] [{"a": 2}]', "something stands after the array"),
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


def test_an_endless_object_is_not_read_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "BLOCK", 100)
    path = tmp_path / "rows.json"
    path.write_text('[{"a": 1}, {"a": "' + "x" * 1000)
    with pytest.raises(InvalidInput, match="row 2: an object that does not end within 400 bytes"):
        open_table(path)
