"""A meter at a server: the same verbs as in a folder, and the same answers."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.linear_model import LogisticRegression
from tests.client.people import SEEDS, VALIDATION, People, fresh, people_at
from tests.live import Live
from tests.service.helpers import Labels, rows, small_spec, with_errors

from easeml_meter.client import RemoteMeter, Untold, connect, create_meter
from easeml_meter.client import meter as remote
from easeml_meter.client.connection import Connection
from easeml_meter.core.lifecycle import Phase
from easeml_meter.core.model import Batch
from easeml_meter.core.views import Signal, signal_from_json, view_from_json
from easeml_meter.errors import (
    Denied,
    InvalidInput,
    MeterError,
    NotFound,
    Spent,
    Unauthenticated,
    WrongPhase,
)


def verbs(kind: type) -> dict[str, Any]:
    return {name: each for name, each in vars(kind).items() if not name.startswith("_")}


def test_from_the_request_to_an_active_test_set(people: People) -> None:
    labeler, developer = people.labeler, people.developer
    assert developer.spec == small_spec()
    assert developer.plan.labels == labeler.plan.labels
    assert [row.phase for row in developer.generations] == [Phase.REQUESTED]
    with pytest.raises(WrongPhase, match="no validation set yet"):
        developer.replace_validation(people.validation())
    with pytest.raises(WrongPhase, match=r"no test set yet: .* labels are needed"):
        labeler.export_inputs(people.folder / "early.parquet")
    labels = people.begin()
    with pytest.raises(WrongPhase, match="is active: no other one is needed"):
        people.sealed(fresh(labels))
    with pytest.raises(WrongPhase, match="a validation set already"):
        developer.set_validation(people.validation(seed=8), label="label")
    again = developer.set_validation(people.validation(), label="label")
    assert (again.number, again.rows) == (1, 20)
    assert developer.replace_validation(people.validation(seed=8)).number == 2
    assert labeler.notices()[0]["rows_shared"] == 0
    assert [row.phase for row in developer.generations] == [Phase.ACTIVE]
    assert developer.generations[0].rows == len(labels)


def test_what_the_meter_would_refuse_is_refused_before_it_is_sealed(people: People) -> None:
    """A labeler at a server learned it after the upload, if at all."""
    labeler, needed = people.labeler, people.labeler.plan.labels
    labels = np.zeros(needed + 1, dtype=np.int64)
    odd, twice = rows(labels, seed=1), rows(labels, seed=1)
    odd = odd.set_column(3, "label", pa.array([7, *labels[1:]]))
    twice = twice.set_column(0, "id", pa.array([1, *range(1, needed + 1)]))
    sealed = people.folder / "refused.sealed"
    for table, line in (
        (odd, "labels outside the class list .*: '7' in 1 row: correct them"),
        (twice, "ids given more than once: '1'"),
    ):
        pq.write_table(table, people.folder / "rows.parquet")
        with pytest.raises(InvalidInput, match=line):
            labeler.seal(people.folder / "rows.parquet", sealed, label="label", id_column="id")
        assert not sealed.exists()


def test_inputs_submissions_and_what_was_told(people: People) -> None:
    developer, labels = people.developer, people.begin()
    exported = people.folder / "inputs.parquet"
    with pytest.raises(Denied, match="the meter does not say public"):
        developer.export_inputs(exported)
    assert people.labeler.export_inputs(exported) == len(labels)
    assert pq.read_schema(exported).names == ["id", "x", "y"]
    with pytest.raises(InvalidInput, match="already exists"):
        people.labeler.export_inputs(exported)
    lines = people.folder / "inputs.jsonl"
    assert people.labeler.export_inputs(lines) == len(labels)
    assert lines.read_text().startswith('{"id": 0, "x": ')
    with pytest.raises(InvalidInput, match=r"must end in \.parquet"):
        people.labeler.export_inputs(people.folder / "inputs")

    first = people.submit(labels, 0, model="a")
    assert (first.band, first.step, first.model, first.tenant) == (1, 1, "a", 1)
    assert (first.steps_left, first.repeated) == (3, False)
    again = people.submit(labels, 0, model="a")
    assert again == replace(first, repeated=True)
    noted = {"note": "wider", "link": "https://example.org/1"}
    assert people.submit(labels, len(labels) // 5, model="b", **noted).band == 2
    assert people.submit(labels, len(labels), model="c").band == 3

    view = developer.status()
    assert (view.phase, view.steps_left, len(view.signals)) == (Phase.ACTIVE, 1, 3)
    assert view == people.labeler.status(generation=1)
    assert developer.history() == (view,)
    (note,) = people.labeler.status().notes
    assert (note.step, note.text, note.link) == (2, "wider", "https://example.org/1")
    with pytest.raises(InvalidInput, match="generation: 9 given, a number from 1 to 1"):
        developer.status(generation=9)


def test_spent_released_audited(people: People) -> None:
    labeler, developer, labels = people.labeler, people.developer, people.begin()
    with pytest.raises(WrongPhase, match="is active: only a spent one is released"):
        labeler.release()
    for errors, model in zip((0, len(labels) // 5, len(labels), 1), "abcd", strict=True):
        people.submit(labels, errors, model=model)
    assert [row.phase for row in developer.generations] == [Phase.SPENT, Phase.REQUESTED]
    with pytest.raises(Spent, match=r"test set 1 is spent: .* fresh labels are needed"):
        people.submit(labels, 2, model="e")
    with pytest.raises(Denied):
        developer.release()
    released = labeler.release()
    assert {path.name for path in released.iterdir()} == {
        *("testset.parquet", "retrospective.json", "report.html")
    }
    assert pq.read_table(released / "testset.parquet")["label"].to_pylist() == labels.tolist()
    truths = developer.status(generation=1).retrospective
    assert [truth and truth.band for truth in truths] == [1, 2, 3, 1]
    records = json.loads((released / "retrospective.json").read_text())
    assert [record["truth"]["band"] for record in records] == [1, 2, 3, 1]

    found = labeler.audit()
    assert found.problems == ()
    assert [link.event for link in found.links].count("told") == 4
    assert all(link.digest for link in found.links)


def test_roles_are_the_servers(site: Live, at_server: People, tmp_path: Path) -> None:
    labels = at_server.begin()
    meter = f"{tmp_path.name}-meter"
    files = at_server.predictions(labels, 0)
    with site.meter(f"{tmp_path.name}-runner", meter) as runner:
        with pytest.raises(Untold, match=r"step 1 of test set 1.*developers of team 1") as told:
            runner.submit(*files, model="m")
        assert told.value.receipt["signal"] is None
        with pytest.raises(Denied):
            runner.status()
    assert len(at_server.developer.status().signals) == 1
    for verb in (at_server.labeler.submit, at_server.developer.submit):
        with pytest.raises((Denied, InvalidInput)):
            verb(*files, model="m", tenant=2)
    with pytest.raises(Denied):
        at_server.developer.seal(at_server.validation(), "x.sealed", label="label")
    with pytest.raises(NotFound, match="you have a seat"):
        site.meter("stranger", meter)
    with pytest.raises(NotFound, match="you have no seat at any meter"):
        site.meter("stranger")
    with pytest.raises(Unauthenticated, match="log in again"):
        connect(site.address, meter, token="emt_wrong")  # noqa: S106
    with pytest.raises(Unauthenticated, match="run meter login --server"):
        connect(site.address, meter)


def test_the_audit_of_a_developer_leaves_out_other_tenants(site: Live, tmp_path: Path) -> None:
    prefix = f"{tmp_path.name}-"
    for people in people_at(site, tmp_path, prefix, tenants=(2, 2)):
        labels = people.begin()
        people.submit(labels, 0)
        assert isinstance(people.developer, RemoteMeter)
        with site.meter(f"{prefix}developer2", f"{prefix}meter") as other:
            links = other.audit().links
            told = next(link for link in links if link.event == "told")
            assert (told.details, told.digest) == ({}, "")
            assert other.status().signals == ()


def test_labels_in_parts(at_server: People) -> None:
    labeler = at_server.labeler
    assert isinstance(labeler, RemoteMeter)
    at_server.developer.set_validation(at_server.validation(), label="label")
    needed = labeler.plan.labels
    labels = np.random.default_rng(0).integers(0, 2, needed)
    half, table = needed // 2, fresh(labels)
    first = labeler.add_part(at_server.sealed(table[:half], part=True), ids_renumbered=True)
    assert (first.phase, first.rows) == (Phase.REQUESTED, None)
    (request,) = labeler.requests()
    assert (request.labels_here, request.test_set.labels_needed) == (half, needed)
    assert [part.rows for part in request.parts] == [half]
    second = labeler.add_test_set(at_server.sealed(table[half:]), ids_renumbered=True)
    assert (second.phase, second.rows) == (Phase.ACTIVE, needed)
    assert labeler.requests() == []
    assert at_server.submit(labels, 0).band == 1


def test_fewer_rows_than_planned_weaken_the_promise(people: People) -> None:
    labeler, planned = people.labeler, people.labeler.plan.labels
    people.developer.set_validation(people.validation(), label="label")
    labels = np.random.default_rng(0).integers(0, 2, planned - 5)
    sealed = people.sealed(fresh(labels))
    if isinstance(labeler, RemoteMeter):  # where it is a part until the labeler says that it is all
        assert not labeler.add_test_set(sealed, ids_renumbered=True).rows
    added = labeler.add_test_set(sealed, ids_renumbered=True, accept_fewer=True)
    told, view = people.submit(labels, 0), people.developer.status()
    assert (added.rows, told.rows) == (planned - 5, planned - 5)
    assert told.tolerance == view.signals[0].tolerance == view.spec.tolerances[0]
    assert view.spec.tolerances[0] > people.developer.spec.tolerances[0]


def test_drawn_edges_come_with_every_answer_of_a_server(site: Live, tmp_path: Path) -> None:
    """Also where the labels came in parts: then the server seals them, with a secret of its own."""
    prefix = f"{tmp_path.name}-"
    for people in people_at(site, tmp_path, prefix, drawn=0.3, tolerance=0.2):
        developer, labeler = people.developer, people.labeler
        assert isinstance(labeler, RemoteMeter)
        developer.set_validation(people.validation(), label="label")
        labels = np.random.default_rng(0).integers(0, 2, labeler.plan.labels)
        table = fresh(labels)
        labeler.add_part(people.sealed(table[:9], part=True), ids_renumbered=True)
        labeler.add_test_set(people.sealed(table[9:]), ids_renumbered=True)
        shares = (0.0, 0.3, 0.6, 0.9)
        told = [people.submit(labels, int(each * len(labels)), model=f"{each}") for each in shares]
        for signal, share in zip(told, shares, strict=True):
            assert signal.gap is not None
            assert signal.gap[0] <= int(share * len(labels)) / len(labels) < signal.gap[1]
        assert len({signal.first_edge for signal in told}) == 4
        assert [each.gap for each in developer.status().signals] == [each.gap for each in told]
        assert not any("draws" in link.details for link in labeler.audit().links[-2:])
        labeler.release()
        found = labeler.audit()
        assert (len(found.links[-1].details["draws"]), found.problems) == (64, ())


def test_a_released_test_set_is_fetched_by_developers(at_server: People) -> None:
    labels = at_server.begin()
    developer = at_server.developer
    assert isinstance(developer, RemoteMeter)
    for step in range(4):
        at_server.submit(labels, 0, model=f"m{step}")
    with pytest.raises(WrongPhase, match="test set 1 is spent: it was not released yet"):
        developer.fetch_released(1, "mine")
    at_server.labeler.release()
    folder = developer.fetch_released(1, "mine")
    assert len(list(folder.iterdir())) == 3
    assert len(json.loads((folder / "retrospective.json").read_text())) == 4
    with pytest.raises(InvalidInput, match="there already"):
        developer.fetch_released(1, "mine")
    found = developer.differences(1, 4)
    assert (found.first.model, found.second.model, found.generation) == ("m0", "m3", 1)
    assert found == developer.differences(tenant=1)
    with pytest.raises(NotFound, match="test set 2 is requested"):
        developer.differences(generation=2)


def test_a_release_that_waits_for_a_worker_is_waited_for(
    at_server: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    labels = at_server.begin()
    for step in range(4):
        at_server.submit(labels, 0, model=f"m{step}")
    labeler = at_server.labeler
    assert isinstance(labeler, RemoteMeter)
    call, asked = labeler._connection.call, list[str]()

    def waiting(method: str, path: str, **options: Any) -> Any:
        if not path.endswith("/release"):
            return call(method, path, **options)
        asked.append(method)
        if len(asked) < 3:
            return {"generation": 1, "state": "waiting", "files": [], "problem": None}
        return call("POST", path, **options)

    monkeypatch.setattr(remote, "_LOOK", 0.01)
    monkeypatch.setattr(labeler._connection, "call", waiting)
    seen: list[str] = []
    labeler.progress = lambda what, done, total: seen.append(what)
    assert (labeler.release() / "testset.parquet").exists()
    assert asked == ["POST", "GET", "GET"]
    assert seen == ["models run once more at the server"] * 2


def test_a_meter_is_made_by_an_admin(site: Live, tmp_path: Path) -> None:
    name = f"{tmp_path.name} new"
    token = site.served.tokens["admin"]
    with create_meter(site.address, small_spec(steps=2), name=name, token=token) as meter:
        assert meter.spec.steps == 2
    with connect(site.address, name, token=token) as found:
        assert found.id == meter.id
    with pytest.raises(Denied):
        create_meter(site.address, small_spec(), name=name, token=site.served.tokens["stranger"])


def test_json_and_back(in_folder: People) -> None:
    labels = in_folder.begin()
    for step in range(4):
        in_folder.submit(labels, step * 5, model=f"m{step}")
    in_folder.labeler.release()
    view = in_folder.developer.status(generation=1)
    sent = json.loads(json.dumps(view.to_dict()))
    assert view_from_json(sent, view.spec) == view
    signal = view.signals[0]
    assert signal_from_json(signal.to_dict(), view.spec) == signal
    assert all(view.retrospective)


@pytest.mark.parametrize("options", [{"window": 2}], ids=["rolling"])
def test_a_rolling_test_set_frees_its_batches(people: People, options: dict[str, Any]) -> None:
    labeler, developer = people.labeler, people.developer
    assert developer.spec == small_spec(**options)
    batch, labels = developer.plan.labels, np.zeros(0, dtype=np.int64)
    seeds = np.random.default_rng(1)
    developer.set_validation(people.validation(), label="label")
    for number in (1, 2, 3):
        more = seeds.integers(0, 2, batch * (2 if number == 1 else 1))
        (asked,) = labeler.requests()
        assert (asked.test_set.number, asked.test_set.labels_needed) == (number, len(more))
        ids = 1000 + np.arange(len(labels), len(labels) + len(more))
        table = fresh(more).set_column(0, "id", pa.array(ids))
        labels = np.concatenate([labels, more])
        added = labeler.add_test_set(people.sealed(table))
        assert (added.number, added.phase, added.rows) == (number, Phase.ACTIVE, 2 * batch)
        assert [each.number for each in developer.batches()] == list(range(1, number))
        window = slice(len(labels) - 2 * batch, len(labels))
        ids = 1000 + np.arange(len(labels))[window]
        shown = pa.table({"id": ids, "prediction": labels[window]})
        validation = pa.table({"prediction": VALIDATION})
        signal = developer.submit(shown, validation, model=f"model {number}")
        assert (signal.answer, signal.step, signal.generation) == (1, number, number)
        assert (signal.battery, signal.steps_left) == (1.0, 0)
        again = shown.set_column(1, "prediction", pa.array(1 - labels[window]))
        with pytest.raises(Spent, match="is missing"):
            developer.submit(again, validation, model="one more")
    first = developer.fetch_batch(1, people.folder / "one" / "batch.parquet")
    assert pq.read_table(first)["label"].to_pylist() == labels[:batch].tolist()
    with pytest.raises(NotFound, match="batch 3 was not released yet"):
        developer.fetch_batch(3, people.folder / "three.parquet")
    assert [signal.step for signal in developer.status().signals] == [1, 2, 3]
    assert developer.audit().sound
    for _ in range(2):
        assert (labeler.release() / "testset.parquet").exists()
    with pytest.raises(WrongPhase, match="shares batches"):
        labeler.release()


@pytest.mark.parametrize("options", [{"top_up": 2, "steps": 1}], ids=["topped up"])
def test_a_test_set_is_topped_up(people: People, options: dict[str, Any]) -> None:
    labeler, developer = people.labeler, people.developer
    assert developer.spec == small_spec(**options)
    top_up = developer.plan.to_dict()["top_up"]
    labels = np.random.default_rng(1).integers(0, 2, top_up["labels"])
    ids = 1000 + np.arange(len(labels))
    table = fresh(labels).set_column(0, "id", pa.array(ids))
    first = developer.plan.labels
    developer.set_validation(people.validation(), label="label")
    labeler.add_test_set(people.sealed(table.slice(0, first)))

    def submit(rows: int, wrong: int, model: str) -> Signal:
        guess = labels[:rows].copy()
        guess[:wrong] ^= 1
        shown = pa.table({"id": ids[:rows], "prediction": guess})
        return developer.submit(shown, pa.table({"prediction": VALIDATION}), model=model)

    told = submit(first, 0, "one")
    assert (told.answer, told.step, told.generation, told.steps_left) == (1, 1, 1, 0)
    assert "together, before and after it is topped up" in told.promise
    (asked,) = labeler.requests()
    assert (asked.test_set.number, asked.test_set.labels_needed) == (2, top_up["more_labels"])
    with pytest.raises(Spent, match="labels that top it up are missing"):
        submit(first, 1, "two")
    with pytest.raises(WrongPhase, match="test set 1 is a part of test set 2"):
        labeler.release()
    added = labeler.add_test_set(people.sealed(table.slice(first)))
    assert (added.number, added.phase, added.rows) == (2, Phase.ACTIVE, len(labels))
    again = [submit(len(labels), wrong, f"model {wrong}") for wrong in (0, len(labels))]
    assert [signal.answer for signal in again] == [1, 3]
    assert [(signal.generation, signal.steps_left) for signal in again] == [(2, 1), (2, 0)]
    assert "together, before and after it was topped up" in again[0].promise
    view = developer.status(generation=2)
    assert (view.spec.steps, view.spec.topped_up, len(view.signals)) == (2, 1, 2)
    assert developer.history()[0].signals[0].answer == told.answer
    assert developer.audit().sound
    (asked,) = labeler.requests()
    assert (asked.test_set.number, asked.test_set.labels_needed) == (3, first)
    rows = [pq.read_table(labeler.release() / "testset.parquet").num_rows for _ in range(2)]
    assert rows == [first, len(labels)]


def test_a_server_of_a_later_version_may_tell_more(
    at_server: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, a field that this version does not know ended most verbs in a TypeError."""
    told = Connection._told

    def later(self: Connection, found: dict[str, Any]) -> Any:
        # Not so the settings of a meter: without knowing one of them nobody knows the promise.
        tables = {"steps", "inputs", "loss", "classes", "models"}  # what [budget] and [sample] hold
        settings = {"ask", "budget", "delta"} & found.keys() or found.keys() <= tables
        return told(self, found if settings else {**found, "later": 1})

    monkeypatch.setattr(Connection, "_told", later)
    labeler, developer = at_server.labeler, at_server.developer
    developer.set_validation(at_server.validation(), label="label")
    labels = np.random.default_rng(0).integers(0, 2, labeler.plan.labels)
    table = fresh(labels)
    labeler.add_part(at_server.sealed(table[:5], part=True), ids_renumbered=True)
    assert [part.rows for part in labeler.requests()[0].parts] == [5]
    labeler.add_test_set(at_server.sealed(table[5:]), ids_renumbered=True)
    assert developer.check(*at_server.predictions(labels, 0)).answer == 1
    for errors in range(4):
        at_server.submit(labels, errors, model=f"m{errors}", note=f"words {errors}")
    assert len(developer.history()) == 1
    assert developer.status().notes[0].text == "words 0"
    assert labeler.release().is_dir()
    assert len(developer.status(generation=1).retrospective) == 4
    assert developer.differences(1, 2).rows == len(labels)
    assert developer.audit().sound
    assert labeler.batches() == []
    monkeypatch.setattr(Connection, "listed", lambda *_: [{"number": 1, "rows": 2, "later": 1}])
    assert labeler.batches() == [Batch(1, 2)]


@pytest.mark.parametrize("told", [{"number": 1}, {"rows": 2}])
def test_a_server_that_lacks_a_field_is_told_in_one_line(told: dict[str, int]) -> None:
    """It was a TypeError."""
    answer = httpx.Response(200, json={"items": [told], "next": None})
    with RemoteMeter(Connection("http://127.0.0.1:9"), "0" * 32) as meter:
        meter._connection._client = httpx.Client(
            base_url="http://127.0.0.1:9", transport=httpx.MockTransport(lambda _: answer)
        )
        with pytest.raises(MeterError, match=r"its answer lacks '(number|rows)': is it a meter's"):
            meter.batches()


def frame(labels: Labels, seed: int) -> pd.DataFrame:
    return rows(labels, seed=seed).to_pandas()


def begin(people: People) -> Labels:
    people.developer.set_validation(frame(VALIDATION, 7), label="label", id_column="id")
    labels = np.random.default_rng(0).integers(0, 2, people.labeler.plan.labels)
    sealed = people.folder / "test.sealed"
    hidden = frame(labels, 1000 + next(SEEDS))
    people.labeler.seal(hidden, sealed, label="label", id_column="id")
    people.labeler.add_test_set(sealed, ids_renumbered=True)
    return labels


def given(kind: str, values: Labels) -> Any:
    ids = np.arange(len(values))
    table = {"id": ids, "prediction": values}
    match kind:
        case "pandas":
            return pd.DataFrame(table).sample(frac=1, random_state=1).set_index("id")
        case "series":
            return pd.Series(values, pd.Index(ids, name="id"))
        case "polars":
            return pl.DataFrame(table)
        case "dict":
            return dict(zip(ids.tolist(), values.tolist(), strict=True))
    raise AssertionError(kind)


class TestPublicInputs:
    @pytest.fixture
    def options(self) -> dict[str, Any]:
        return {"inputs": "public"}

    def test_the_same_predictions_get_the_same_answer_in_every_form(self, people: People) -> None:
        labels = begin(people)
        files = people.predictions(labels, 3, salt="")
        told: list[Signal] = [people.developer.submit(*files, model="file")]
        for kind in ("pandas", "series", "polars", "dict"):
            test = given(kind, with_errors(labels, 3))
            told.append(people.developer.submit(test, given(kind, VALIDATION), model=kind))
        assert [each.repeated for each in told] == [False, True, True, True, True]
        assert {each.answer for each in told} == {told[0].answer}

    def test_an_estimator_is_evaluated(self, people: People) -> None:
        with pytest.raises(WrongPhase):
            people.developer.evaluate(LogisticRegression(), model="too early")
        labels = begin(people)
        estimator = LogisticRegression().fit(
            rows(VALIDATION, seed=7).to_pandas()[["x", "y"]], VALIDATION
        )
        told = people.developer.evaluate(estimator, model="logistic")
        seen = frame(VALIDATION, 7)
        wrong = (estimator.predict(seen[["x", "y"]]) != VALIDATION).mean()
        assert told.validation_loss == pytest.approx(wrong)
        assert people.developer.evaluate(estimator, model="again").repeated
        assert len(labels) == people.developer.status().rows

    def test_a_model_gets_a_frame_where_a_frame_was_given(self, people: People) -> None:
        class Named:
            def predict(self, inputs: pd.DataFrame) -> Any:
                assert list(inputs.columns) == ["x", "y"]
                return (inputs["x"] > 0).astype(int)

        begin(people)
        told = people.developer.evaluate(Named(), model="named")
        wrong = (Named().predict(frame(VALIDATION, 7)[["x", "y"]]) != VALIDATION).mean()
        assert told.validation_loss == pytest.approx(wrong)

    def test_a_refusal_says_what_was_given_and_costs_nothing(self, people: People) -> None:
        labels = begin(people)
        with pytest.raises(InvalidInput, match=r"validation \(dict\): ids of the validation set"):
            people.developer.submit({0: 1}, {0: 1}, model="short")
        with pytest.raises(InvalidInput, match=r"test \(ndarray\): no column 'id'"):
            people.developer.submit(labels, given("pandas", VALIDATION), model="plain")
        assert people.developer.status().signals == ()


def test_at_a_server_files_for_hidden_rows_are_known_by_their_bytes(at_server: People) -> None:
    """And what never was a file is known by what it predicts."""
    labels, told = begin(at_server), []
    kinds = ("series", "polars", "dict")  # in the order of the set, as its ids are hidden
    for kind, dtype in itertools.product(kinds, (np.int64, np.int8, float, str)):
        both = (given(kind, each.astype(dtype)) for each in (with_errors(labels, 3), VALIDATION))
        told.append(at_server.developer.submit(*both, model=f"{kind} {dtype}"))
    assert [each.step for each in told] == 12 * [1]
    for salt, step in (("a", 2), ("b", 3), ("a", 2)):
        files = at_server.predictions(labels, 3, salt=salt)
        assert at_server.developer.submit(*files, model="file").step == step


def test_at_a_server_what_a_runner_makes_is_known_by_its_name_alone(
    site: Live, at_server: People, tmp_path: Path
) -> None:
    """Else a candidate that fails only on inputs with X would tell for free if X is hidden."""
    labels = begin(at_server)
    named = [("a", 3, 1), ("a", 3, 1), ("b", 3, 2), ("b", 4, 2), ("c", 4, 3)]
    with site.meter(f"{tmp_path.name}-runner", f"{tmp_path.name}-meter") as runner:
        for model, errors, step in named:
            files = at_server.predictions(labels, errors)
            with pytest.raises(Denied, match="not checked for free"):
                runner.check(*files)
            with pytest.raises(Untold) as told:
                runner.submit(*files, model=model)
            assert told.value.receipt["step"] == step
    links = at_server.developer.audit().links
    assert len({link.details["submission"] for link in links if link.event == "told"}) == 3


def test_hidden_inputs_are_not_given_to_an_estimator(people: People) -> None:
    begin(people)
    with pytest.raises(Denied, match="submit the model itself"):
        people.developer.evaluate(LogisticRegression(), model="curious")
