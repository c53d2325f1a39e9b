"""Executors: the same bits from each, bounded, in order; nothing secret stays with a worker."""

from __future__ import annotations

import gc
import multiprocessing
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import distributed
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from distributed import LocalCluster
from distributed.comm.core import CommClosedError
from tests.scoring import functions
from tests.scoring.examples import expected

from easeml_meter.errors import InvalidInput, MeterError, Unreachable
from easeml_meter.scoring import executors, running
from easeml_meter.scoring.executors import Executor, TooLate, connect, open_executor
from easeml_meter.scoring.losses import Sums
from easeml_meter.scoring.predictions import Predictions
from easeml_meter.scoring.predictor import FunctionModel, Limits
from easeml_meter.scoring.running import ShardTask, score_model
from easeml_meter.scoring.score import LossTotals, Score, Task, Unscorable, score
from easeml_meter.vault.sealing import Grant

ROWS = 1000
KINDS = ("inline", "processes:2", "dask")


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(  # type: ignore[no-untyped-call]
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0"
    ) as started:
        yield started


@pytest.fixture(scope="module")
def dask(cluster: LocalCluster) -> Iterator[Executor]:
    with open_executor(f"dask:{cluster.scheduler_address}") as executor:
        yield executor


@pytest.fixture(scope="module")
def processes() -> Iterator[Executor]:
    with open_executor("processes:2") as executor:
        yield executor


@pytest.fixture(scope="module", params=KINDS)
def executor(request: pytest.FixtureRequest) -> Iterator[Executor]:
    if request.param == "inline":
        with open_executor("inline") as opened:
            yield opened
    else:
        yield request.getfixturevalue(request.param.partition(":")[0])


# --- Which one ---


@pytest.mark.parametrize(
    "text",
    [
        "",
        "threads",
        "processes:",
        "processes:0",
        "processes:-1",
        "processes:2 ",
        "processes:99999",
        "dask",
        "dask:",
        "dask:localhost:8786",
        "dask:http://localhost:80",
        "dask:tcp://localhost",
        "dask:tcp:///x:1",
        "inline:1",
    ],
)
def test_other_executors_are_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match=r"executor: .* given, one of inline, .* needed"):
        open_executor(text)


@pytest.mark.parametrize("host", ["192.0.2.1", "scheduler", "[2001:db8::1]", "localhost.example"])
def test_a_cluster_elsewhere_needs_certificates_of_both_sides(host: str) -> None:
    """Whoever reaches the port of a scheduler could read labels and run code with the key."""
    with pytest.raises(InvalidInput, match=r"^executor: 'dask:tcp://.* for this machine only"):
        open_executor(f"dask:tcp://{host}:8786")
    with pytest.raises(InvalidInput, match=r"given, certificates of both sides needed"):
        open_executor(f"dask:tls://{host}:8786").__enter__()


def test_too_many_processes_are_refused() -> None:
    with pytest.raises(InvalidInput, match="at most 1024 processes"):
        open_executor("processes:1025")


def test_without_dask_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(InvalidInput, match=r"pip install 'easeml-meter\[cluster\]'"):
        open_executor("dask:tcp://127.0.0.1:1").__enter__()


def test_a_scheduler_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executors, "_PATIENCE", 1)
    with pytest.raises(MeterError, match=r"no dask scheduler answers at tcp://127\.0\.0\.1:1:"):
        open_executor("dask:tcp://127.0.0.1:1").__enter__()


def test_a_cluster_without_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executors, "_PATIENCE", 1)
    with (
        LocalCluster(n_workers=0, dashboard_address=":0") as empty,  # type: ignore[no-untyped-call]
        pytest.raises(MeterError, match="has no workers: start some"),
    ):
        open_executor(f"dask:{empty.scheduler_address}").__enter__()


def test_no_executor_named_is_inline() -> None:
    with open_executor() as executor:
        assert list(executor.map(functions.square, range(3))) == [0, 1, 4]


# --- Tasks ---


def test_results_come_in_order_from_few_tasks_at_a_time(executor: Executor) -> None:
    taken = 0

    def tasks() -> Iterator[int]:
        nonlocal taken
        while True:  # so they cannot be gathered first
            yield taken
            taken += 1

    results = executor.map(functions.square, tasks())
    for number in range(20):
        assert next(results) == number**2
        assert taken <= number + 5


def test_what_a_cluster_sends_is_taken_if_it_is_numbers(dask: Executor, tmp_path: Path) -> None:
    """A worker that somebody has changed had its code run where the meter's key is."""
    sums = LossTotals(np.arange(3), np.array([1, 2**70, 3], object))
    (found,) = dask.map(functions.same, [sums])
    assert (found.codes.tolist(), found.values.tolist()) == ([0, 1, 2], [1, 2**70, 3])
    ran = tmp_path / "ran"
    for task, given in ((functions.evil, str(ran)), (functions.same, ran)):
        with pytest.raises(Unreachable, match=r"nothing was scored \(NotPlain\)$"):
            list(dask.map(task, [given]))
    assert not ran.exists()


def test_an_error_of_a_task_comes_back_as_itself(executor: Executor) -> None:
    results = executor.map(functions.refusing, [7])
    with pytest.raises(InvalidInput, match=r"^number: 7 given, none needed$") as refused:
        next(results)
    if not isinstance(executor, type(open_executor().__enter__())):
        assert refused.value.__context__ is None
        assert "working on" not in str(refused.value.__cause__)
    assert next(executor.map(functions.square, [3])) == 9


def test_processes_that_die_are_one_line() -> None:
    with open_executor("processes:1") as executor, pytest.raises(MeterError) as lost:
        list(executor.map(functions.dying, range(3)))
    assert "the workers died or were lost" in str(lost.value)
    assert "\n" not in str(lost.value)


def test_what_is_missing_at_the_deadline_is_not_waited_for(
    executor: Executor, tmp_path: Path
) -> None:
    later = time.monotonic() + 600
    assert list(executor.map(functions.square, range(5), until=later)) == [0, 1, 4, 9, 16]
    with pytest.raises(InvalidInput, match="7 given"):
        next(executor.map(functions.refusing, [7], until=later))
    tasks = ((str(tmp_path), name) for name in ("first", "wait 1", "wait 2", "wait 3"))
    # Only a deadline ends this: without it, the second task would be waited for, for ever.
    with pytest.raises(TooLate):
        list(executor.map(functions.waiting, tasks, until=time.monotonic() + 0.5))
    with pytest.raises(TooLate):
        next(executor.map(functions.square, [3], until=time.monotonic()))
    (tmp_path / "go").touch()
    assert list(executor.map(functions.square, range(3))) == [0, 1, 4]


@pytest.mark.parametrize("ending", [TooLate, KeyboardInterrupt])
def test_here_what_a_given_up_task_has_started_is_killed(
    ending: type[BaseException], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wait_for_it(*_: Any) -> None:
        until((tmp_path / "started").exists)
        raise ending

    monkeypatch.setattr(executors, "_result_of", wait_for_it)
    with open_executor() as executor, pytest.raises(ending):
        list(executor.map(functions.starting, [str(tmp_path)], until=time.monotonic() + 600))
    until((tmp_path / "ended").exists)


def test_processes_that_are_late_are_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wait_for_it(*_: Any) -> None:
        until((tmp_path / "wait").exists)
        raise TooLate

    monkeypatch.setattr(executors, "_GRACE", 0.1)
    monkeypatch.setattr(executors, "_result_of", wait_for_it)
    before = set(multiprocessing.active_children())
    with open_executor("processes:1") as executor:
        with pytest.raises(TooLate):
            list(executor.map(functions.waiting, [(str(tmp_path), "wait")], until=0.0))
        assert set(multiprocessing.active_children()) - before
    until(lambda: not set(multiprocessing.active_children()) - before)


def test_ending_early_cancels_what_has_not_begun(cluster: LocalCluster, tmp_path: Path) -> None:
    names = ["first", *(f"wait {number}" for number in range(9))]
    address = cluster.scheduler_address

    def interrupted() -> None:
        with open_executor(f"dask:{address}") as executor:
            results = executor.map(functions.waiting, ((str(tmp_path), name) for name in names))
            assert next(results) == "first"
            until(lambda: len(begun()) == 2)
            raise KeyboardInterrupt

    def begun() -> list[Path]:
        return list(tmp_path.glob("wait*"))

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    with connect(address) as client:
        until(lambda: not any(client.run(tasks_not_begun).values()))
        (tmp_path / "go").touch()
        until(lambda: not any(client.processing().values()))
        client.gather(client.map(functions.square, range(10), pure=False))
    assert len(begun()) == 2


def test_a_greeting_that_comes_with_other_news_is_asked_for_again(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[object] = []
    real: Any = distributed.Client

    def failing_at_first(*arguments: Any, **options: Any) -> Any:
        calls.append(arguments)
        assert len(calls) > 2  # as distributed's own, of the message with the greeting
        return real(*arguments, **options)

    monkeypatch.setattr(distributed, "Client", failing_at_first)
    with open_executor(f"dask:{cluster.scheduler_address}") as executor:
        assert list(executor.map(functions.square, [3])) == [9]
    assert len(calls) == 3


def tasks_not_begun(dask_worker: Any) -> int:
    return len(dask_worker.state.ready)


def until(true: Callable[[], bool]) -> None:
    for _ in range(3000):
        if true():
            return
        time.sleep(0.01)
    raise AssertionError("waited in vain")


# --- Scores ---


@pytest.mark.parametrize("loss", functions.CLASSES)
def test_files_of_predictions_score_the_same_everywhere(
    executor: Executor, tmp_path: Path, loss: str
) -> None:
    table = functions.labelled(loss, ROWS)
    predictions = written(table, tmp_path, loss)
    plain = score(predictions, [table["label"]])
    with functions.hidden(table, tmp_path, loss) as sealed:
        assert sealed.row_groups == 16
        assert score(predictions, sealed.label_groups(), map_function=executor.map) == plain
    assert 0 < plain.mean < 1


@pytest.mark.parametrize("loss", functions.CLASSES)
def test_models_score_the_same_everywhere(
    executor: Executor, tmp_path: Path, loss: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "SHARD_ROWS", 150)
    table = functions.labelled(loss, ROWS)
    plain = score(written(table, tmp_path, loss), [table["label"]])
    model = FunctionModel(functions.MODELS[loss], "mine")
    told: list[tuple[int, int]] = []
    with functions.hidden(table, tmp_path, loss) as sealed:
        found = score_model(
            model,
            functions.rows_of(sealed, loss),
            Limits(),
            map_function=executor.map,
            progress=lambda done, rows: told.append((done, rows)),
        )
    assert found == plain
    assert told == [(done, ROWS) for done in (*range(128, ROWS, 128), ROWS)]


def written(table: pa.Table, folder: Path, loss: str) -> Predictions:
    """Keep the model's predictions in a file."""
    (batch,) = table.combine_chunks().to_batches()
    values = functions.MODELS[loss](batch)
    column = pa.array(values.tolist())
    pq.write_table(pa.table({"prediction": column}), folder / "p.parquet")
    return Predictions.open(
        folder / "p.parquet", expected=expected(len(table), loss, functions.CLASSES[loss])
    )


def test_a_scheduler_that_dies_while_it_hands_over_a_result_is_told_in_one_line(
    dask: Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise CommClosedError("ConnectionResetError")

    monkeypatch.setattr(distributed.Future, "result", broken)
    with pytest.raises(Unreachable, match="nothing was scored"):
        list(dask.map(abs, [1]))


def test_a_worker_killed_half_way_changes_nothing(
    dask: Executor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "SHARD_ROWS", 64)
    table = functions.labelled("0-1", ROWS)
    plain = score(written(table, tmp_path, "0-1"), [table["label"]])
    mortal = FunctionModel(partial(functions.dying_once, str(tmp_path)), "mine")
    with functions.hidden(table, tmp_path, "0-1") as sealed:
        source = functions.rows_of(sealed, "0-1")
        assert score_model(mortal, source, Limits(), map_function=dask.map) == plain
    assert (tmp_path / "called").exists()


# --- Secrets ---


def test_failed_tasks_leave_nothing_secret(
    dask: Executor, cluster: LocalCluster, tmp_path: Path
) -> None:
    table = functions.labelled("absolute[-3,3]", ROWS)
    predictions = written(table, tmp_path, "absolute[-3,3]")
    raising = expected(ROWS, "tests.scoring.examples:raising[real]")
    own = Predictions.open(tmp_path / "p.parquet", expected=raising)
    with functions.hidden(table, tmp_path, "absolute[-3,3]") as sealed:
        grant = sealed.grant()
        source = functions.rows_of(sealed, "absolute[-3,3]")
        model = FunctionModel(functions.telling, "mine")
        with pytest.raises(Unscorable) as by_model:
            score_model(model, source, Limits(), map_function=dask.map)
        with pytest.raises(Unscorable) as by_loss:
            score(own, sealed.label_groups(), map_function=dask.map)
        (tmp_path / "hidden.sealed").unlink()
        with pytest.raises(InvalidInput, match=r"hidden\.sealed: cannot be read"):
            score(predictions, sealed.label_groups(), map_function=dask.map)
    assert str(by_model.value) == str(by_loss.value)
    with connect(cluster.scheduler_address) as client:
        logs = repr(client.get_worker_logs()) + repr(client.get_scheduler_logs())
        until(lambda: not any(client.run(grants_in_memory).values()))
    secret = grant._secret[:32]
    # A label at a bound is no secret, and "3.0" may well be part of a time in a log.
    labels = [str(label) for label in table["label"].to_pylist() if abs(label) < 3]
    assert len(labels) > 0.99 * ROWS
    shown = [secret.hex(), repr(secret)[2:-1], "secret", *labels]
    assert [word for word in shown if word in logs] == []
    assert by_model.value.__context__ is by_loss.value.__context__ is None


def grants_in_memory() -> int:
    gc.collect()
    return sum(isinstance(thing, Grant) for thing in gc.get_objects())


def test_no_repr_of_a_task_tells_the_secret(tmp_path: Path) -> None:
    table = functions.labelled("0-1", 10)
    with functions.hidden(table, tmp_path, "0-1") as sealed:
        source = functions.rows_of(sealed, "0-1")
        model = FunctionModel(functions.classes, "mine")
        task = ShardTask(model, source, Limits(), range(1), 1, 10)
        predictions = written(table, tmp_path, "0-1")
        seen: list[Task] = []

        def keep(function: Any, tasks: Any) -> list[Sums]:
            seen.extend(tasks)
            return [Sums()]

        assert score(predictions, sealed.label_groups(), map_function=keep) == Score(Sums(), 10)
        secret = sealed.grant()._secret
    for shown in (repr(task), repr(seen)):
        assert repr(secret)[2:20] not in shown
        assert "array" not in shown
