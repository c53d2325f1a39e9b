"""Windows of a rolling test set: batches join and leave, and what has left is public."""

from __future__ import annotations

import itertools
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.service.helpers import Clock, older_books, retire_cut_short, small_spec

from easeml_meter.core.lifecycle import Phase
from easeml_meter.core.model import Event
from easeml_meter.core.people import Role
from easeml_meter.core.views import Signal
from easeml_meter.errors import Denied, InvalidInput, NotFound, Spent, WrongPhase
from easeml_meter.meter import Meter
from easeml_meter.scoring.ids import RowMatching
from easeml_meter.service.actor import SYSTEM, Actor
from easeml_meter.service.backup import Place, back_up
from easeml_meter.service.place import Home
from easeml_meter.service.restore import restore
from easeml_meter.service.submissions.measuring import Measured
from easeml_meter.service.testsets import delivery, reuse
from easeml_meter.service.testsets.differences import comparable, compare_submissions
from easeml_meter.spec import MeterSpec
from easeml_meter.storage.store import Store
from easeml_meter.vault.sealing import SealedTestSet, seal

WINDOW = 3


def rolling_spec(**options: Any) -> MeterSpec:
    return small_spec(**({"window": WINDOW, "inputs": "public"} | options))


@dataclass
class Rolled:
    """A meter with a rolling test set, its labeler, and a developer who knows what is right."""

    folder: Path
    spec: MeterSpec = field(default_factory=rolling_spec)

    def __post_init__(self) -> None:
        self.meter = Meter.create(self.folder / "meter", self.spec, clock=Clock())
        self.batch = self.meter.plan.labels
        self.names = itertools.count()
        self.random = np.random.default_rng(3)
        self.labels: list[int] = []
        visible = pa.table({"x": self.random.normal(size=10), "label": [0, 1] * 5})
        self.meter.set_validation(visible, label="label")

    def table(self, rows: int) -> pa.Table:
        """Draw rows that nobody has seen, and remember what is right."""
        first = len(self.labels)
        self.labels += self.random.integers(0, 2, rows).tolist()
        columns = {"id": np.arange(first, first + rows), "x": self.random.normal(size=rows)}
        return pa.table({**columns, "label": self.labels[first:]})

    def sealed(self, table: pa.Table, **options: Any) -> Path:
        path = self.folder / f"{next(self.names)}.sealed"
        self.meter.seal(table, path, label="label", id_column="id", **options)
        return path

    def deliver(self, rows: int | None = None) -> pa.Table:
        """Deliver the first window, or the next batch."""
        asked = self.meter.generations[-1].labels_needed
        table = self.table(rows or asked)
        self.meter.add_test_set(self.sealed(table))
        return table

    def submit(self, wrong: slice = slice(0), model: str = "model", note: str = "") -> Signal:
        """Submit a model that is right on all rows of the window, but for some of them."""
        rows = self.meter.generations[-1].rows or self.meter.generations[-2].rows or 0
        first = len(self.labels) - rows
        guess = np.array(self.labels[first:])
        guess[wrong] = 1 - guess[wrong]
        test = pa.table({"id": np.arange(first, len(self.labels)), "prediction": guess})
        validation = pa.table({"prediction": [0, 1] * 5})
        return self.meter.submit(test, validation, model=model, note=note)

    def reopen(self) -> None:
        self.meter = Meter.open(self.folder / "meter", clock=Clock())

    @contextmanager
    def older_books(self) -> Iterator[None]:
        """Put the books back afterwards, as they are now."""
        self.meter.close()
        with older_books(self.folder):
            self.reopen()
            yield
            self.meter.close()
        self.reopen()

    def step(self) -> Signal:
        """Deliver a batch, and submit a model that is right."""
        self.deliver()
        return self.submit()

    @property
    def events(self) -> list[str]:
        return [link.event for link in self.meter.audit().links]


@pytest.fixture
def rolled(tmp_path: Path) -> Rolled:
    return Rolled(tmp_path)


def test_a_batch_joins_and_the_oldest_leaves(rolled: Rolled) -> None:
    first = rolled.deliver()
    assert first.num_rows == WINDOW * rolled.batch
    assert rolled.submit().answer == 1
    assert rolled.meter.batches() == []
    rolled.deliver()
    assert [(each.number, each.rows) for each in rolled.meter.batches()] == [(1, rolled.batch)]
    window = rolled.meter.generations[-1]
    assert (window.number, window.phase, window.rows) == (2, Phase.ACTIVE, WINDOW * rolled.batch)
    # It is measured on the batches in use, and on no other: half of them wrong is half a loss.
    assert rolled.submit(slice(None, None, 2)).answer == 3
    assert rolled.meter.audit().sound


def test_what_has_left_is_released_as_it_was(rolled: Rolled, tmp_path: Path) -> None:
    first = rolled.deliver()
    rolled.submit()
    with pytest.raises(NotFound, match="batch 1 was not released yet"):
        rolled.meter.fetch_batch(1, tmp_path / "early.parquet")
    rolled.deliver()
    fetched = pq.read_table(rolled.meter.fetch_batch(1, tmp_path / "one.parquet"))
    assert fetched["label"].to_pylist() == first["label"].to_pylist()[: rolled.batch]
    assert fetched["x"].to_pylist() == first["x"].to_pylist()[: rolled.batch]
    with pytest.raises(NotFound):
        rolled.meter.fetch_batch(2, tmp_path / "two.parquet")
    assert rolled.events[-2:] == [Event.TEST_SET_ADDED, Event.BATCH_RELEASED]


def test_a_note_is_shown_beside_the_step_that_people_see(tmp_path: Path) -> None:
    rolled = Rolled(tmp_path, rolling_spec(window=1, submissions=2))
    for window in range(2):
        rolled.deliver()
        for number in range(2):
            note = "" if (window, number) == (0, 1) else f"model {number}"
            rolled.submit(slice(number), model=f"model {window} {number}", note=note)
    notes = rolled.meter.status().notes
    assert [(each.generation, each.step, each.text) for each in notes] == [
        (1, 1, "model 0"),
        (2, 3, "model 0"),
        (2, 4, "model 1"),
    ]


def test_two_models_of_a_window_are_compared_by_the_steps_that_people_see(tmp_path: Path) -> None:
    rolled = Rolled(tmp_path, rolling_spec(window=1, submissions=2))
    for _ in range(2):
        rolled.deliver()
        for number in range(2):
            rolled.submit(slice(number), model=f"model {number}")
        rolled.meter.release()
    actor, space = Actor.embedded(), rolled.meter.workspace
    assert comparable(actor, space, 2) == [3, 4]
    found = compare_submissions(actor, space, 2, (3, 4))
    assert (found.first.step, found.second.step, found.worse) == (3, 4, 1)


def test_a_step_is_refused_while_its_batch_is_missing(rolled: Rolled) -> None:
    rolled.step()
    before = rolled.meter.audit()
    with (
        mock.patch.object(SealedTestSet, "labels", side_effect=AssertionError("touched")),
        pytest.raises(Spent, match=rf"batch .* is missing: {rolled.batch} labels are needed"),
    ):
        rolled.submit(slice(1), model="another")
    assert rolled.meter.audit() == before
    rolled.deliver()
    assert rolled.submit(slice(1), model="another").generation == 2


def test_the_first_step_needs_the_whole_window(rolled: Rolled) -> None:
    (asked,) = rolled.meter.requests()
    assert asked.test_set.labels_needed == WINDOW * rolled.batch
    with pytest.raises(InvalidInput, match="needed"):
        rolled.sealed(rolled.table(rolled.batch))
    rolled.labels.clear()
    for number in range(WINDOW):
        added = rolled.meter.add_part(rolled.sealed(rolled.table(rolled.batch), part=True))
        assert added.phase is (Phase.ACTIVE if number == WINDOW - 1 else Phase.REQUESTED)
    assert rolled.submit().answer == 1


def test_a_batch_may_come_in_parts(rolled: Rolled) -> None:
    rolled.step()
    few = rolled.batch // 2
    part = rolled.sealed(rolled.table(few), part=True)
    assert rolled.meter.add_part(part).phase is Phase.REQUESTED
    assert rolled.meter.batches() == []
    rest = rolled.sealed(rolled.table(rolled.batch - few), part=True)
    assert rolled.meter.add_part(rest).rows == WINDOW * rolled.batch
    assert len(rolled.meter.batches()) == 1


def test_larger_batches_stay_whole(rolled: Rolled) -> None:
    rolled.deliver(WINDOW * rolled.batch + 2)
    rows = []
    for _ in range(5):
        rolled.submit()
        rolled.deliver(rolled.batch + 5)
        rows.append(rolled.meter.generations[-1].rows)
    assert [each.rows for each in rolled.meter.batches()] == [
        rolled.batch, rolled.batch + 1, rolled.batch + 1, rolled.batch + 5, rolled.batch + 5
    ]  # fmt: skip
    assert rows[-1] == WINDOW * (rolled.batch + 5)
    assert rolled.submit(slice(None)).answer == 3


def test_the_battery_is_steady_and_steps_go_on(rolled: Rolled) -> None:
    rolled.deliver()
    told = []
    for _ in range(6):
        told.append(rolled.submit())
        rolled.deliver()
    assert [signal.step for signal in told] == [1, 2, 3, 4, 5, 6]
    assert {signal.battery for signal in told} == {1.0}
    view = rolled.meter.status()
    assert (view.battery, view.steps_left, view.generation) == (1.0, 1, 7)
    # As many windows as share batches, or one delta, with this one.
    assert [signal.step for signal in view.signals] == [4, 5, 6]
    assert [len(each.signals) for each in rolled.meter.history()] == [1] * 6 + [0]
    assert "averaged over its window of 3 batches" in told[0].promise
    assert "for the first 4 windows together (4 further ones cost another 0.2)" in told[0].promise


def test_several_submissions_for_each_batch(tmp_path: Path) -> None:
    rolled = Rolled(tmp_path, rolling_spec(submissions=2))
    rolled.deliver()
    assert [rolled.submit(slice(each)).steps_left for each in (0, 1)] == [1, 0]
    with pytest.raises(Spent):
        rolled.submit(slice(2))
    rolled.deliver()
    assert rolled.submit().step == 3


def test_rows_of_any_earlier_batch_are_refused(rolled: Rolled) -> None:
    old = rolled.deliver()
    for _ in range(2 * WINDOW):
        rolled.submit()
        newest = rolled.deliver()
    rolled.submit()
    for start in (0, rolled.batch, 2 * rolled.batch):  # they left at three different times
        with pytest.raises(InvalidInput, match="under the same id"):
            rolled.meter.add_test_set(rolled.sealed(old.slice(start, rolled.batch)))
    with pytest.raises(InvalidInput, match="under the same id"):  # and these are in use
        rolled.meter.add_test_set(rolled.sealed(newest, part=True))


def test_labels_alone_join_no_window_again(rolled: Rolled) -> None:
    """Nothing but the labels themselves tells that these rows were used before."""
    path = rolled.folder / "alone.sealed"
    first = rolled.random.integers(0, 2, WINDOW * rolled.batch).tolist()
    batches = [first[at : at + rolled.batch] for at in range(0, len(first), rolled.batch)]

    def deliver(labels: list[int]) -> None:
        path.unlink(missing_ok=True)
        rolled.meter.seal(pa.table({"label": labels}), path, label="label")
        rolled.meter.add_test_set(path)

    deliver(first)
    for number in range(2, 2 * WINDOW + 1):
        rolled.meter.retire()
        with pytest.raises(InvalidInput, match="the same rows were test set 1"):
            deliver(first)
        for used in batches:
            with pytest.raises(InvalidInput, match="the same rows were rows of test set"):
                deliver(used)
        batches.append(rolled.random.integers(0, 2, rolled.batch).tolist())
        deliver(batches[-1])
        assert rolled.meter.generations[-1].number == number


def test_a_batch_whose_file_is_gone_keeps_nobody_from_the_next(rolled: Rolled) -> None:
    for _ in range(WINDOW + 1):
        rolled.step()
    (gone,) = (rolled.folder / "meter").rglob("testsets/1-*.sealed")
    gone.unlink()
    rolled.deliver()
    assert rolled.submit().generation == WINDOW + 2


def test_a_batch_has_the_columns_of_the_window(rolled: Rolled) -> None:
    rolled.step()
    with pytest.raises(InvalidInput, match="column"):
        rolled.meter.add_test_set(rolled.sealed(rolled.table(rolled.batch).drop_columns(["x"])))
    assert rolled.meter.batches() == []


def test_a_window_is_released_when_all_of_its_batches_have_left(tmp_path: Path) -> None:
    rolled = Rolled(tmp_path, rolling_spec(signals=1, edges=[], drawn=0.5))
    rolled.deliver()
    for number in range(1, WINDOW + 1):
        with pytest.raises(WrongPhase):
            rolled.meter.release()
        rolled.submit(slice(number))
        if number < WINDOW:
            rolled.deliver()
    # Window 1 has batches 1 to 3, and batch 3 was last measured on in window 3, which is spent.
    released = rolled.meter.release()
    assert pq.read_table(released / "testset.parquet").num_rows == WINDOW * rolled.batch
    with pytest.raises(WrongPhase, match="window 2 shares batches with windows up to 4"):
        rolled.meter.release()
    assert rolled.meter.audit().sound  # also of the secret that the edges were drawn with
    rolled.deliver()
    assert rolled.submit().generation == 4


def test_no_window_shares_its_secret_with_another(tmp_path: Path) -> None:
    rolled = Rolled(tmp_path, rolling_spec(signals=1, edges=[], drawn=0.5))
    rolled.deliver()
    edges = []
    for _ in range(4):
        edges.append(rolled.submit().first_edge)
        rolled.deliver()
    assert len(set(edges)) == 4


def test_older_books_do_not_measure_on_what_was_released(rolled: Rolled) -> None:
    rolled.step()
    with rolled.older_books():
        for _ in range(2):
            rolled.step()
        rolled.deliver()  # batch 2 leaves
    assert rolled.meter.generations[-1].number == 2
    with pytest.raises(WrongPhase, match="batch 2 was released before"):
        rolled.deliver()


def test_older_books_do_not_measure_on_a_window_that_was_released(rolled: Rolled) -> None:
    """A window is released with all of its batches, some of which have left no window yet."""
    rolled.deliver()
    for _ in range(WINDOW - 2):
        rolled.submit()
        rolled.deliver()
    rolled.submit()
    with rolled.older_books():
        rolled.step()
        rolled.meter.release()
    assert rolled.meter.generations[-1].number == WINDOW
    batch = rolled.sealed(rolled.table(rolled.batch))
    with pytest.raises(WrongPhase, match="window 1 was released before, with batches of window 3"):
        rolled.meter.add_test_set(batch)


def test_older_books_give_no_window_a_second_answer(rolled: Rolled) -> None:
    """The batches that stay answer with the one that joined them then, or not at all."""
    first = rolled.deliver().num_rows
    rolled.submit()
    with rolled.older_books():
        joined = rolled.deliver()
        told = rolled.submit(slice(None, None, 2)).answer
    with pytest.raises(WrongPhase, match="window 1 was followed by one with other rows before"):
        rolled.meter.add_test_set(rolled.sealed(rolled.table(rolled.batch)))
    del rolled.labels[first + rolled.batch :]
    rolled.meter.add_test_set(rolled.sealed(joined))
    view = rolled.meter.history()[1]
    assert (view.phase, [signal.answer for signal in view.signals]) == (Phase.SPENT, [told])
    rolled.deliver()
    assert rolled.submit().generation == 3


def test_windows_of_one_batch_share_no_rows_that_older_books_could_use(tmp_path: Path) -> None:
    rolled = Rolled(tmp_path, rolling_spec(window=1))
    rolled.step()
    with rolled.older_books():
        rolled.step()
    rolled.deliver()
    assert rolled.submit().generation == 2


def test_a_delivery_that_was_cut_short_is_repeated(rolled: Rolled) -> None:
    rolled.step()
    batch = rolled.sealed(rolled.table(rolled.batch))
    with (
        mock.patch.object(Store, "writing", side_effect=OSError("the power is cut")),
        pytest.raises(OSError, match="power"),
    ):
        rolled.meter.add_test_set(batch)
    assert rolled.meter.batches() == []
    assert rolled.meter.add_test_set(batch).number == 2
    assert rolled.meter.audit().sound
    assert rolled.submit().generation == 2


def test_a_set_that_came_too_late_is_refused(rolled: Rolled) -> None:
    """Somebody else delivered the same window, and it was answered, before this one was entered."""
    rolled.step()
    late = rolled.sealed(rolled.table(rolled.batch))
    known = len(rolled.labels)
    faster = reuse.refuse_claimed

    def delivered(*arguments: Any) -> None:
        faster(*arguments)
        with mock.patch.object(delivery, "refuse_claimed", faster):
            del rolled.labels[known - rolled.batch :]
            rolled.step()

    with (
        mock.patch.object(delivery, "refuse_claimed", delivered),
        pytest.raises(WrongPhase, match="test set 2 was delivered meanwhile"),
    ):
        rolled.meter.add_test_set(late)
    assert rolled.meter.generations[-1].number == 3
    assert rolled.meter.audit().sound


def test_what_a_labelers_file_says_of_batches_is_not_heard(rolled: Rolled) -> None:
    rows = WINDOW * rolled.batch
    path = rolled.folder / "forged.sealed"
    seal(
        rolled.table(rows),
        path,
        meter=rolled.meter.generations[0].meter,
        generation=1,
        label="label",
        id_column="id",
        recipients=[rolled.meter.workspace.identity.recipient],
        batch_rows=(1, rows - 2, 1),
    )
    rolled.meter.add_test_set(path)
    rolled.submit()
    rolled.deliver()
    assert [each.rows for each in rolled.meter.batches()] == [rolled.batch]


def test_a_window_of_one_batch_is_a_fresh_set_for_each_step(tmp_path: Path) -> None:
    rolled = Rolled(tmp_path, rolling_spec(window=1))
    rolled.step()
    rolled.deliver()
    assert rolled.meter.generations[-1].rows == rolled.batch
    assert [each.number for each in rolled.meter.batches()] == [1]
    rolled.meter.release()
    assert rolled.meter.audit().sound


def test_the_same_files_are_measured_again_as_each_window_had_them(tmp_path: Path) -> None:
    """What misses rows is kept with those of its window, and no later one may replace it."""
    rolled = Rolled(tmp_path, rolling_spec(inputs="hidden"))
    rolled.deliver()
    stay = np.arange(rolled.batch, len(rolled.labels))
    test = pa.table({"id": stay, "prediction": np.array(rolled.labels)[stay]})
    for _ in range(2):
        matching = RowMatching(missing_wrong=True)
        told = rolled.meter.submit(
            test, pa.table({"prediction": [0, 1] * 5}), model="same", matching=matching
        )
        assert told.gap == (0.3, 1.0)
        rolled.deliver()
    rolled.meter.retire()
    (record,) = json.loads((rolled.meter.release() / "retrospective.json").read_text("utf-8"))
    assert record["truth"]["test_loss"] == pytest.approx(1 / 3)


def test_older_books_know_of_a_retirement_before_a_batch_was_released(rolled: Rolled) -> None:
    """A power cut kept the retirement from the journal, and the labels of a batch are public."""
    rolled.deliver()
    labels = list(rolled.labels)
    with rolled.older_books():
        retire_cut_short(rolled.meter)
        rolled.deliver()  # batch 1 leaves
    rolled.labels = labels
    with pytest.raises(Spent):
        rolled.submit()


def test_batches_are_for_those_who_may_see_what_is_released(rolled: Rolled) -> None:
    rolled.step()
    rolled.deliver()
    for role in (Role.DEVELOPER, Role.LABELER):
        with Meter.open(rolled.folder / "meter", role=role) as meter:
            assert meter.fetch_batch(1, rolled.folder / f"{role}.parquet").exists()
    with (
        Meter.open(rolled.folder / "meter", role=Role.ADMIN) as meter,
        pytest.raises(Denied),
    ):
        meter.fetch_batch(1, rolled.folder / "admin.parquet")


def test_a_late_answer_of_a_retired_window_still_counts(rolled: Rolled) -> None:
    """What was being measured when the window was retired has touched hidden rows."""
    rolled.deliver()
    measured = Measured.first_edge

    def retiring(on: Measured, entry: Any) -> Any:
        rolled.meter.retire()
        return measured(on, entry)

    with mock.patch.object(Measured, "first_edge", retiring):
        assert rolled.submit().generation == 1
    assert rolled.meter.audit().sound
    rolled.deliver()
    assert rolled.submit().generation == 2


def test_a_backup_has_the_batches_that_were_released(rolled: Rolled, tmp_path: Path) -> None:
    rolled.step()
    rolled.deliver()
    home = Home(rolled.folder / "meter")
    contents = back_up(SYSTEM, Place.of_folder(home), tmp_path / "backup.tar")
    assert not contents.missing
    there = Home(tmp_path / "there")
    there.key.parent.mkdir(parents=True)
    shutil.copy(home.key, there.key)
    restore(SYSTEM, Place.of_folder(there), tmp_path / "backup.tar")
    with Meter.open(tmp_path / "there") as meter:
        fetched = pq.read_table(meter.fetch_batch(1, tmp_path / "one.parquet"))
        assert fetched["label"].to_pylist() == rolled.labels[: rolled.batch]


def test_other_meters_have_no_batches(tmp_path: Path) -> None:
    meter = Meter.create(tmp_path / "meter", small_spec())
    assert meter.batches() == []
    with pytest.raises(NotFound):
        meter.fetch_batch(1, tmp_path / "one.parquet")
