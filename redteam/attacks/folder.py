"""Whoever owns a folder with a meter: edited books, journals and settings show."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from easeml_meter.errors import MeterError
from easeml_meter.meter import Meter
from redteam import attack
from redteam.target import Client, Target, draw, hold, predictions, rows_of, small_spec


@dataclass
class Folder:
    """A meter in a folder, of which the owner knows everything."""

    path: Path
    rows: Any
    validation: Any

    @classmethod
    def make(cls, target: Target, **settings: Any) -> Folder:
        """Make one with both of its sets."""
        path = target.folder / f"folder-{secrets.token_hex(4)}"
        with Meter.create(path, small_spec(**settings), name="folder") as meter:
            found = cls(path, rows_of(draw(meter.plan.labels)), draw(20))
        found.begin()
        return found

    @property
    def home(self) -> Path:
        """Where the meter keeps what it stores."""
        return self.path / ".meter"

    @property
    def journal(self) -> Path:
        """The journal of the test set."""
        return next((self.home / "testsets").glob("*.journal"))

    @property
    def database(self) -> Path:
        """The books."""
        return next(self.home.glob("*.db"))

    def begin(self) -> None:
        """Hand in both sets."""
        plain, sealed = self.path / "rows.parquet", self.path / f"{secrets.token_hex(4)}.sealed"
        with Meter.open(self.path) as meter:
            pq.write_table(rows_of(self.validation), plain)
            meter.set_validation(plain, label="label")
            pq.write_table(self.rows, plain)
            meter.seal(plain, sealed, label="label", id_column="id")
            meter.add_test_set(sealed, ids_renumbered=True)

    def submit(self, test: Any = None, **options: Any) -> Any:
        """Hand in predictions that nobody has made before."""
        files = [self.path / f"{secrets.token_hex(4)}.parquet" for _ in range(2)]
        given = draw(self.rows.num_rows) if test is None else test
        for file, values in zip(files, (given, self.validation), strict=True):
            file.write_bytes(predictions(values))
        with Meter.open(self.path, **options) as meter:
            return meter.submit(*files, model=secrets.token_hex(4))

    def left(self) -> int:
        """Return how many answers are left."""
        with Meter.open(self.path) as meter:
            return meter.status().steps_left

    def problems(self) -> tuple[str, ...]:
        """Return what the audit finds."""
        with Meter.open(self.path) as meter:
            return meter.audit().problems

    def edit(self, statement: str) -> None:
        """Change the books by hand."""
        with Meter.open(self.path) as meter, meter.workspace.store.writing() as books:
            books.connection.exec_driver_sql(statement)

    def run(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run a command there."""
        program = "from easeml_meter.cli import main; main()"
        return subprocess.run(  # noqa: S603 - our own commands
            [sys.executable, "-c", program, *arguments, "-C", str(self.path)],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env=os.environ | environment,
        )


EDITS = {
    "the number of steps": "UPDATE meters SET settings = replace(settings, '4', '60')",
    "the settings": "UPDATE meters SET settings = replace(settings, '0.25', '0.45')",
    "an answer": "UPDATE entries SET answer = '1' WHERE answer != '1'",
    "the name of a model": "UPDATE entries SET model = 'another'",
    "the number of rows": "UPDATE generations SET rows = rows + 1",
    "the phase": "UPDATE generations SET phase = 'spent'",
    "an entry": "DELETE FROM entries",
    "a link of the chain": "UPDATE audit SET details = '{}' WHERE event = 'told'",
}


@attack(who="owner", finding="edited books are called sound", attempts=[92, 93])
def books_edited_by_hand(client: Client) -> None:
    for name, statement in EDITS.items():
        folder = Folder.make(client.target)
        folder.submit(1 - folder.rows.column("label").to_numpy())
        hold(not folder.problems(), f"the audit of untouched books: {folder.problems()}")
        before = folder.database.read_bytes()
        folder.edit(statement)
        hold(folder.database.read_bytes() != before, f"{name}: nothing was changed")
        hold(folder.problems(), f"{name} was edited, and the audit says that all is sound")


@attack(who="owner", finding="a lost database gives answers back", attempts=[86, 90])
def books_deleted_or_put_back(client: Client) -> None:
    folder = Folder.make(client.target)
    old = folder.database.read_bytes()
    for _ in range(3):
        folder.submit()
    for each in folder.home.glob("*.db-*"):
        each.unlink()
    folder.database.write_bytes(old)
    hold(folder.problems(), "an old database is put back, and the audit is silent")
    with contextlib.suppress(MeterError):
        folder.submit()
    hold(folder.left() <= 1, f"{folder.left()} answers left after an old database")


@attack(who="owner", finding="a journal without lines gives answers back", attempts=[87])
def a_journal_deleted(client: Client) -> None:
    folder = Folder.make(client.target)
    folder.submit()
    folder.journal.unlink()
    folder.submit()
    hold(folder.left() == 2, f"{folder.left()} answers left")
    hold(len(folder.journal.read_text().split()) > 1, "the journal was not written again")


@attack(who="owner", finding="replaced books are not noticed", attempts=[89])
def key_and_books_deleted(client: Client) -> None:
    folder = Folder.make(client.target)
    folder.submit()
    settings = next(folder.path.glob("*.toml"), None)
    kept = settings.read_text() if settings else ""
    for each in [*folder.home.glob("*.db*"), *(folder.home / "keys").glob("*")]:
        each.unlink()
    try:
        with Meter.create(folder.path, small_spec(), name="folder"):
            pass
        folder.begin()
        found = folder.problems()
    except MeterError as error:
        found = (str(error),)
    hold(found or kept is None, "the books were replaced, and nothing says so")


JUNK = (
    *(b"5\n", b"[]\n", b"null\n", b"\xff\xfe\n", b'{"step": 1}\n', b'{"tenant": []}\n'),
    *(b'{"step": 1' + b"0" * 30 + b"}\n", b"{" * 5000 + b"\n", b'{"step": "x", "answer": 1}\n'),
)


@attack(who="owner", finding="junk in a journal ends the program", attempts=[94])
def junk_in_a_journal(client: Client) -> None:
    folder = Folder.make(client.target)
    folder.submit()
    with folder.journal.open("ab") as journal:
        journal.writelines(JUNK)
    folder.submit()
    hold(folder.left() == 2, f"{folder.left()} answers left")
    done = folder.run("audit")
    hold("Traceback" not in done.stderr, done.stderr[-200:])


@attack(who="owner", finding="what is no file is read for ever", attempts=[95, 98], small=False)
def no_file_where_one_is_read(client: Client) -> None:
    def journal(make: Callable[[Path], object]) -> None:
        folder = Folder.make(client.target)
        folder.submit()
        place = folder.journal
        place.unlink()
        make(place)
        for verb in ("audit", "status"):
            done = folder.run(verb)
            hold("Traceback" not in done.stderr, f"{verb}: {done.stderr[-200:]}")

    journal(lambda place: place.mkdir())
    journal(os.mkfifo)
    journal(lambda place: place.symlink_to("/dev/zero"))
    folder = Folder.make(client.target)
    left = folder.left()
    os.mkfifo(folder.path / "pipe.parquet")
    for test in ("/dev/zero", "/dev/null", str(folder.path / "pipe.parquet"), "/proc/self/mem"):
        done = folder.run("submit", "--test", test, "--validation", test)
        hold(done.returncode != 0 and "Traceback" not in done.stderr, f"{test}: {done.stderr}")
    hold(folder.left() == left, "an answer was charged")


@attack(who="owner", finding="a clock decides about the budget", attempts=[96])
def clocks_that_lie(client: Client) -> None:
    folder = Folder.make(client.target)
    for days in (-366, 366):
        moment = datetime.now(UTC) + timedelta(days=days)
        folder.submit(clock=lambda moment=moment: moment)
    hold(folder.left() == 2, f"{folder.left()} answers left")
    hold(not folder.problems(), f"{folder.problems()}")


@attack(who="owner", finding="a role is more than it says, or a key is public", attempts=[97])
def roles_and_keys_of_a_folder(client: Client) -> None:
    folder = Folder.make(client.target)
    for role in ("labeler", "runner", "DEVELOPER", "owner ", "root"):
        done = folder.run("status", METER_ROLE=role)
        hold(role == "labeler" or done.returncode != 0, f"METER_ROLE={role}: {done.stdout[:100]}")
    key = next((folder.home / "keys").glob("*"))
    key.chmod(0o644)
    done = folder.run("testset", "inputs", str(folder.path / "x.parquet"))
    hold(done.returncode != 0, "a key that all can read is used")


@attack(who="owner", finding="an odd meter.toml ends in a traceback", attempts=[99], small=False)
def odd_settings(client: Client) -> None:
    for text in (
        *(
            "tolerance = nan",
            "steps = inf",
            "steps = 2020-01-01",
            "steps = true",
            "\ufeffsteps = 4",
        ),
        *("a = " + "[" * 2000, "steps = " + "9" * 5000, "tolerance = 1e-300", "\x00", "=", "[[[["),
    ):
        path = client.target.folder / f"settings-{secrets.token_hex(4)}"
        path.mkdir()
        (path / "meter.toml").write_text(f'[question]\nask = "gap"\n{text}\n', encoding="utf-8")
        done = Folder(path, None, None).run("init")
        hold(done.returncode != 0 and "Traceback" not in done.stderr, f"{text[:30]}: {done.stderr}")


@attack(who="owner", finding="ids that say nothing are taken", attempts=[100])
def odd_ids(client: Client) -> None:
    folder = Folder.make(client.target)
    size = folder.rows.num_rows
    left = folder.left()
    for ids in (np.zeros(size, np.int64), ["9" * 40] * size, ["a" * 300_000] * size):
        file = folder.path / f"{secrets.token_hex(4)}.parquet"
        pq.write_table(pa.table({"id": ids, "prediction": draw(size)}), file)
        done = folder.run("submit", "--test", str(file), "--validation", str(file))
        hold(done.returncode != 0 and "Traceback" not in done.stderr, f"{done.stderr[-200:]}")
    hold(folder.left() == left, "an answer was charged")
    hold(shutil.disk_usage(folder.path).free > 0, "the disk is full")
