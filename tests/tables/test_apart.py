"""A child does its work within its limits, knows nothing, and whatever ends it is one refusal."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.tables import works

from easeml_meter import errors
from easeml_meter.tables import apart
from easeml_meter.tables.apart import answer_apart

MEMORY = 64 << 20


@pytest.fixture
def new_helper(monkeypatch: pytest.MonkeyPatch) -> Iterator[apart._Helper]:
    helper = apart._Helper()
    monkeypatch.setattr(apart, "_helper", helper)
    yield helper
    helper._end()


def ask(work: Callable[..., Any], *given: object, memory: int = MEMORY) -> Any:
    return answer_apart(work, *given, size=1, memory=memory, source="x.csv")[0]


def test_it_returns_what_the_function_returns() -> None:
    rows, table = answer_apart(works.table, 3, size=1, memory=MEMORY, source="x.csv")
    assert rows == 3
    assert table is not None
    assert table.to_pydict() == {"n": [0, 1, 2]}


def test_neither_helper_nor_child_has_anything_of_ours(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    monkeypatch.setenv("METER_DATABASE", "postgresql://user:password@host/")
    with open(tmp_path / "key", "w", encoding="ascii") as key:
        os.set_inheritable(key.fileno(), True)
        request.getfixturevalue("new_helper")
        found = ask(works.surroundings)
    assert set(found["variables"]) == {"PYTHONPATH", *apart._ALIKE}
    kinds = {each.partition(":")[0] for each in found["files"]}
    assert kinds == {"/dev/null", "/memfd", "pipe"}
    assert found["threads"] == found["tasks"] == 1


@pytest.mark.parametrize("kind", ["TooLarge", "VaultError"])
def test_a_refusal_is_the_same_here(kind: str) -> None:
    with pytest.raises(getattr(errors, kind), match=r"^a line$"):
        ask(works.refuse, kind)


def test_a_mistake_of_ours_is_told_without_what_it_quotes() -> None:
    with pytest.raises(RuntimeError, match="the child failed: KeyError") as failed:
        ask(works.fail, "a label")
    assert "works.py" in str(failed.value)
    assert "label" not in str(failed.value).replace("raise KeyError(secret)", "")


@pytest.mark.parametrize(
    ("work", "given"),
    [(works.crash, ()), (works.take, (65,)), (works.take_in_a_reader, (65,)), (works.sleep, (60,))],
)
def test_whatever_ends_it_is_one_refusal(
    work: Callable[..., Any], given: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(apart, "_PATIENCE", 0.02)
    with pytest.raises(errors.TooLarge) as refused:
        ask(work, *given)
    line = str(refused.value)
    assert line.startswith("x.csv: more than 64 MB of memory or 21 seconds are needed to read it")
    assert "\n" not in line
    assert ask(works.take, 1) == 1 << 20


def test_its_processor_time_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apart, "_SECONDS", 0)
    with pytest.raises(errors.TooLarge, match="or 1 seconds are needed"):
        ask(works.compute)


def test_it_writes_no_file(tmp_path: Path) -> None:
    with pytest.raises((errors.TooLarge, RuntimeError)):
        ask(works.write, str(tmp_path / "a"))
    assert not (tmp_path / "a").exists() or not (tmp_path / "a").read_bytes()


def test_it_reads_more_than_it_may_take() -> None:
    assert ask(works.length, bytes(2 * MEMORY)) == 2 * MEMORY


def test_a_helper_that_was_killed_is_started_again(new_helper: apart._Helper) -> None:
    apart.start()
    before = new_helper._process
    assert before is not None
    apart.start()
    assert new_helper._process is before
    for _ in range(2):
        assert ask(works.take, 1)
        process = new_helper._process
        assert process is not None
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    assert ask(works.take, 1)


def test_it_answers_while_its_server_stops(new_helper: apart._Helper) -> None:
    """A signal to all processes of a service reaches the helper, too."""
    assert ask(works.take, 1)
    process = new_helper._process
    assert process is not None
    os.kill(process.pid, signal.SIGTERM)
    assert ask(works.take, 1)
    assert process.poll() is None


def test_it_ends_with_those_who_could_ask(new_helper: apart._Helper) -> None:
    assert ask(works.take, 1)
    new_helper._end()
    assert new_helper._process is not None
    assert new_helper._process.wait(10) == 0


def test_three_work_at_a_time() -> None:
    """Whoever sends ten files gets the memory of three."""
    ask(works.sleep, 0)
    begun = time.monotonic()
    with ThreadPoolExecutor(7) as pool:
        assert list(pool.map(lambda seconds: ask(works.sleep, seconds), [0.2] * 7)) == [0.2] * 7
    assert time.monotonic() - begun >= 0.6
