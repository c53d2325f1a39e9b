"""Submissions to a server: checked, sent, waited for, refused and taken back."""

from __future__ import annotations

from pathlib import Path

import httpx
import numpy as np
import pytest
from tests.client.people import People, people_at
from tests.live import Live, live, wire
from tests.scoring.onnx_models import classifier
from tests.service.helpers import write_predictions

from easeml_meter.client import connection, submissions
from easeml_meter.errors import Denied, InvalidInput, Unreachable
from easeml_meter.service.submissions import running
from easeml_meter.service.submissions.kinds import Function, OnnxFile
from easeml_meter.service.submissions.measuring import Conditions


def test_a_check_is_the_same_in_a_folder_and_at_a_server(people: People) -> None:
    labels = people.begin()
    test, validation = people.folder / "ct.parquet", people.folder / "cv.parquet"
    write_predictions(test, labels)
    write_predictions(validation, np.random.default_rng(99).integers(0, 2, 20))
    found = people.developer.check(test, validation)
    assert (found.kind, found.tenant, found.generation) == ("predictions", 1, 1)
    assert (found.answer, found.answers, found.repeated) == (1, 4, False)
    assert found.test is not None
    assert found.test.matched is None  # developers may not see the inputs of this meter
    assert found.test.first == tuple(labels[:3].tolist())
    assert found.classes == (0, 1)
    assert people.developer.status().signals == ()
    with pytest.raises(InvalidInput, match=r"cv\.parquet"):
        people.developer.check(validation, validation)
    with pytest.raises(Denied):
        people.labeler.check(test, validation)


def test_refusals_name_the_files_given(people: People) -> None:
    labels = people.begin()
    test, validation = people.predictions(labels, 0)
    short = people.folder / "my.short.parquet"
    write_predictions(short, labels[:-1])
    with pytest.raises(InvalidInput, match=r"my\.short\.parquet: .* rows") as refused:
        people.developer.submit(short, validation, model="m")
    assert str(refused.value).startswith(str(short))
    with pytest.raises(InvalidInput, match=r"nowhere\.csv: cannot be read"):
        people.developer.submit(test, people.folder / "nowhere.csv", model="m")
    with pytest.raises(InvalidInput, match="model: '' given"):
        people.developer.submit(test, validation, model="")
    assert people.developer.status().signals == ()


def sent_in(folder: Path) -> OnnxFile:
    path = folder / "model.onnx"
    path.write_bytes(classifier(np.eye(2)))
    return OnnxFile(path)


def test_a_model_is_waited_for(site: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "allotted", lambda estimate: 0.5)
    told: list[str] = []
    for people in people_at(site, tmp_path, f"{tmp_path.name}-", models=True):
        people.begin()
        conditions = Conditions(progress=lambda what, done, total: told.append(what))
        signal = people.developer.submit_any(sent_in(tmp_path), model="net", conditions=conditions)
        assert (signal.step, signal.model) == (1, "net")
        assert told[0] == "sending"
        assert set(told[1:]) <= {"waiting in the queue", "running at the server"}
        broken = tmp_path / "broken.onnx"
        broken.write_bytes(b"no model")
        with pytest.raises(InvalidInput, match=r"broken\.onnx"):
            people.developer.submit_any(OnnxFile(broken), model="net")
        with pytest.raises(InvalidInput, match="seconds"):
            people.developer.submit_any(
                sent_in(tmp_path), model="net", conditions=Conditions(seconds=3)
            )
        with pytest.raises(InvalidInput, match="a function"):
            people.developer.submit_any(Function.of(lambda batch: [], "f"), model="net")


def test_interrupted_while_it_waits_it_costs_nothing(tmp_path: Path) -> None:
    with live(tmp_path / "idle", working=False) as site:
        for people in people_at(site, tmp_path, "x-", models=True):
            people.begin()

            def interrupt(what: str, done: float, total: float) -> None:
                if what == "waiting in the queue":
                    raise KeyboardInterrupt

            with pytest.raises(KeyboardInterrupt, match="it cost nothing"):
                people.developer.submit_any(
                    sent_in(tmp_path), model="net", conditions=Conditions(progress=interrupt)
                )
            listed = site.served.client("x-developer").get(
                f"/meters/{people.developer.id}/submissions"  # type: ignore[union-attr]
            )
            assert listed.json()["items"] == []


def test_a_server_that_is_away_for_a_while_is_waited_for(
    site: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, a client that waited for a model gave up after three seconds."""
    monkeypatch.setattr(running, "allotted", lambda estimate: 0.5)
    monkeypatch.setattr(submissions, "_LOOK", 0.01)
    prefix = f"{tmp_path.name}-"
    told: list[str] = []
    for people in people_at(site, tmp_path, prefix, models=True):
        people.begin()
        with (
            wire(site.port) as (line, address),
            site.meter(f"{prefix}developer", f"{prefix}meter", address) as developer,
        ):

            def begin(what: str, done: float, total: float) -> None:
                if told == ["sending"]:
                    away = line.connections + 3 * connection.RETRIES
                    line.cut = lambda number, up, down: number < away
                told.append(what)

            conditions = Conditions(progress=begin)
            signal = developer.submit_any(sent_in(tmp_path), model="net", conditions=conditions)
        assert (signal.step, signal.model) == (1, "net")
        assert "waiting until the server is back" in told


def test_a_server_that_stays_away_leaves_a_word_on_the_submission(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, it said "try again", and nothing of the model that waits and will be charged."""
    monkeypatch.setattr(submissions, "_AWAY", 0.0)
    with live(tmp_path / "idle", working=False) as site:
        for people in people_at(site, tmp_path, "x-", models=True):
            people.begin()
            with (
                wire(site.port) as (line, address),
                site.meter("x-developer", "x-meter", address) as developer,
            ):

                def begin(what: str, done: float, total: float) -> None:
                    if what == "waiting in the queue":
                        line.cut = lambda number, up, down: True

                with pytest.raises(Unreachable, match="goes on there: see its answer with meter h"):
                    developer.submit_any(
                        sent_in(tmp_path), model="net", conditions=Conditions(progress=begin)
                    )


@pytest.mark.parametrize("status", [502, 503, 504])
def test_a_proxy_before_a_server_that_is_away_is_waited_for(
    status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """nginx answers in its place; that was "not by a meter's server" after five seconds."""
    monkeypatch.setattr(submissions, "_LOOK", 0.0)
    monkeypatch.setattr(connection, "_pause", lambda _: 0.0)
    told: list[str] = []
    answers = [httpx.Response(status, html="<h1>Bad Gateway</h1>")] * (connection.RETRIES + 2)
    answers.append(httpx.Response(200, json={"state": "answered"}))
    opened = connection.Connection("http://127.0.0.1:9")
    monkeypatch.setattr(opened._client, "request", lambda *_, **__: answers.pop(0))
    found = submissions._settled(
        opened,
        "/meters/x/submissions/y",
        {"state": "queued"},
        {},
        lambda what, done, total: told.append(what),
        stop=False,
    )
    assert (found["state"], answers) == ("answered", [])
    assert "waiting until the server is back" in told
    opened.close()
