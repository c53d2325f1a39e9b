"""Every parser and route stands some fuzzing here; `make fuzz SECONDS=3600` does more."""

from __future__ import annotations

import io
import re
import secrets
import subprocess
import sys
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fuzz import Failed, all_targets, draw_of, one_line
from fuzz.__main__ import main
from fuzz.running import Outcome, run_case
from fuzz.running import fuzz as run_for
from fuzz.thrift import change_footer, read_struct, write_struct

TARGETS = all_targets()
ROOT = Path(__file__).parents[1]


def test_the_page_on_security_says_what_runs_schemathesis_and_what_does_not() -> None:
    page = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    (said,) = [each for each in page.split("\n\n") if "`make fuzz SECONDS=60`" in each]
    (path,) = re.findall(r"`(tests/\S+\.py)`", said)
    source = (ROOT / path).read_text(encoding="utf-8")
    assert "import schemathesis" in source
    few, many = re.findall(r"examples=(\d+)", source)
    assert f"{few} for each operation in `make test`, {many} in `make verify`" in said
    assert "`make fuzz` does not run it" in said
    assert not any("schemathesis" in each.read_text() for each in (ROOT / "fuzz").glob("*.py"))


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


@pytest.mark.parametrize("name", [n for n in TARGETS if n not in ("age", "routes", "sealed")])
def test_a_case_is_the_same_again(name: str) -> None:
    """Not of what is encrypted, or sent to a server: keys and ids are new in every process."""
    target = TARGETS[name]
    cases = [target.make(draw_of(name, 7, case)) for case in range(5)]
    assert cases == [target.make(draw_of(name, 7, case)) for case in range(5)]
    assert len(set(cases)) > 1


def test_a_run_takes_turns_and_no_case_twice(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run that was cut short after 55 minutes had never reached the last of its targets."""
    turns = []

    def ran(name: str, seed: int, seconds: float, first: int) -> Outcome:
        turns.append((name, first, seconds))
        return Outcome(name, cases=3, taken=1, crashes=["case 1"] if name == "tar" else [])

    monkeypatch.setattr("fuzz.__main__.fuzz", ran)
    assert main(["--seconds", "250", "tar", "csv"]) == 1
    assert turns == [("tar", 0, 62.5), ("csv", 0, 62.5), ("tar", 3, 62.5), ("csv", 3, 62.5)]
    assert "12 cases, 2 crashes" in capsys.readouterr().out
    turns.clear()
    main(["--seconds", "8", "tar", "csv"])
    assert turns == [("tar", 0, 4.0), ("csv", 0, 4.0)]


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


class Broken:
    """A parser that fails at some inputs."""

    name = "broken"

    def make(self, draw: Random) -> bytes:
        return bytes([draw.randrange(4)])

    def run(self, data: bytes) -> bool:
        if data == b"\0":
            raise KeyError("x")
        return True


def test_what_a_parser_raises_is_a_crash() -> None:
    with pytest.raises(KeyError):
        all(run_case(Broken(), 1, case) for case in range(50))


def test_one_case_that_crashes_ends_although_threads_run() -> None:
    """A case of the routes that crashed left its server's threads waiting for ever."""
    program = """
import sys, threading
import fuzz.__main__ as fuzzing
def crash(*_):
    threading.Thread(target=threading.Event().wait).start()
    raise KeyError("x")
fuzzing.run_case = crash
fuzzing.main(["--case", "1", "csv"])
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 1
    assert "KeyError: 'x'" in done.stderr


@pytest.mark.parametrize("line", ["", "two\nlines", "x" * 2000])
def test_a_refusal_is_one_line(line: str) -> None:
    one_line(ValueError("a line"))
    with pytest.raises(Failed):
        one_line(ValueError(line))


def test_a_process_that_dies_is_noticed_and_its_case_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", "/bin/false")
    assert run_for("csv", 3, 0.01, first=5).crashes[0] == "case 5: ended with 1: "


@pytest.mark.parametrize(("case", "ended"), [("while True: pass", -27), ("time.sleep(0.5)", 0)])
def test_a_case_that_takes_too_long_is_ended_by_its_processor_time(case: str, ended: int) -> None:
    """By the clock, a slow start beside busy neighbours was a crash."""
    program = "import faulthandler, signal, time; from fuzz import running; running.LONGEST = 0.2"
    program += f"\nfaulthandler.register(signal.SIGPROF, chain=True); running.watch()\n{case}"
    words = [sys.executable, "-c", program]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == ended, done.stderr
    assert bool(ended) == ("most recent call first" in done.stderr)
