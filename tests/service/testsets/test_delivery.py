"""Delivery: sealing from a file or from memory, and what a test set may not hold."""

from __future__ import annotations

import io
import json
import shutil
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from tests.service.helpers import Clock, Session, make_session, rows, small_spec
from tests.service.sites import make_room, make_site
from tests.vault.forging import forged

from easeml_meter.core.lifecycle import Phase
from easeml_meter.core.people import Role
from easeml_meter.core.questions.planning import reachable_tolerance
from easeml_meter.core.views import view_from_json
from easeml_meter.errors import Denied, InvalidInput, MeterError, TooLarge, WrongPhase
from easeml_meter.meter import Meter
from easeml_meter.promise.numbers.rounding import at_most
from easeml_meter.service.actor import SYSTEM, Actor
from easeml_meter.service.meters import create_meter
from easeml_meter.service.place import Workspace
from easeml_meter.service.submissions.measuring import open_sealed
from easeml_meter.service.testsets import delivery
from easeml_meter.service.testsets.checking import check_enough
from easeml_meter.spec import MeterSpec
from easeml_meter.tables.source import Held
from easeml_meter.vault import survey
from easeml_meter.vault.draws import Draws
from easeml_meter.vault.sealing import SealedTestSet

LABELER = Actor.embedded(Role.LABELER)


def sealed_as(meter: Meter, table: pa.Table, path: Path, **choices: Any) -> Path:
    """Seal a table for a meter."""
    pq.write_table(table, path.with_suffix(".parquet"))
    choices = {"label": "label", "id_column": "id"} | choices
    meter.seal(path.with_suffix(".parquet"), path, **choices)
    return path


def test_a_sample_with_repeated_inputs_is_taken_and_its_interval_is_true(tmp_path: Path) -> None:
    """40 % of the traffic is one input; equal rows used to be refused, which biased the sample."""
    spec = MeterSpec.uniform(steps=4, tolerance=0.1, delta=0.05, signals=5, classes=("a", "b"))
    meter = Meter.create(tmp_path / "meter", spec, clock=Clock())

    def draw(rows: int, seed: int) -> pa.Table:
        random = np.random.default_rng(seed)
        atom = random.random(rows) < 0.4
        texts = np.where(atom, "", [f"message {seed} {row}" for row in range(rows)])
        ids = [f"{seed}-{row}" for row in range(rows)]
        return pa.table({"id": ids, "text": texts, "label": np.where(atom, "b", "a")})

    pq.write_table(draw(400, seed=1), tmp_path / "validation.parquet")
    meter.set_validation(tmp_path / "validation.parquet", label="label")
    table = draw(meter.plan.labels, seed=2)
    sealed = sealed_as(meter, table, tmp_path / "set.sealed")
    meter.add_test_set(sealed)
    told = {each["sentence"] for each in meter.notices()}
    repeats = table["text"].to_pylist().count("") - 1
    repeated = f"{repeats} rows of test set 1 have the inputs of another of its rows"
    assert told == {repeated, "validation set 1 shares 0 rows with test set 1"}
    on_test = table.select(["id"]).append_column("prediction", pa.array(["a"] * len(table)))
    pq.write_table(on_test, tmp_path / "t.parquet")
    pq.write_table(pa.table({"prediction": ["a"] * 400}), tmp_path / "v.parquet")
    answer = meter.submit(tmp_path / "t.parquet", tmp_path / "v.parquet", model="always a")
    true_loss, validation_loss = 0.4, draw(400, seed=1)["text"].to_pylist().count("") / 400
    assert answer.true_gap is not None
    lower, upper = answer.true_gap
    assert lower <= abs(true_loss - validation_loss) <= upper


def test_repeated_ids_are_named_at_seal_and_at_delivery(tmp_path: Path) -> None:
    """A table with two labels for one id used to become an active test set."""
    meter = Meter.create(tmp_path / "meter", small_spec(), clock=Clock())
    table = rows(np.zeros(40, dtype=np.int64), seed=1)
    twice = pa.concat_tables([table, table.slice(3, 14)])
    with pytest.raises(InvalidInput, match=r"ids given more than once: '3', '4', .* and 4 more"):
        sealed_as(meter, twice, tmp_path / "set.sealed")
    assert not (tmp_path / "set.sealed").exists()
    # A file sealed elsewhere is looked at again.
    forged = tmp_path / "forged.sealed"
    with mock.patch.object(survey, "refuse_repeated_ids"):
        sealed_as(meter, twice, forged)
    with pytest.raises(InvalidInput, match="ids given more than once: '3', '4'"):
        meter.add_test_set(forged)
    assert meter.generations[-1].phase is Phase.REQUESTED


def test_labels_that_developers_do_not_know_are_kept_if_the_labeler_says_so(tmp_path: Path) -> None:
    meter = Meter.create(tmp_path / "meter", small_spec(classes=("cat", "dog")), clock=Clock())
    labels = ["cat", "dog"] * 18 + ["eel", "eel", "fox"]
    table = rows(np.zeros(len(labels), dtype=np.int64), seed=1)
    table = table.set_column(3, "label", pa.array(labels))
    with pytest.raises(InvalidInput, match="'eel' in 2 rows, 'fox' in 1 row: correct them, or"):
        sealed_as(meter, table, tmp_path / "set.sealed")
    sealed = sealed_as(meter, table, tmp_path / "set.sealed", keep_unknown_labels=True)
    assert meter.add_test_set(sealed).phase is Phase.ACTIVE
    pq.write_table(pa.table({"label": ["cat", "dog"]}), tmp_path / "validation.parquet")
    meter.set_validation(tmp_path / "validation.parquet", label="label")
    guess = [each if each in ("cat", "dog") else "cat" for each in labels]
    on_test = table.select(["id"]).append_column("prediction", pa.array(guess))
    pq.write_table(on_test, tmp_path / "t.parquet")
    pq.write_table(pa.table({"prediction": ["cat", "dog"]}), tmp_path / "v.parquet")
    answer = meter.submit(tmp_path / "t.parquet", tmp_path / "v.parquet", model="m")
    assert answer.name == "1"  # 3 of 39 wrong, whatever is predicted there


def test_a_test_set_does_not_wait_for_the_classes(tmp_path: Path) -> None:
    meter = Meter.create(tmp_path / "meter", small_spec(classes=()), clock=Clock())
    table = rows(np.zeros(40, dtype=np.int64), seed=1)
    assert meter.add_test_set(sealed_as(meter, table, tmp_path / "set.sealed")).rows == 40
    nested = table.set_column(3, "label", pa.array([[1]] * 40))
    other = Meter.create(tmp_path / "other", small_spec(classes=()), clock=Clock())
    with pytest.raises(InvalidInput, match="text or whole numbers needed"):
        sealed_as(other, nested, tmp_path / "nested.sealed")


def test_too_few_rows_are_refused_before_they_are_sealed(tmp_path: Path) -> None:
    meter = Meter.create(tmp_path / "meter", small_spec(), clock=Clock())
    few = rows(np.zeros(30, dtype=np.int64), seed=1)
    needed = meter.plan.labels
    sure = Meter.create(tmp_path / "sure", small_spec(delta=1e-12), clock=Clock())
    with pytest.raises(InvalidInput, match="labels: 1 given, too few for 4 steps at any"):
        sealed_as(sure, few.slice(0, 1), tmp_path / "none.sealed")
    sealed = sealed_as(meter, few, tmp_path / "set.sealed", part=True)
    with pytest.raises(InvalidInput, match=f"30 given, {needed} planned, which weakens"):
        meter.add_test_set(sealed)
    assert meter.add_part(sealed).phase is Phase.REQUESTED
    meter = Meter.create(tmp_path / "f1", small_spec(loss="f1[1]", rows=400), clock=Clock())
    with pytest.raises(InvalidInput, match="30 given, 400 needed: label 370 more"):
        sealed_as(meter, few, tmp_path / "f1.sealed")


@pytest.mark.parametrize("more", [-1, 0, 1])
def test_the_promise_follows_the_rows_before_the_first_answer(tmp_path: Path, more: int) -> None:
    session = make_session(tmp_path / "as-planned")
    planned, spec = session.meter.plan.labels, session.meter.spec
    meter = Meter.create(tmp_path / "meter", spec, clock=Clock())
    labels = np.arange(planned + more) % 2
    sealed = sealed_as(meter, rows(labels, seed=1), tmp_path / "set.sealed")
    pq.write_table(rows(labels[:20], seed=7), tmp_path / "validation.parquet")
    meter.set_validation(tmp_path / "validation.parquet", label="label")
    meter.add_test_set(sealed, accept_fewer=more < 0, ids_renumbered=True)
    other = Session(tmp_path, meter, labels, labels[:20])
    told, view = other.submit(2, 2), meter.status()
    tolerance = reachable_tolerance(spec, planned + more, keep_edges=True).spec.tolerances[0]
    tolerance = tolerance if more else spec.tolerances[0]
    assert (tolerance > 0.25, tolerance < 0.25) == (more < 0, more > 0)
    assert (told.tolerance, told.rows, told.steps_left) == (tolerance, planned + more, 3)
    assert view.spec == spec.with_tolerances([tolerance] * 3)  # edges and answers stay
    assert f"within {at_most(tolerance)} of its true loss" in view.promise
    assert view_from_json(json.loads(json.dumps(view.to_dict())), spec) == view
    assert (view.promise == session.meter.status().promise) is (more == 0)
    # A copy says the same; a later test set starts from what was planned.
    shutil.copytree(tmp_path / "meter", tmp_path / "copy")
    with Meter.open(tmp_path / "copy") as copy:
        assert copy.status() == view
        assert copy.audit().sound
        copy.retire()
        asked = copy.generations[-1]
        assert (asked.labels_needed, copy.status(generation=2).spec) == (planned, spec)
        folder = copy.release()
    (kept,) = json.loads((folder / "retrospective.json").read_text(encoding="utf-8"))
    assert kept["tolerance"] == tolerance


def test_columns_that_are_no_inputs_stay_at_home(tmp_path: Path) -> None:
    meter = Meter.create(tmp_path / "meter", small_spec(), clock=Clock())
    table = rows(np.zeros(40, dtype=np.int64), seed=1)
    table = table.append_column("annotator", pa.array(["ann"] * 40))
    sealed = sealed_as(meter, table, tmp_path / "set.sealed", drop=["annotator"])
    with open_sealed(meter.workspace, meter.generations[-1], sealed) as opened:
        assert opened.inputs == ("x", "y")
    sealed = sealed_as(meter, table, tmp_path / "other.sealed", columns=["y"])
    with open_sealed(meter.workspace, meter.generations[-1], sealed) as opened:
        assert opened.inputs == ("y",)


def test_a_later_test_set_must_have_the_same_columns(tmp_path: Path) -> None:
    session = make_session(tmp_path)
    for step in range(4):
        session.submit(0, 0, model=str(step))
    table = rows(session.test_labels, seed=3).rename_columns(["id", "x", "z", "label"])
    sealed = sealed_as(session.meter, table, tmp_path / "other.sealed")
    with pytest.raises(InvalidInput, match="column"):
        session.meter.add_test_set(sealed)


def test_a_plain_table_and_an_earlier_set_are_called_by_their_name(tmp_path: Path) -> None:
    session = make_session(tmp_path)
    for step in range(4):
        session.submit(0, 0, model=str(step))
    (tmp_path / "hidden.csv").write_text("id,x,label\n1,2,0\n")
    with pytest.raises(InvalidInput, match=r"seal it first: meter seal .*hidden\.csv --label"):
        session.meter.add_test_set(tmp_path / "hidden.csv")
    with pytest.raises(InvalidInput, match="'test set 1' given, test set 2 is needed"):
        session.meter.add_test_set(tmp_path / "set-0.sealed")


def test_rows_are_sealed_from_memory(tmp_path: Path) -> None:
    meter = Meter.create(tmp_path / "meter", small_spec(), clock=Clock())
    space = Workspace.open(tmp_path / "meter", Clock())
    table = rows(np.random.default_rng(0).integers(0, 2, meter.plan.labels), seed=1)
    out = io.BytesIO()
    pyarrow.csv.write_csv(table, out)
    sealed = tmp_path / "labels.sealed"
    held = Held("labels.csv", out.getvalue())
    choices = delivery.Choices(label="label", id_column="id")
    manifest = delivery.seal_labels(LABELER, space, held, sealed, choices)
    assert manifest.rows == len(table)
    with open_sealed(space, meter.generations[-1], sealed) as opened:
        assert pa.Table.from_batches(opened.batches()).to_pydict() == table.to_pydict()
    assert delivery.add_test_set(LABELER, space, sealed).phase is Phase.ACTIVE
    with pytest.raises(Denied, match="developers may not seal"):
        delivery.seal_labels(Actor.embedded(Role.DEVELOPER), space, held, sealed, choices)


def test_the_same_rows_count_at_one_meter_of_a_server(tmp_path: Path) -> None:
    """Also where the books that knew the other meter are lost: the claim lies with the files."""
    site = make_site(tmp_path / "site", f"sqlite:///{tmp_path}/first.db")
    make_room(site, tmp_path / "first")
    with pytest.raises(InvalidInput, match="test set of another meter on this server"):
        make_room(site, tmp_path / "second", name="second")
    site.close()
    lost = make_site(tmp_path / "site", f"sqlite:///{tmp_path}/other.db")
    with pytest.raises(InvalidInput, match="test set of another meter on this server"):
        make_room(lost, tmp_path / "third", name="third")
    lost.close()


def test_a_set_sealed_without_a_secret_is_refused_where_edges_are_drawn(tmp_path: Path) -> None:
    """With fixed edges none is needed."""
    for name, options in (("fixed", {}), ("drawn", {"drawn": 0.3, "tolerance": 0.2})):
        meter = Meter.create(tmp_path / name, small_spec(**options), clock=Clock())
        labels = np.random.default_rng(3).integers(0, 2, meter.plan.labels)
        with mock.patch.object(Draws, "published", return_value=None):
            sealed = sealed_as(meter, rows(labels, seed=3), tmp_path / f"{name}.sealed")
        if name == "fixed":
            meter.add_test_set(sealed)
            continue
        with pytest.raises(InvalidInput, match="without the secret") as refused:
            meter.add_test_set(sealed)
        assert "seal the rows again" in str(refused.value)
        assert "\n" not in str(refused.value)
        assert meter.generations[-1].phase is Phase.REQUESTED


@pytest.mark.usefixtures("apart")
def test_a_small_file_that_decodes_to_gigabytes_is_refused_at_a_server(tmp_path: Path) -> None:
    """Before, it was decoded in the server's process: the class of each row was written out."""
    site = make_site(tmp_path / "site", f"sqlite:///{tmp_path}/first.db")
    meter = Meter(site.space(create_meter(SYSTEM, site, small_spec(), "small").id))
    label = pa.table({"label": np.zeros(200_000, np.int8)})
    bomb = forged(
        tmp_path / "bomb.sealed",
        meter.workspace.identity,
        [label],
        meter=meter.generations[-1].meter,
        classes=["x" * 20_000],
    )
    opened = mock.Mock(side_effect=AssertionError("opened in this process"))
    with mock.patch.object(SealedTestSet, "open", opened):
        for deliver in (meter.add_test_set, meter.add_part):
            with pytest.raises(TooLarge, match="most_decoded_bytes of the server"):
                deliver(bomb)
    assert meter.generations[-1].phase is Phase.REQUESTED


def test_rows_that_become_a_validation_set_while_they_are_compared_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither set was compared with the other, so developers could see rows of the test set."""
    meter = Meter.create(tmp_path / "meter", small_spec(), name="small", clock=Clock())
    table = rows(np.arange(meter.plan.labels) % 2, seed=1)
    pq.write_table(table.slice(0, 20), tmp_path / "validation.parquet")
    sealed = sealed_as(meter, table, tmp_path / "set.sealed")

    def meanwhile(*arguments: Any, **options: Any) -> None:
        check_enough(*arguments, **options)
        with Meter.open(tmp_path / "meter") as developer:
            developer.set_validation(tmp_path / "validation.parquet", label="label")

    with monkeypatch.context() as patch:
        patch.setattr(delivery, "check_enough", meanwhile)
        with pytest.raises(MeterError, match="handed in meanwhile"):
            meter.add_test_set(sealed)
    with pytest.raises(InvalidInput, match="stand in validation set 1 under the same id"):
        meter.add_test_set(sealed)


def test_the_same_rows_are_sealed_and_taken_in_once(tmp_path: Path) -> None:
    """ "Run all" in a notebook does everything once more."""
    session = make_session(tmp_path)
    meter, path = session.meter, tmp_path / "set-0.sealed"
    again = partial(meter.seal, destination=path, label="label", id_column="id")
    hidden = rows(session.test_labels, seed=1000)
    before, books = path.read_bytes(), len(meter.audit().links)
    assert again(hidden).sha256 == again(hidden).sha256
    assert meter.add_test_set(path) == meter.generations[0]
    assert (path.read_bytes(), len(meter.audit().links)) == (before, books)
    flipped = rows(1 - session.test_labels, seed=1000)
    for other in (hidden.slice(1), hidden.take([1, 0, *range(2, len(hidden))]), flipped):
        with pytest.raises(InvalidInput, match=r"set-0\.sealed already exists"):
            again(other)
    with pytest.raises(WrongPhase, match="no other one is needed"):
        meter.seal(hidden, tmp_path / "new.sealed", label="label", id_column="id")
    assert path.read_bytes() == before
