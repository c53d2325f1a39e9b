"""Topped-up test sets: fresh rows join those that have answered, and all of them answer on."""

from __future__ import annotations

import itertools
import json
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.service.helpers import Clock, retire_cut_short, small_spec
from tests.service.testsets.test_windows import Rolled

from easeml_meter.core.history import delivered
from easeml_meter.core.lifecycle import Phase
from easeml_meter.core.model import Event
from easeml_meter.errors import InvalidInput, Spent, WrongPhase
from easeml_meter.meter import Meter
from easeml_meter.scoring.ids import RowMatching
from easeml_meter.service.actor import SYSTEM
from easeml_meter.service.backup import Place, back_up
from easeml_meter.service.place import Home
from easeml_meter.service.restore import restore
from easeml_meter.service.submissions.measuring import Measured
from easeml_meter.spec import MeterSpec
from easeml_meter.storage.store import Store
from easeml_meter.vault.sealing import SealedTestSet

STEPS, MORE = 4, 3


def topped_spec(**options: Any) -> MeterSpec:
    return small_spec(**({"top_up": MORE, "inputs": "public"} | options))


@dataclass
class Topped(Rolled):
    """A meter whose test sets are topped up: it answers as long as it can, then asks for rows."""

    spec: MeterSpec = field(default_factory=topped_spec)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.models = itertools.count(1)
        self.more = (self.meter.plan.to_dict()["top_up"] or {})["more_labels"]

    def spend(self) -> list[int]:
        """Ask until the test set is spent; return the answers."""
        told = []
        while self.meter.generations[-1].phase is Phase.ACTIVE:
            number = next(self.models)
            told.append(self.submit(slice(number), model=f"model {number}").answer)
        return told

    def use_up(self) -> None:
        """Deliver what is asked for, and spend it."""
        self.deliver()
        self.spend()


@pytest.fixture
def topped(tmp_path: Path) -> Topped:
    return Topped(tmp_path)


def test_a_test_set_answers_on_with_all_of_its_rows(topped: Topped) -> None:
    first = topped.deliver().num_rows
    assert first == topped.meter.plan.labels
    assert len(topped.spend()) == STEPS
    before = topped.meter.history()[0].signals
    asked = topped.meter.generations[-1]
    assert (asked.number, asked.phase, asked.labels_needed) == (2, Phase.REQUESTED, topped.more)
    topped.deliver()
    whole = topped.meter.generations[-1]
    assert (whole.number, whole.phase, whole.rows) == (2, Phase.ACTIVE, first + topped.more)
    # Half of the rows wrong, old and new ones: measured on the first rows alone, it would be all.
    assert topped.submit(slice(0, first), model="old rows wrong").answer == 3
    assert topped.submit(slice(0, 1), model="old rows right").answer == 1
    assert topped.meter.status().steps_left == MORE - 2
    assert len(topped.spend()) == MORE - 2
    assert topped.meter.history()[0].signals == before, "what was told stays as it was told"
    assert topped.meter.audit().sound
    # Then the next one begins with fresh rows alone.
    assert topped.meter.generations[-1].labels_needed == first


def test_the_second_stage_is_charged_for_the_histories_of_the_first(topped: Topped) -> None:
    topped.use_up()
    topped.deliver()
    one, two = (delivered(topped.spec, each) for each in topped.meter.generations)
    assert (one.spec.steps, two.spec.steps, two.spec.topped_up) == (STEPS, MORE, STEPS)
    assert one.spec.session_delta == two.spec.session_delta == topped.spec.delta / 2
    assert two.size == len(topped.labels)


def test_submissions_wait_for_the_labels_that_are_missing(topped: Topped) -> None:
    topped.use_up()
    before = topped.meter.audit()
    with (
        mock.patch.object(SealedTestSet, "labels", side_effect=AssertionError("touched")),
        pytest.raises(Spent, match=rf"labels that top it up are missing: {topped.more} are needed"),
    ):
        topped.submit(slice(9), model="early")
    assert topped.meter.audit() == before


def test_a_model_that_was_answered_before_is_measured_on_all_rows(topped: Topped) -> None:
    topped.deliver()
    told = topped.submit(model="the same")
    topped.meter.retire()
    topped.deliver()
    again = topped.submit(model="the same")
    assert (told.generation, again.generation, again.repeated) == (1, 2, False)
    assert topped.submit(model="the same").repeated


def test_more_rows_than_planned_leave_fewer_to_add(tmp_path: Path) -> None:
    topped = Topped(tmp_path)
    planned = topped.meter.plan.labels
    topped.deliver(planned + 5)
    topped.spend()
    assert topped.meter.generations[-1].labels_needed == topped.more - 5
    plenty = Topped(tmp_path / "plenty")
    plenty.deliver(planned + 3 * plenty.more)
    plenty.spend()
    assert plenty.meter.generations[-1].labels_needed == 1
    plenty.deliver(7)
    assert plenty.meter.generations[-1].rows == planned + 3 * plenty.more + 7


def test_a_top_up_comes_in_parts_too(topped: Topped) -> None:
    first = topped.deliver().num_rows
    topped.spend()
    few = topped.more // 2
    part = topped.sealed(topped.table(few), part=True)
    assert topped.meter.add_part(part).phase is Phase.REQUESTED
    rest = topped.sealed(topped.table(topped.more - few), part=True)
    assert topped.meter.add_part(rest).rows == first + topped.more


def test_a_top_up_has_new_rows_and_the_same_columns(topped: Topped) -> None:
    first = topped.deliver()
    topped.spend()
    with pytest.raises(InvalidInput, match="under the same id"):
        topped.meter.add_test_set(topped.sealed(first.slice(0, topped.more)))
    with pytest.raises(InvalidInput, match="column"):
        topped.meter.add_test_set(topped.sealed(topped.table(topped.more).drop_columns(["x"])))
    with pytest.raises(InvalidInput, match="needed"):
        topped.sealed(topped.table(topped.more - 1))
    del topped.labels[first.num_rows :]
    joined = topped.deliver()
    topped.spend()
    # Neither the first rows nor those that joined them make a fresh test set.
    with pytest.raises(InvalidInput, match="the same rows were test set 1"):
        topped.meter.add_test_set(topped.sealed(first))
    for used in (first, joined):
        fresh = topped.table(first.num_rows - 10)
        with pytest.raises(InvalidInput, match="stand in test set 2 under the same id"):
            topped.meter.add_test_set(topped.sealed(pa.concat_tables([fresh, used.slice(0, 10)])))


def labels_alone(meter: Meter, path: Path, labels: list[int]) -> None:
    """Deliver rows that have neither ids nor inputs."""
    path.unlink(missing_ok=True)
    meter.seal(pa.table({"label": labels}), path, label="label")
    meter.add_test_set(path)


def test_labels_alone_do_not_join_or_begin_a_test_set_again(tmp_path: Path) -> None:
    """Nothing but the labels themselves tells that these rows were used before."""
    topped = Topped(tmp_path)
    random, path = topped.random, tmp_path / "alone.sealed"
    first = random.integers(0, 2, topped.meter.plan.labels).tolist()
    more = random.integers(0, 2, len(first)).tolist()
    labels_alone(topped.meter, path, first)
    topped.meter.retire()
    with pytest.raises(InvalidInput, match="the same rows were test set 1"):
        labels_alone(topped.meter, path, first)
    labels_alone(topped.meter, path, more)
    topped.meter.retire()
    for used, what in ((first, "test set 1"), (more, "rows of test set 2")):
        with pytest.raises(InvalidInput, match=f"the same rows were {what}"):
            labels_alone(topped.meter, path, used)
    labels_alone(topped.meter, path, random.integers(0, 2, len(first)).tolist())
    topped.meter.retire()
    with pytest.raises(InvalidInput, match="the same rows were rows of test set 2"):
        labels_alone(topped.meter, path, more)


def test_no_row_is_released_while_it_can_still_answer(topped: Topped) -> None:
    first = topped.deliver().num_rows
    topped.spend()
    with pytest.raises(WrongPhase, match="test set 1 is a part of test set 2: release it when"):
        topped.meter.release()
    topped.deliver()
    with pytest.raises(WrongPhase, match="test set 1 is a part of test set 2"):
        topped.meter.release()
    topped.spend()
    rows = [pq.read_table(topped.meter.release() / "testset.parquet").num_rows for _ in range(2)]
    assert rows == [first, first + topped.more]
    assert [each.phase for each in topped.meter.generations] == ["released"] * 2 + ["requested"]
    kept = [view.retrospective for view in topped.meter.history()[:2]]
    assert [len(each) for each in kept] == [STEPS, MORE]
    assert all(truth is not None for each in kept for truth in each)
    assert topped.meter.audit().sound


def test_the_same_files_are_measured_again_on_each_of_the_two(tmp_path: Path) -> None:
    """Those of the first were replaced by those of the second: nothing could be released."""
    topped = Topped(tmp_path, topped_spec(inputs="hidden"))
    topped.deliver()
    known = np.arange(len(topped.labels))[::-1]
    test = pa.table({"id": known, "prediction": np.array(topped.labels)[::-1]})
    told = []
    for _ in range(2):
        matching = RowMatching(missing_wrong=True)
        own = pa.table({"prediction": [0, 1] * 5})
        told.append(topped.meter.submit(test, own, model="same", matching=matching))
        topped.meter.retire()
        if len(told) == 1:
            topped.deliver()
    assert [each.answer for each in told] == [1, 3]
    missing = topped.more / (topped.more + len(known))
    for wrong in (0, missing):
        (record,) = json.loads((topped.meter.release() / "retrospective.json").read_text("utf-8"))
        assert record["truth"]["test_loss"] == pytest.approx(wrong)


def test_a_late_answer_from_the_first_rows_is_charged_there(topped: Topped) -> None:
    """What was being measured when the labelers topped up has touched hidden rows."""
    topped.deliver()
    measured = Measured.first_edge

    def retiring(on: Measured, entry: Any) -> Any:
        topped.meter.retire()
        return measured(on, entry)

    with mock.patch.object(Measured, "first_edge", retiring):
        assert topped.submit().generation == 1
    assert topped.meter.generations[-1].labels_needed == topped.more
    topped.deliver()
    assert len(topped.spend()) == MORE
    assert topped.meter.audit().sound


def test_the_chain_says_which_test_set_was_topped_up(topped: Topped) -> None:
    topped.use_up()
    topped.deliver()
    link = topped.meter.audit().links[-1]
    assert (link.event, link.details) == (
        Event.TOPPED_UP,
        {"generation": 1, "rows": topped.more},
    )


def test_drawn_edges_have_a_secret_for_each_stage(tmp_path: Path) -> None:
    topped = Topped(tmp_path, topped_spec(signals=1, edges=[], drawn=0.5))
    topped.use_up()
    topped.use_up()
    topped.meter.release()
    topped.meter.release()
    assert topped.meter.audit().sound


def test_no_meter_begins_with_its_second_stage(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="'topped_up' is no setting: say top_up"):
        Meter.create(tmp_path / "meter", topped_spec().of_test_set(2))
    assert not (tmp_path / "meter" / ".meter").exists()


# --- Crashes, copies and older books ---


def test_a_delivery_that_was_cut_short_is_repeated(topped: Topped) -> None:
    first = topped.deliver().num_rows
    topped.spend()
    rows = topped.sealed(topped.table(topped.more))
    with (
        mock.patch.object(Store, "writing", side_effect=OSError("the power is cut")),
        pytest.raises(OSError, match="power"),
    ):
        topped.meter.add_test_set(rows)
    # Nothing was told from those rows, so others may take their place.
    del topped.labels[first:]
    topped.deliver()
    assert len(topped.spend()) == MORE
    assert topped.meter.audit().sound


def test_older_books_give_no_answer_back(topped: Topped) -> None:
    """The budget belongs to the rows: neither those rows nor others beside them answer again."""
    first = topped.deliver().num_rows
    topped.spend()
    with topped.older_books():
        rows = topped.table(topped.more)
        topped.meter.add_test_set(topped.sealed(rows))
        told = topped.spend()
    assert topped.meter.generations[-1].phase is Phase.REQUESTED
    with pytest.raises(WrongPhase, match="topped up with other rows before"):
        topped.meter.add_test_set(topped.sealed(topped.table(topped.more)))
    del topped.labels[first + topped.more :]
    topped.meter.add_test_set(topped.sealed(rows))
    view = topped.meter.history()[1]
    assert (view.phase, [signal.answer for signal in view.signals]) == (Phase.SPENT, told)


def test_older_books_complete_a_stage_that_was_begun(topped: Topped) -> None:
    topped.use_up()
    topped.deliver()
    with topped.older_books():
        topped.submit(model="one")
    assert len(topped.spend()) == MORE - 1


def test_older_books_know_that_a_top_up_was_retired_whose_first_rows_are_public(
    topped: Topped,
) -> None:
    """A power cut kept the retirement from the journal; then the first rows were released."""
    topped.use_up()
    topped.deliver()
    with topped.older_books():
        retire_cut_short(topped.meter)
        topped.meter.release()
        assert topped.meter.generations[0].phase is Phase.RELEASED
    with pytest.raises(Spent):
        topped.submit()


def test_a_deleted_database_resets_neither_stage(topped: Topped, tmp_path: Path) -> None:
    first = topped.deliver()
    topped.spend()
    joined = topped.deliver()
    topped.submit(model="one")
    topped.meter.close()
    for leftover in (tmp_path / "meter" / ".meter").glob("meter.db*"):
        leftover.unlink()
    topped.meter = Meter.create(tmp_path / "meter", topped.spec, clock=Clock())
    visible = pa.table({"x": [0.5] * 10, "label": [0, 1] * 5})
    topped.meter.set_validation(visible, label="label")
    topped.meter.add_test_set(topped.sealed(first))
    assert [each.phase for each in topped.meter.generations] == [Phase.SPENT, Phase.REQUESTED]
    with pytest.raises(WrongPhase, match="topped up with other rows before"):
        topped.meter.add_test_set(topped.sealed(topped.table(topped.more)))
    del topped.labels[first.num_rows + joined.num_rows :]
    topped.meter.add_test_set(topped.sealed(joined))
    assert len(topped.spend()) == MORE - 1


def test_a_restored_meter_goes_on_where_it_was(topped: Topped, tmp_path: Path) -> None:
    topped.use_up()
    topped.deliver()
    topped.submit(model="one")
    home = Home(topped.folder / "meter")
    assert not back_up(SYSTEM, Place.of_folder(home), tmp_path / "backup.tar").missing
    topped.meter.close()
    there = Home(tmp_path / "there" / "meter")
    there.key.parent.mkdir(parents=True)
    shutil.copy(home.key, there.key)
    restore(SYSTEM, Place.of_folder(there), tmp_path / "backup.tar")
    topped.folder = tmp_path / "there"
    topped.reopen()
    assert len(topped.spend()) == MORE - 1
    with topped.meter.workspace.reading() as books:
        one, two, _ = topped.meter.workspace.state(books).generations
    assert topped.meter.workspace.journal(one).top_ups() == [two.fingerprint]


# --- Other losses, and models ---


def test_scores_that_a_runner_reports_are_topped_up_too(tmp_path: Path) -> None:
    spec = topped_spec(loss="score", classes=(), metric="includes", inputs="hidden", steps=1)
    meter = Meter.create(tmp_path / "meter", spec, clock=Clock())
    visible = pa.table({"id": [f"v{number}" for number in range(9)]})
    meter.set_validation(visible, id_column="id")
    hidden: list[str] = []
    for number, low in ((1, 0.1), (2, 0.2)):
        more = meter.generations[-1].labels_needed
        ids = [f"h{len(hidden) + each}" for each in range(more)]
        hidden += ids
        sealed = tmp_path / f"{number}.sealed"
        meter.seal(pa.table({"id": ids}), sealed, id_column="id")
        assert meter.add_test_set(sealed).rows == len(hidden)
        told = meter.submit(
            pa.table({"id": hidden, "score": [low] * len(hidden)}),
            visible.append_column("score", pa.array([1.0] * 9)),
            model=f"model {number}",
        )
        assert (told.generation, told.answer) == (number, 3)
    assert meter.audit().sound


@pytest.mark.parametrize(
    "options",
    [{"ceiling": 0.4}, {"models": True}],
    ids=lambda options: next(iter(options)),
)
def test_whatever_is_planned_can_be_used_up(tmp_path: Path, options: dict[str, Any]) -> None:
    topped = Topped(tmp_path, topped_spec(**options))
    for steps in (STEPS, MORE):
        topped.deliver()
        assert len(topped.spend()) == steps
    assert topped.meter.audit().sound
