"""A submission scored on a cluster: the same answer, the same books, also if a worker is killed."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest
from distributed import LocalCluster
from tests.service.helpers import make_session
from tests.service.submissions.models import VISIBLE, hidden_spec, program

from easeml_meter.scoring.executors import connect
from easeml_meter.service.submissions.kinds import PredictionFiles
from easeml_meter.service.submissions.measuring import Conditions

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(  # type: ignore[no-untyped-call]
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0"
    ) as started:
        yield started


def test_predictions_are_answered_alike(cluster: LocalCluster, tmp_path: Path) -> None:
    told = []
    for number, executor in enumerate((None, f"dask:{cluster.scheduler_address}")):
        folder = tmp_path / str(number)
        folder.mkdir()
        session = make_session(folder, validation_size=VISIBLE)
        files = PredictionFiles(*session.files(7, 1))
        conditions = Conditions(executor=executor)
        signal_ = session.meter.submit_any(files, model="m", conditions=conditions)
        told.append((signal_.name, signal_.step, len(session.meter.status().signals)))
    assert told[0] == told[1]


def test_a_killed_worker_changes_neither_answer_nor_books(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    slow = program("    if hidden:\n        import time\n        time.sleep(3)")
    (tmp_path / "plain").mkdir()
    plain = make_session(tmp_path / "plain", hidden_spec(), validation_size=VISIBLE)
    expected = plain.meter.submit_any(slow, model="m", conditions=Conditions(seconds=60.0))
    assert expected.name != "no-reading"
    (tmp_path / "spread").mkdir()
    session = make_session(tmp_path / "spread", hidden_spec(), validation_size=VISIBLE)
    killed: list[int] = []

    def kill_the_busy_one() -> None:
        with connect(cluster.scheduler_address) as client:
            while not (busy := [name for name, tasks in client.processing().items() if tasks]):
                time.sleep(0.05)
            time.sleep(1)  # the command is under way
            found = client.run(os.getpid, workers=busy)
            killed.extend(found.values())
            for process in killed:
                os.kill(process, signal.SIGKILL)

    def progress(what: str, done: float, total: float) -> None:
        if what == "running on the test set":
            threading.Thread(target=kill_the_busy_one, daemon=True).start()

    conditions = Conditions(
        executor=f"dask:{cluster.scheduler_address}", seconds=120.0, progress=progress
    )
    told = session.meter.submit_any(slow, model="m", conditions=conditions)
    assert killed
    assert (told.name, told.step) == (expected.name, 1)
    assert len(session.meter.status().signals) == 1
    assert session.meter.audit().problems == ()


def test_a_worker_that_hangs_does_not_hold_up_an_answer(tmp_path: Path) -> None:
    go = tmp_path / "go"
    give_up = threading.Timer(120, go.touch)
    give_up.start()
    with (
        mock.patch.dict(os.environ, METER_TESTS_GO=str(go)),
        LocalCluster(  # type: ignore[no-untyped-call]
            n_workers=1, threads_per_worker=1, processes=True, dashboard_address=":0"
        ) as own,
    ):
        spec = hidden_spec(loss="tests.scoring.examples:stuck[class]")
        session = make_session(tmp_path, spec, validation_size=VISIBLE)
        conditions = Conditions(executor=f"dask:{own.scheduler_address}", seconds=3.0)
        told = session.meter.submit_any(program(), model="m", conditions=conditions)
        assert told.name == "no-reading"
        assert not go.exists()  # the loss still hangs
        give_up.cancel()
        go.touch()
