"""Every parser and route stands some fuzzing here; `make fuzz SECONDS=3600` does more."""

from __future__ import annotations

import io
import secrets

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fuzz import all_targets, draw_of
from fuzz.running import fuzz as run_for
from fuzz.running import run_case
from fuzz.thrift import change_footer, read_struct, write_struct

TARGETS = all_targets()


@pytest.mark.slow
@pytest.mark.parametrize("name", TARGETS)
def test_a_few_cases_end_in_an_answer_or_a_refusal(name: str) -> None:
    for case in range(12):
        assert run_case(TARGETS[name], 1, case) in (True, False)


@pytest.mark.verify
@pytest.mark.parametrize("name", TARGETS)
def test_no_target_crashes(name: str) -> None:
    seed = secrets.randbelow(10**9)
    found = run_for(name, seed, 60 / len(TARGETS))
    assert not found.crashes, f"seed {seed}: {found.crashes[:3]}"
    assert found.cases > 1


def test_the_grammar_of_parquet_reads_what_is_written() -> None:
    """Written again, unchanged footers are those of the same file."""
    table = pa.table({"a": [1, 2, 3], "b": [["x"], [], None], "c": ["p", "q", "p"]})
    sink = io.BytesIO()
    pq.write_table(table, sink, compression="zstd", row_group_size=2)
    data = sink.getvalue()
    start = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    fields, end = read_struct(data, start)
    assert end == len(data) - 8
    footer = write_struct(fields)
    again = data[:start] + footer + len(footer).to_bytes(4, "little") + b"PAR1"
    assert pq.read_table(io.BytesIO(again)) == table
    changes = {change_footer(data, draw_of("parquet", 1, seed)) for seed in range(50)}
    assert len(changes) > 40
    assert all(each[:4] == each[-4:] == b"PAR1" for each in changes)


def test_a_process_that_dies_is_noticed_and_its_case_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", "/bin/false")
    assert run_for("csv", 3, 0.01, first=5).crashes[0] == "case 5: ended with 1: "
