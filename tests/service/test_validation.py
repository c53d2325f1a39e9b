"""Validation sets: given, replaced; at a server labelers alone learn of shared rows."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from easeml_meter.core.model import ValidationSet
from easeml_meter.core.people import Role
from easeml_meter.errors import Denied, InvalidInput, MeterError, NotFound, WrongPhase
from easeml_meter.meter import Meter
from easeml_meter.service import validation
from easeml_meter.service.actor import Actor
from easeml_meter.service.place import Workspace
from easeml_meter.service.testsets import reuse
from easeml_meter.tables.source import Held
from easeml_meter.vault.keys import Identity, unwrap

from .helpers import Clock, deliver, make_session, rows, small_spec
from .sites import make_room, make_site

DEVELOPER = Actor.embedded(Role.DEVELOPER)
CSV = Held("validation.csv", b"id,x,y,label\n1,0.5,0.5,1\n2,0.25,0.5,0\n")
OTHER_CSV = Held("validation.csv", b"id,x,y,label\n1,0.5,0.5,1\n2,0.25,0.5,1\n")


def test_a_new_validation_set_takes_effect_with_the_next_submission(tmp_path: Path) -> None:
    session = make_session(tmp_path)
    assert session.submit(0, 0).band == 1
    flipped = 1 - session.validation_labels
    pq.write_table(rows(flipped, seed=8), tmp_path / "other.parquet")
    session.meter.replace_validation(tmp_path / "other.parquet")
    again = session.submit(0, 0)
    assert (again.band, again.repeated) == (3, False)


def test_shared_validation_rows_are_reported_to_labelers_only(tmp_path: Path) -> None:
    """At a server: a refusal would let a developer probe for hidden rows."""
    site = make_site(tmp_path, f"sqlite:///{tmp_path / 'db'}")
    session = make_room(site, tmp_path / "room").session
    leaked = rows(session.test_labels, seed=1000).slice(0, 5)
    pq.write_table(leaked, tmp_path / "leaked.parquet")
    session.meter.replace_validation(tmp_path / "leaked.parquet")
    pq.write_table(rows(session.validation_labels, seed=9), tmp_path / "clean.parquet")
    session.meter.replace_validation(tmp_path / "clean.parquet")
    shared = [each["rows_shared"] for each in session.meter.notices() if each["validation_set"]]
    assert shared == [0, 5, 0]
    # age pads its header at random; what it encrypts must be of one size, or the size would tell.
    key = Identity.read(tmp_path / "server.key")
    found = sorted((tmp_path / "files").rglob("notice-*"))
    assert len({len(unwrap(path.read_bytes(), key)) for path in found}) == 1
    with pytest.raises(Denied):
        Meter(session.meter.workspace, role=Role.DEVELOPER).notices()


def test_in_a_folder_shared_rows_are_refused_in_either_order(tmp_path: Path) -> None:
    """The owner of a folder was told by the labeler's notices alone, which nobody reads."""
    session = make_session(tmp_path)
    meter, count = session.meter, len(session.test_labels)
    hidden = rows(session.test_labels, seed=1000)
    pq.write_table(pa.concat_tables([hidden.slice(0, 5), hidden]), tmp_path / "leaked.parquet")
    told = f"{count} of {count} rows of the test set stand among the {count + 5} of this"
    for verb in (meter.replace_validation, partial(meter.set_validation, label="label")):
        with pytest.raises(MeterError, match=told if verb == meter.replace_validation else "alre"):
            verb(tmp_path / "leaked.parquet")
    assert len(validation.list_validation_sets(DEVELOPER, meter.workspace)) == 1
    assert not list((tmp_path / "meter" / ".meter" / "validation").glob("2-*"))


def test_what_was_not_compared_is_not_called_0_rows(tmp_path: Path) -> None:
    """A validation set that was replaced before the test set came was said to share 0 rows."""
    meter = Meter.create(tmp_path / "meter", small_spec(), clock=Clock())
    hidden = rows(np.random.default_rng(0).integers(0, 2, 40), seed=1)
    pq.write_table(hidden, tmp_path / "hidden.parquet")
    meter.set_validation(tmp_path / "hidden.parquet", label="label")
    unknown = "it is not known whether validation set 1 shares rows with test set 1"
    assert [each["sentence"] for each in meter.notices()] == [unknown]
    other = rows(np.zeros(20, dtype=np.int64), seed=2).rename_columns(["key", "a", "b", "label"])
    pq.write_table(other, tmp_path / "other.parquet")
    meter.replace_validation(tmp_path / "other.parquet")
    meter.seal(tmp_path / "hidden.parquet", tmp_path / "set.sealed", label="label")
    meter.add_test_set(tmp_path / "set.sealed")  # its first validation set was replaced
    told = {each["validation_set"]: each["rows_shared"] for each in meter.notices()}
    assert told == {None: 0, 1: None, 2: None}


@pytest.mark.parametrize(
    ("hidden", "visible", "fits"),
    [
        ([0, 1], ["a", "b"], False),
        ([True, False], ["a", "b"], False),
        ([0.0, 1.0], ["a", "b"], False),
        (pa.array([0, 1], pa.int8()).to_numpy(), ["a", "b"], False),
        ([0, 1], ["0", "1"], True),
        (["0", "1"], [0, 1], True),
        ([0.0, 1.0], [0, 1], True),
    ],
)
def test_classes_that_the_sealed_labels_cannot_have_are_refused(
    tmp_path: Path, hidden: list[Any], visible: list[Any], fits: bool
) -> None:
    """Every submission ended in an error after hidden rows were read, and nothing was entered.

    Developers read the same words whatever numbers the labels are: int8 says that all are small.
    """
    plain = small_spec().replace(classes=())
    meter = Meter.create(tmp_path / "meter", plain, clock=Clock())
    sizes = {"hidden": meter.plan.labels, "visible": 10}
    for (name, rows_needed), labels in zip(sizes.items(), (hidden, visible), strict=True):
        column = pa.array([labels[row % 2] for row in range(rows_needed)])
        table = pa.table({"x": np.arange(rows_needed) + len(name) / 2, "label": column})
        pq.write_table(table, tmp_path / f"{name}.parquet")
    meter.seal(tmp_path / "hidden.parquet", tmp_path / "set.sealed", label="label")
    meter.add_test_set(tmp_path / "set.sealed")
    if fits:
        assert meter.set_validation(tmp_path / "visible.parquet", label="label").number == 1
        return
    told = "classes: text given ('a', 'b'), the labels of the test set have another form"
    with pytest.raises(InvalidInput, match=re.escape(f"visible.parquet: {told}: give both alike")):
        meter.set_validation(tmp_path / "visible.parquet", label="label")


def test_the_first_is_set_and_the_others_replace_it(tmp_path: Path) -> None:
    Meter.create(tmp_path / "meter", small_spec(), clock=Clock())
    space = Workspace.open(tmp_path / "meter", Clock())
    with pytest.raises(WrongPhase, match="no validation set yet"):
        validation.give_validation(DEVELOPER, space, CSV, first=False)
    with pytest.raises(InvalidInput, match="name the label column"):
        validation.give_validation(DEVELOPER, space, CSV)
    with pytest.raises(InvalidInput, match=r"validation\.csv: no column 'truth'"):
        validation.give_validation(DEVELOPER, space, CSV, label="truth")
    first = validation.give_validation(DEVELOPER, space, CSV, label="label", first=True)
    with pytest.raises(WrongPhase, match="there is a validation set already"):
        validation.give_validation(DEVELOPER, space, OTHER_CSV, label="label", first=True)
    assert validation.give_validation(DEVELOPER, space, CSV, label="label", first=True) == first
    assert validation.give_validation(DEVELOPER, space, CSV) == first  # the same once more
    second = validation.give_validation(DEVELOPER, space, OTHER_CSV)
    assert validation.give_validation(DEVELOPER, space, OTHER_CSV, first=False) == second
    third = validation.give_validation(DEVELOPER, space, CSV, first=False)
    assert validation.list_validation_sets(DEVELOPER, space) == [first, second, third]
    assert [each.label for each in (first, second, third)] == ["label"] * 3
    name = validation.validation_file(DEVELOPER, space, 2)
    assert space.files.read(name) == OTHER_CSV.content
    with pytest.raises(NotFound):
        validation.validation_file(DEVELOPER, space, 4)
    again = ValidationSet.from_json(first.meter, first.to_json())
    assert again.to_json() == first.to_json()


def test_labelers_do_not_set_it_and_admins_do_not_see_it(tmp_path: Path) -> None:
    Meter.create(tmp_path / "meter", small_spec(), clock=Clock())
    space = Workspace.open(tmp_path / "meter")
    for role in (Role.LABELER, Role.RUNNER, Role.ADMIN):
        with pytest.raises(Denied):
            validation.give_validation(Actor.embedded(role), space, CSV, label="label")
    with pytest.raises(Denied):
        validation.list_validation_sets(Actor.embedded(Role.ADMIN), space)


def test_the_id_column_stays_until_another_is_named(tmp_path: Path) -> None:
    Meter.create(tmp_path / "meter", small_spec(), clock=Clock())
    space = Workspace.open(tmp_path / "meter")
    first = validation.give_validation(
        DEVELOPER, space, CSV, label="label", id_column="id", first=True
    )
    assert first.to_json()["id_column"] == "id"
    again = validation.give_validation(DEVELOPER, space, CSV, first=False)
    assert again.settings["order_digest"] == first.settings["order_digest"] is not None
    without = validation.give_validation(DEVELOPER, space, CSV, id_column="", first=False)
    assert without.id_column is without.settings["order_digest"] is None


def test_ids_of_a_validation_set_exist_and_are_distinct(tmp_path: Path) -> None:
    Meter.create(tmp_path / "meter", small_spec(), clock=Clock())
    space = Workspace.open(tmp_path / "meter")
    for column, words in (("key", "no column 'key'"), ("label", "not be the label"), ("y", "0.5")):
        with pytest.raises(InvalidInput, match=words):
            validation.give_validation(
                DEVELOPER, space, CSV, label="label", id_column=column, first=True
            )
    assert validation.list_validation_sets(DEVELOPER, space) == []


def test_one_that_was_checked_before_a_test_set_was_delivered_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither was compared with the other: with other classes, every submission failed for ever."""
    meter = Meter.create(tmp_path / "meter", small_spec(classes=()), name="small", clock=Clock())
    labels = np.random.default_rng(0).integers(0, 2, meter.plan.labels)
    visible = rows(labels[:20], seed=5)
    names = pa.array(np.array(["dog", "cat"])[labels[:20]])
    pq.write_table(visible.set_column(3, "label", names), tmp_path / "validation.parquet")
    kept = reuse.keep_notices

    def meanwhile(*arguments: Any) -> str:
        digest = kept(*arguments)
        with Meter.open(tmp_path / "meter") as labeler:
            deliver(labeler, tmp_path, labels, seed=0)
        return digest

    monkeypatch.setattr(validation, "keep_notices", meanwhile)
    with pytest.raises(MeterError, match="a test set was delivered meanwhile"):
        meter.set_validation(tmp_path / "validation.parquet", label="label")
    monkeypatch.setattr(validation, "keep_notices", kept)
    with pytest.raises(InvalidInput, match="another form"):
        meter.set_validation(tmp_path / "validation.parquet", label="label")
