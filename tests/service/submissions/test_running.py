"""Models at work: run on both sets and answered; what fails on hidden rows is an answer."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.service.helpers import Session, make_session, rows, small_spec
from tests.service.submissions.models import (
    ON_ALL_ROWS,
    VISIBLE,
    by_x,
    hidden_spec,
    on_all_rows,
    program,
    run,
    threshold,
)
from tests.warm import in_the_sandbox

from easeml_meter.core.questions.planning import required_labels
from easeml_meter.errors import InvalidInput, StorageError
from easeml_meter.scoring import executors
from easeml_meter.scoring import running as scoring
from easeml_meter.scoring.predictor import Limits, ModelFailed, SandboxUnavailable
from easeml_meter.scoring.sandbox import Run
from easeml_meter.service.submissions import running
from easeml_meter.service.submissions.kinds import Function, checked
from easeml_meter.service.submissions.measuring import Attempt, Measured
from easeml_meter.service.submissions.running import ModelAttempt, allotted
from easeml_meter.vault.sealing import seal

pytestmark = pytest.mark.slow


@pytest.fixture
def leaving(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Note the moments at which answers are to leave, and let them leave at once."""
    moments: list[float] = []
    monkeypatch.setattr(running, "wait_until", moments.append)
    return moments


def test_models_cost_an_answer_more() -> None:
    plain, models = small_spec(), small_spec(models=True)
    assert required_labels(models).labels > required_labels(plain).labels
    same = small_spec(loss="0-1", models=True)
    assert required_labels(models) == required_labels(same)


def test_a_command_is_measured_like_its_predictions(session: Session, sandboxed: None) -> None:
    told = run(session, program())
    assert told.step == 1
    labels = session.test_labels
    table = np.random.default_rng(1000).normal(size=(len(labels), 2))
    test_loss = np.mean((table[:, 0] > 0) != labels)
    visible = np.random.default_rng(7).normal(size=(VISIBLE, 2))
    gap = abs(np.mean((visible[:, 0] > 0) != session.validation_labels) - test_loss)
    assert told.gap is not None
    assert told.gap[0] <= gap <= told.gap[1]


def test_the_same_bytes_are_answered_once(session: Session) -> None:
    first = run(session, program())
    again = run(session, program(), name="other name")
    assert (again.repeated, again.step, again.name) == (True, 1, first.name)
    # Another program that predicts the same is another submission.
    assert run(session, program("    pass  # another")).step == 2


def test_what_is_wrong_on_visible_rows_is_told_and_free(session: Session) -> None:
    with pytest.raises(ModelFailed, match="ZeroDivisionError"):
        run(session, program("    1 / 0"))
    with pytest.raises(ModelFailed, match="one of"):
        run(session, program("    guess += 7"))
    assert session.meter.status().signals == ()


BAD = {
    "crash": "    if hidden: 1 / 0",
    "exit": "    if hidden: sys.exit(0)",
    "hang": "    if hidden:\n        import time\n        time.sleep(1000)",
    "too few": "    if hidden: guess = guess[:-1]",
    "too many": "    if hidden: guess = np.append(guess, 0)",
    "no class": "    if hidden: guess += 5",
    "noise": "    if hidden: sys.stdout.buffer.write(b'the labels are ...')",
    "stderr": "    if hidden: print(batch, file=sys.stderr); 1 / 0",
}


@pytest.mark.parametrize("kind", ["command", "onnx", "function"])
def test_a_model_that_looks_at_all_rows_is_refused_free(
    session: Session, tmp_path: Path, kind: str
) -> None:
    """Before, it was answered, and the promise did not hold for it."""
    models: dict[str, Callable[[], Any]] = {
        "command": lambda: program(ON_ALL_ROWS),
        "onnx": lambda: on_all_rows(tmp_path / "model.onnx"),
        "function": lambda: Function.of(
            lambda batch: (np.arange(batch.num_rows) + batch.num_rows) % 2, "by place"
        ),
    }
    with pytest.raises(ModelFailed, match="a prediction may depend on its own row only"):
        run(session, models[kind]())
    assert session.meter.status().signals == ()


def test_a_model_that_looks_at_all_hidden_rows_is_not_read(session: Session) -> None:
    """On visible rows it behaves; on hidden ones the first run and the second do not agree."""
    trick = program(f"    if rows > {VISIBLE}:\n    {ON_ALL_ROWS}")
    assert run(session, trick).name == "no-reading"
    assert len(session.meter.status().signals) == 1


def test_a_validation_set_replaced_while_a_model_runs_does_not_make_it_free(
    session: Session,
) -> None:
    """Before, the submission was refused after it had run on hidden rows, and cost nothing."""
    path = session.folder / "other.parquet"
    pq.write_table(rows(session.validation_labels, seed=8), path)

    def replaced(what: str, *_: float) -> None:
        if what == "running on the test set":
            session.meter.replace_validation(path)

    told = run(session, program(), progress=replaced)
    assert (told.step, session.meter.status().steps_left) == (1, 3)


def test_that_hidden_rows_are_reached_is_written_before(session: Session) -> None:
    """Where it cannot be written down, no hidden row is touched."""
    seen: list[str] = []

    def full(on: Measured) -> None:
        seen.append(f"{on.generation.number}/{on.validation.number}")
        raise StorageError("the disk is full")

    def progress(what: str, *_: float) -> None:
        seen.append(what)

    with pytest.raises(StorageError):
        run(session, program(), reach=full, progress=progress)
    assert seen[-1] == "1/1"
    assert "running on the test set" not in seen
    assert session.meter.status().signals == ()


SANDBOXED = {"crash", "hang", "stderr"}
"""What ends there in a way of its own; the rest is read by the meter, wherever it came from."""


@pytest.mark.parametrize(
    "sandboxed", [SANDBOXED, pytest.param(set(BAD), marks=pytest.mark.verify)], ids=["few", "all"]
)
def test_what_is_wrong_on_hidden_rows_is_one_answer(
    tmp_path: Path, leaving: list[float], capfd: Any, sandboxed: set[str]
) -> None:
    told, seen = [], []
    for name, trick in BAD.items():
        folder = tmp_path / name.replace(" ", "-")
        folder.mkdir()
        session = make_session(folder, hidden_spec(), validation_size=VISIBLE)
        started = time.monotonic()
        seconds = 5.0 if name == "hang" else 60.0
        with in_the_sandbox() if name in sandboxed else nullcontext():
            signal = run(session, program(trick), seconds=seconds)
        assert leaving.pop() >= started + seconds + 4.0, name  # never sooner than decided
        told.append((signal.name, signal.promise, signal.step, signal.battery))
        view = json.dumps(session.meter.audit().links[-1].details)
        seen.append(view.replace(session.meter.audit().links[-1].details["submission"], ""))
    assert set(told) == {(told[0][0], told[0][1], 1, 0.75)}
    assert told[0][0] == "no-reading"
    assert len(set(seen)) == 1
    out, err = capfd.readouterr()
    assert (out, err) == ("", "")


def test_no_answer_leaves_before_its_time(
    session: Session, patient: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a run on hidden rows takes is decided before it begins."""
    monkeypatch.setattr(running, "_SETTLING", 0.5)
    started = time.monotonic()
    run(session, program(), seconds=4.0)
    assert time.monotonic() - started >= 4.5


def test_a_model_that_is_slower_on_hidden_rows_is_answered_at_the_same_time(
    session: Session, leaving: list[float]
) -> None:
    slow = program(
        "    if hidden and rows == len(x):\n        import time\n        time.sleep(0.5)"
    )
    began: list[float] = []

    def progress(what: str, *_: float) -> None:
        if what == "running on the test set":
            began.append(time.monotonic())

    assert run(session, slow, progress=progress).name != "no-reading"
    assert began[0] + 64.0 <= leaving[0] < began[0] + 64.5


def test_time_is_decided_by_visible_rows_alone(session: Session) -> None:
    waits = []
    with mock.patch(
        "easeml_meter.service.submissions.running.allotted", side_effect=allotted
    ) as decide:
        run(session, program(), seconds=None, progress=lambda *told: waits.append(told))
    (estimate,) = decide.call_args.args
    assert estimate > 0
    assert waits[-1] == ("running on the test set", 0, allotted(estimate) + 4.0)
    assert {what for what, *_ in waits} == {
        "running on the validation set",
        "running on the test set",
    }


def test_allotted_time_is_a_power_of_two_with_room() -> None:
    for estimate in (0.0, 0.1, 1.0, 7.0, 100.0):
        seconds = allotted(estimate)
        assert seconds >= 3 * estimate
        assert seconds >= 2
        assert np.log2(seconds) % 1 == 0
    assert allotted(0.30) == allotted(0.31)
    assert allotted(1e9) == 24 * 3600


def test_cancelled_before_the_entry_costs_nothing(session: Session) -> None:
    with (
        mock.patch.object(running, "wait_until", side_effect=KeyboardInterrupt),
        pytest.raises(KeyboardInterrupt),
    ):
        run(session, program())
    assert session.meter.status().signals == ()
    assert run(session, program()).step == 1


def test_executors_agree(session: Session, tmp_path: Path) -> None:
    inline = run(session, program())
    (tmp_path / "other").mkdir()
    other = make_session(tmp_path / "other", hidden_spec(), validation_size=VISIBLE)
    spread = run(other, program(), executor="processes:2")
    assert (inline.name, inline.step) == (spread.name, spread.step)
    with pytest.raises(InvalidInput, match="executor"):
        run(session, program(), executor="moon")


def test_release_runs_models_again(tmp_path: Path) -> None:
    session = make_session(tmp_path, hidden_spec(steps=2), validation_size=VISIBLE)
    run(session, program())
    run(session, program(BAD["crash"]))
    folder = session.meter.release()
    first, second = json.loads((folder / "retrospective.json").read_text())
    labels = session.test_labels
    table = np.random.default_rng(1000).normal(size=(len(labels), 2))
    assert first["truth"]["test_loss"] == pytest.approx(np.mean((table[:, 0] > 0) != labels))
    assert second["truth"] is None


def test_no_release_where_models_cannot_be_run(tmp_path: Path) -> None:
    """Without a sandbox a model's loss would be missing for ever."""
    session = make_session(tmp_path, hidden_spec(steps=1), validation_size=VISIBLE)
    run(session, program())
    with (
        mock.patch("shutil.which", return_value=None),
        pytest.raises(SandboxUnavailable, match="apt-get install -y bubblewrap"),
    ):
        session.meter.release()
    (entry,) = json.loads((session.meter.release() / "retrospective.json").read_text())
    assert entry["truth"] is not None


def session_in_shards(folder: Path, monkeypatch: pytest.MonkeyPatch, shards: int) -> Session:
    """Give a meter whose test set has so many shards, and its validation set one."""
    spec = hidden_spec(tolerance=0.1)
    rows = -(-required_labels(spec).labels // shards)
    assert rows > VISIBLE
    monkeypatch.setattr(scoring, "SHARD_ROWS", rows)
    assert seal.__kwdefaults__ is not None
    monkeypatch.setitem(seal.__kwdefaults__, "row_group_size", rows)
    return make_session(folder, spec, validation_size=VISIBLE)


@pytest.mark.parametrize("shards", [1, 3])
def test_a_model_is_started_as_often_as_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shards: int
) -> None:
    """A trial, two visible runs, two on each hidden shard; one row to learn what a start takes."""
    session = session_in_shards(tmp_path, monkeypatch, shards)
    starts: list[Run] = []

    def enter(started: Run) -> Run:
        starts.append(started)
        return started

    monkeypatch.setattr(Run, "__enter__", enter)
    model = threshold(tmp_path / "model.onnx")
    assert run(session, model, seconds=600.0).name != "no-reading"
    assert len(starts) == 3 + 2 * shards
    starts.clear()
    monkeypatch.setattr(running, "allotted", lambda estimate: 600.0)
    (tmp_path / "other").mkdir()
    other = session_in_shards(tmp_path / "other", monkeypatch, shards)
    assert run(other, model, seconds=None).name != "no-reading"
    assert len(starts) == 4 + 2 * shards


class Clock:
    """Time that passes only where somebody sleeps."""

    now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@dataclass(frozen=True)
class Simulated:
    """A model that takes time by the clock, is checked once, and ends at its limit."""

    clock: Clock
    start_up: float
    each: float = 0.0
    hidden_extra: float = 0.0
    """Seconds that it takes for each run on hidden rows, and not for visible ones."""
    digest: str = "simulated"

    def same_bytes(self) -> None:
        return None

    def open(self, on: Measured, *, sees_inputs: bool = False) -> Attempt:
        return checked(ModelAttempt(self, b"", ""), on)

    def check(self, inputs: pa.Schema) -> None:
        self.clock.sleep(self.start_up)

    def predict(
        self, inputs: pa.Schema, batches: Iterable[pa.RecordBatch], limits: Limits, *, hidden: bool
    ) -> Iterator[pa.RecordBatch]:
        guesses = [by_x(batch) for batch in batches]
        needed = self.start_up + self.each * sum(map(len, guesses)) + hidden * self.hidden_extra
        self.clock.sleep(min(needed, limits.seconds))
        if needed > limits.seconds:
            raise ModelFailed("it took too long")
        for guess in guesses:
            yield pa.RecordBatch.from_arrays([pa.array(guess)], ["prediction"])


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch, patient: None) -> Clock:
    clock = Clock()
    monkeypatch.setattr(running, "time", clock)
    monkeypatch.setattr(executors, "time", clock)
    monkeypatch.setattr(scoring, "time", clock)
    return clock


@pytest.mark.parametrize(
    "pace",
    [(1, 0.01, 0.0), (1, 60.0, 3.0), (4, 1.0, 0.0), (7, 1.0, 0.01), (7, 60.0, 3.0)],
    ids=lambda pace: "{} shards, {} s to start, {} s a row".format(*pace),
)
def test_every_start_has_its_time(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    clock: Clock,
    pace: tuple[int, float, float],
) -> None:
    """A correct model is read, and its answer leaves when decided, to the last digit."""
    shards, start_up, each = pace
    session = session_in_shards(tmp_path, monkeypatch, shards)
    began: list[tuple[float, float]] = []

    def progress(what: str, done: float, total: float) -> None:
        if what == "running on the test set":
            began.append((clock.now, total))

    def answered(model: Any) -> str:
        name = run(session, model, seconds=None, progress=progress).name
        start, seconds = began.pop()
        assert clock.now == pytest.approx(start + seconds)
        return name

    # Three times as slow as on visible rows is still in time.
    rows = len(session.test_labels)
    slower = 1.9 * (start_up + 0.75 * each * rows / shards)  # in each of two runs
    assert answered(Simulated(clock, start_up, each)) != "no-reading"
    assert answered(Simulated(clock, start_up, each, slower, "slower")) != "no-reading"
    assert answered(Simulated(clock, start_up, each, 1e6, "asleep")) == "no-reading"


def test_many_shards_that_are_late_together_are_late(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    """No shard is over its time alone; all of them are, and nothing starts after the deadline."""
    session = session_in_shards(tmp_path, monkeypatch, 3)
    before = clock.now
    assert run(session, Simulated(clock, 1.0, hidden_extra=2.0), seconds=9.0).name == "no-reading"
    # The check, the visible runs, the time for hidden rows, and the wait until the answer leaves.
    assert clock.now - before == pytest.approx(1.0 + 2.0 + 9.0 + 4.0)


@pytest.mark.parametrize(("ending", "leaves"), [(0.0, 4), (3.9, 4), (4.5, 8), (11.0, 12)])
def test_how_long_a_model_takes_to_end_is_not_seen(
    clock: Clock, ending: float, leaves: float
) -> None:
    """Before, the answer left when the memory of the model was given back."""
    deadline = clock.now
    clock.sleep(ending)
    running._leave_after(deadline)
    assert clock.now - deadline == pytest.approx(leaves)


@pytest.fixture
def stuck_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    """A meter whose loss hangs on hidden labels until the test is over."""
    go = tmp_path / "go"
    monkeypatch.setenv("METER_TESTS_GO", str(go))
    give_up = threading.Timer(120, go.touch)
    give_up.start()
    spec = hidden_spec(loss="tests.scoring.examples:stuck[class]")
    yield make_session(tmp_path, spec, validation_size=VISIBLE)
    give_up.cancel()
    go.touch()
    for thread in threading.enumerate():
        if thread.name == "task":
            thread.join()


@pytest.mark.parametrize("executor", [None, "processes:1"])
def test_what_no_limit_reaches_does_not_hold_up_an_answer(
    stuck_session: Session,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    executor: str | None,
) -> None:
    monkeypatch.setattr(executors, "_GRACE", 0.1)
    assert run(stuck_session, program(), executor=executor, seconds=4.0).name == "no-reading"
    print("told")
    assert not (stuck_session.folder / "go").exists()  # the loss still hangs
    assert capsys.readouterr().out == "told\n"
