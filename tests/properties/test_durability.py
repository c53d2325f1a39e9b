"""Power can fail between any two lines, and processes come at once: the books stay right."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from tests.service.helpers import Clock, condition_spec, deliver, make_session, small_spec

from easeml_meter.errors import Spent, VaultError
from easeml_meter.meter import Meter
from easeml_meter.spec import MeterSpec
from easeml_meter.storage.journal import Journal

SUBMIT = """
import sys
from easeml_meter.meter import Meter
from easeml_meter.errors import Spent

folder, pairs = sys.argv[1], sys.argv[2:]
meter = Meter.open(folder)
meter.spec  # everything is imported and opened
print("ready", flush=True)
sys.stdin.readline()
for pair in pairs:
    test, validation, model = pair.split("|")
    try:
        signal = meter.submit(test, validation, model=model)
    except Spent:
        print("spent", flush=True)
        break
    print(f"told {signal.step} {signal.name} {model} {signal.repeated}", flush=True)
"""


def start(folder: Path, pairs: list[str]) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", SUBMIT, str(folder), *pairs],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def go(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def long_spec(steps: int) -> MeterSpec:
    # One wide band at a large tolerance: many steps from few labels.
    return small_spec(signals=1, edges=[], tolerance=0.45, steps=steps, delta=0.5)


def alarm_spec(steps: int, alarms: int) -> MeterSpec:
    asked = {"question": "alarm", "labels": 40, "alarms": alarms, "delta": 0.25}
    return condition_spec(steps=steps, inputs="public", **asked)


def kill_at_random_moments(
    tmp_path: Path, kills: int, seed: int, spec: MeterSpec | None = None
) -> None:
    session = make_session(tmp_path, spec or long_spec(kills + 1))
    rng = random.Random(seed)  # noqa: S311  moments to kill at, no secrets
    told: dict[str, tuple[int, str]] = {}
    longest = 0.08
    for number in range(kills):
        test, validation = session.files(number % 5, 0, salt=str(number))
        pair = f"{test}|{validation}|m{number}"
        process = start(tmp_path / "meter", [pair])
        go(process)
        time.sleep(rng.uniform(0, longest))
        process.send_signal(signal.SIGKILL)
        output, _ = process.communicate()
        shown = output.split()
        if shown:  # the answer was seen: it must be in the books
            told[shown[3]] = (int(shown[1]), shown[2])
        meter = Meter.open(tmp_path / "meter")
        entries = {entry.model: (entry.step, entry.name) for entry in meter.status().signals}
        assert told.items() <= entries.items()
        # The retry gets the answer that was lost, or a first one: charged once in any case.
        again = meter.submit(test, validation, model=f"m{number}")
        assert (again.step, again.name) == entries.get(f"m{number}", (number + 1, again.name))
        told[f"m{number}"] = (again.step, again.name)
        assert len(meter.status().signals) == number + 1
    assert Meter.open(tmp_path / "meter").audit().problems == ()


def test_kill_9_at_a_few_random_moments(tmp_path: Path) -> None:
    kill_at_random_moments(tmp_path, kills=8, seed=1)


def test_kill_9_at_an_alarm(tmp_path: Path) -> None:
    """Its g follows the alarms so far: one that was lost would give a narrower one again."""
    kill_at_random_moments(tmp_path, kills=6, seed=3, spec=alarm_spec(7, alarms=7))


@pytest.mark.verify
def test_kill_9_at_200_random_moments(tmp_path: Path) -> None:
    kill_at_random_moments(tmp_path, kills=200, seed=2)


def submit_at_once(tmp_path: Path, processes: int, each: int) -> None:
    session = make_session(tmp_path, long_spec(processes * each - 3))
    running = []
    for process in range(processes):
        pairs = []
        for number in range(each):
            name = f"p{process}-{number}"
            test, validation = session.files(number % 3, 0, salt=name)
            pairs.append(f"{test}|{validation}|{name}")
        running.append(start(tmp_path / "meter", pairs))
    answers = []
    for one in running:
        go(one)
    for one in running:
        output, _ = one.communicate()
        answers += [line for line in output.splitlines() if line.startswith("told")]
        assert one.returncode == 0
    signals = Meter.open(tmp_path / "meter").status().signals
    assert len(answers) == len(signals) == processes * each - 3
    assert sorted(int(line.split()[1]) for line in answers) == [entry.step for entry in signals]
    assert Meter.open(tmp_path / "meter").audit().problems == ()


def test_four_processes_at_once(tmp_path: Path) -> None:
    submit_at_once(tmp_path, processes=4, each=10)


@pytest.mark.verify
def test_four_processes_submit_a_thousand_times(tmp_path: Path) -> None:
    submit_at_once(tmp_path, processes=4, each=251)


def test_an_old_database_copied_back_resets_nothing(tmp_path: Path) -> None:
    session = make_session(tmp_path)
    session.submit(0, 0, model="a")
    session.meter.close()
    shutil.copy(tmp_path / "meter" / ".meter" / "meter.db", tmp_path / "old.db")
    session.meter = Meter.open(tmp_path / "meter")
    session.submit(5, 0, model="b")
    session.submit(7, 0, model="c")
    session.meter.close()
    for leftover in (tmp_path / "meter" / ".meter").glob("meter.db*"):
        leftover.unlink()
    shutil.copy(tmp_path / "old.db", tmp_path / "meter" / ".meter" / "meter.db")

    session.meter = Meter.open(tmp_path / "meter")
    assert any("an older copy" in problem for problem in session.meter.audit().problems)
    assert session.submit(9, 0, model="d").step == 4
    assert session.meter.status().steps_left == 0
    problems = session.meter.audit().problems
    assert any("2 answers were missing and came from the journal" in each for each in problems)


def test_an_old_database_copied_back_gives_no_alarm_back(tmp_path: Path) -> None:
    session = make_session(tmp_path, alarm_spec(9, alarms=2))
    rows = len(session.test_labels)
    first = session.submit(0, 0, model="a")
    session.meter.close()
    shutil.copy(tmp_path / "meter" / ".meter" / "meter.db", tmp_path / "old.db")
    session.meter = Meter.open(tmp_path / "meter")
    assert session.submit(rows, 0, model="b").name == "alarm"
    session.meter.close()
    for leftover in (tmp_path / "meter" / ".meter").glob("meter.db*"):
        leftover.unlink()
    shutil.copy(tmp_path / "old.db", tmp_path / "meter" / ".meter" / "meter.db")

    session.meter = Meter.open(tmp_path / "meter")
    wider = session.submit(0, 1, model="c")
    assert (first.name, wider.name) == ("ok", "ok")
    assert (wider.g or 0) > (first.g or 1)
    assert session.submit(rows, 1, model="d").name == "alarm"
    with pytest.raises(Spent):
        session.submit(0, 2, model="e")
    problems = session.meter.audit().problems
    assert any("missing and came from the journal" in each for each in problems)


def test_a_change_of_g_by_hand_is_shown(tmp_path: Path) -> None:
    session = make_session(tmp_path, alarm_spec(4, alarms=2))
    session.submit(0, 0)
    with session.meter.workspace.store.writing() as books:
        books.connection.exec_driver_sql("UPDATE entries SET first_edge = '1/1000'")
    assert session.meter.audit().problems


def test_a_deleted_database_and_the_same_rows_sealed_again_reset_nothing(tmp_path: Path) -> None:
    session = make_session(tmp_path)
    for model in "abc":
        session.submit(0, 0, model=model)
    session.meter.close()
    for leftover in (tmp_path / "meter" / ".meter").glob("meter.db*"):
        leftover.unlink()

    meter = Meter.create(tmp_path / "meter", small_spec(), clock=Clock())
    meter.set_validation(tmp_path / "validation.parquet", label="label")
    problems = meter.audit().problems
    assert any("these books do not know has answered 3" in each for each in problems)
    with pytest.raises(VaultError):  # sealed for the meter that was deleted
        meter.add_test_set(tmp_path / "set-0.sealed")
    (tmp_path / "set-0.sealed").unlink()
    deliver(meter, tmp_path, session.test_labels, seed=0)
    assert meter.status().steps_left == 1
    assert any("3 answers were missing" in problem for problem in meter.audit().problems)


def test_the_audit_chain_shows_a_change_by_hand(tmp_path: Path) -> None:
    session = make_session(tmp_path)
    session.submit(0, 0)
    with session.meter.workspace.store.writing() as books:
        books.connection.exec_driver_sql(
            "UPDATE audit SET details = json_replace(details, '$.answer', '3') WHERE event = 'told'"
        )
    problems = session.meter.audit().problems
    assert any("does not match" in problem for problem in problems)


@pytest.mark.parametrize(
    ("statement", "found"),
    [
        ("UPDATE meters SET settings = json_replace(settings, '$.budget.steps', 60)", "settings"),
        ("UPDATE entries SET answer = '3'", "another answer than the chain"),
        ("UPDATE entries SET model = 'another'", "not those of the journal"),
        ("UPDATE generations SET rows = rows + 1", "another number of rows"),
        ("UPDATE generations SET phase = 'spent'", "is spent, but the chain says otherwise"),
    ],
)
def test_the_audit_replays_the_chain(tmp_path: Path, statement: str, found: str) -> None:
    """One SQL statement gave a meter a larger budget, and the audit called it sound."""
    session = make_session(tmp_path)
    session.submit(0, 0)
    assert session.meter.audit().problems == ()
    with session.meter.workspace.store.writing() as books:
        books.connection.exec_driver_sql(statement)
    assert any(found in problem for problem in session.meter.audit().problems)


@pytest.mark.parametrize("event", ["created", "test set added", "told"])
@pytest.mark.parametrize("details", ["{}", '{"generation": [], "settings": 1}'])
def test_an_emptied_link_shows(tmp_path: Path, event: str, details: str) -> None:
    """The audit ended with a traceback where a link did not say what its event says."""
    session = make_session(tmp_path)
    session.submit(0, 0)
    with session.meter.workspace.store.writing() as books:
        statement = "UPDATE audit SET details = ? WHERE event = ?"
        books.connection.exec_driver_sql(statement, (details, event))
    problems = session.meter.audit().problems
    assert any("does not match" in problem for problem in problems)
    assert any("settings" in problem or "emptied" in problem for problem in problems)


def test_an_entry_removed_by_hand_comes_back_and_shows(tmp_path: Path) -> None:
    session = make_session(tmp_path)
    session.submit(0, 0, model="a")
    with session.meter.workspace.store.writing() as books:
        books.connection.exec_driver_sql("DELETE FROM entries")
    assert session.meter.audit().problems
    assert session.submit(1, 0, model="b").step == 2


def test_a_journal_line_cut_short_does_not_hide_the_next(tmp_path: Path) -> None:
    session = make_session(tmp_path)
    session.submit(0, 0, model="a")
    journal = next((tmp_path / "meter" / ".meter" / "testsets").glob("*.journal"))
    with journal.open("ab") as file:
        file.write(b'{"answer": "1", "ste')
    session.submit(1, 0, model="b")
    steps = [json.loads(line)["step"] for line in journal.read_bytes().split(b"\n") if _whole(line)]
    assert steps == [1, 2]


def _whole(line: bytes) -> bool:
    return line.startswith(b"{") and line.endswith(b"}")


def test_answers_that_another_server_is_about_to_journal_are_added_without_reading_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two servers, the next one read the whole journal, under the lock, nearly every time."""
    session = make_session(tmp_path, long_spec(10))
    session.submit(0, 0, model="a")
    (journal,) = (tmp_path / "meter").rglob("*.journal")
    before = journal.read_bytes()
    for model in "bc":
        session.submit(ord(model) % 5, 0, model=model)
    journal.write_bytes(before)  # both are committed, and not written down yet

    def read(_: Journal) -> None:
        raise AssertionError("the journal was read")

    with monkeypatch.context() as patched:
        patched.setattr(Journal, "read", read)
        session.submit(4, 1, model="d")
    text = journal.read_text(encoding="utf-8")
    assert [text.count(f'"model": "{model}"') for model in "abcd"] == [1, 1, 1, 1]
    assert session.meter.audit().problems == ()


def test_a_late_line_of_another_server_hides_no_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It noted fewer answers than the journal held, as many as an older database had."""
    session = make_session(tmp_path)
    late: list[tuple[Any, ...]] = []
    with monkeypatch.context() as patched:
        patched.setattr(Journal, "append", lambda *given: late.append(given))
        session.submit(0, 0, model="a")
    session.meter.close()
    database = tmp_path / "meter" / ".meter" / "meter.db"
    before = database.read_bytes()
    session.meter = Meter.open(tmp_path / "meter", clock=Clock())
    session.submit(1, 0, model="b")  # a faster server writes down both
    for given in late:
        Journal.append(*given)
    session.meter.close()
    for name in ("meter.db-wal", "meter.db-shm"):
        database.with_name(name).unlink(missing_ok=True)
    database.write_bytes(before)
    session.meter = Meter.open(tmp_path / "meter", clock=Clock())
    assert session.submit(2, 0, model="c").step == 3
    (problem,) = session.meter.audit().problems
    assert "1 answers were missing and came from the journal" in problem


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk needs root")
def test_a_full_disk_costs_nothing(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", disk], check=False, capture_output=True
    )
    if mounted.returncode:
        pytest.skip("no mounts here")
    try:
        session = make_session(tmp_path, small_spec())
        shutil.copytree(tmp_path / "meter", disk / "meter")
        meter = Meter.open(disk / "meter")
        test, validation = session.files(0, 0)
        filler = disk / "filler"
        with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
            while file.write(b"x" * 4096):
                pass
        files = ["--test", str(test), "--validation", str(validation)]
        result = subprocess.run(
            [Path(sys.executable).with_name("meter"), "submit", "-C", str(disk / "meter"), *files],
            capture_output=True,
            text=True,
            check=False,
        )
        assert result.returncode == 1
        assert result.stderr.count("\n") == 1
        assert result.stdout == ""
        filler.unlink()
        assert meter.status().steps_left == 4
        assert meter.submit(test, validation, model="m").step == 1
    finally:
        subprocess.run(["umount", "-l", disk], check=True)
