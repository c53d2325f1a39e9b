"""Releases at a server: models run once more on a worker, never inside a request."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.service.helpers import deliver
from tests.service.sites import Room, make_room, make_site

from easeml_meter.core.lifecycle import Phase
from easeml_meter.core.model import ReleaseRequest
from easeml_meter.core.people import Role
from easeml_meter.core.views import SessionView
from easeml_meter.errors import Denied, FilesUnusable, NotFound, StorageError, WrongPhase
from easeml_meter.service.actor import SYSTEM, Actor
from easeml_meter.service.jobs import runner
from easeml_meter.service.submissions.queue import FAILED, MOST_ATTEMPTS, answering
from easeml_meter.service.testsets import release, releasing
from easeml_meter.service.testsets.releasing import (
    release_queued,
    request_release,
    requested_release,
)
from easeml_meter.storage.files import FolderFiles

LABELER = Actor.embedded(Role.LABELER)


def draw(view: SessionView) -> str:
    return f"{view.phase} {len(view.retrospective)}"


@pytest.fixture
def room(tmp_path: Path, database: str) -> Iterator[Room]:
    """A meter with a spent test set, to which predictions were submitted."""
    site = make_site(tmp_path / "site", database)
    made = make_room(site, tmp_path / "people")
    made.submit(1, model="predictions")
    yield made
    site.close()


@pytest.fixture
def with_model(room: Room, monkeypatch: pytest.MonkeyPatch) -> Room:
    """One of two submissions passes for a model; test_testsets.py of the API has a real one."""
    room.submit(2, model="model")
    with room.site.reading() as books:
        kept = books.entries.all(room.id, 1)[1].blob
    monkeypatch.setattr(releasing, "suffix_of", lambda blob: ".onnx" if blob == kept else ".arrow")
    room.meter.retire()
    return room


def ask(room: Room) -> ReleaseRequest | None:
    return request_release(LABELER, room.site.space(room.id), 1, draw=draw)


def asked(room: Room) -> ReleaseRequest:
    found = ask(room)
    assert found is not None
    return found


def standing(room: Room) -> ReleaseRequest | None:
    return requested_release(LABELER, room.site.space(room.id), 1)


def phase(room: Room) -> Phase:
    return room.meter.generations[0].phase


def releases(room: Room) -> int:
    return [link.event for link in room.meter.audit().links].count("released")


def test_without_models_a_test_set_is_released_at_once(room: Room) -> None:
    room.meter.retire()
    with pytest.raises(NotFound, match="test set 1 is spent: nobody has asked for its release"):
        standing(room)
    assert ask(room) is None
    assert (phase(room), standing(room)) == (Phase.RELEASED, None)


def test_models_run_once_more_on_a_worker(
    with_model: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    def measured(*_: object) -> None:
        raise AssertionError("measured inside the request")

    with monkeypatch.context() as patched:
        patched.setattr(release, "measure_again", measured)
        waiting = asked(with_model)
        assert asked(with_model) == waiting  # the same request, not one more
    assert (phase(with_model), standing(with_model)) == (Phase.SPENT, waiting)
    working = runner(with_model.site, answering(), releasing.releasing(draw), heartbeat=0.3)
    working.start()
    try:
        end = time.monotonic() + 60
        while standing(with_model) is not None:
            assert time.monotonic() < end
            time.sleep(0.02)
    finally:
        working.stop(60)
    space = with_model.site.space(with_model.id)
    assert phase(with_model) is Phase.RELEASED
    assert space.files.read("released/1/report.html") == b"released 2"
    truths = [
        each["truth"] for each in json.loads(space.files.read("released/1/retrospective.json"))
    ]
    assert [truth["test_loss"] is not None for truth in truths] == [True, True]
    with with_model.site.reading() as books:
        assert books.releases.waiting() == []
    release_queued(SYSTEM, with_model.site, waiting.id, draw)  # done twice, it does nothing
    assert releases(with_model) == 1


def test_a_worker_that_dies_after_the_release_leaves_nothing_to_do(
    with_model: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = asked(with_model)
    with monkeypatch.context() as patched:
        patched.setattr(releasing, "_end", raising(KeyboardInterrupt()))
        with pytest.raises(KeyboardInterrupt):
            release_queued(SYSTEM, with_model.site, waiting.id, draw)
    assert phase(with_model) is Phase.RELEASED
    release_queued(SYSTEM, with_model.site, waiting.id, draw)
    with with_model.site.reading() as books:
        assert books.releases.of(with_model.id, 1) is None
    assert releases(with_model) == 1


def raising(error: BaseException) -> Any:
    def fail(*_: object, **__: object) -> None:
        raise error

    return fail


def test_a_release_that_kills_its_workers_is_given_up(
    with_model: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = asked(with_model)
    with monkeypatch.context() as patched:
        patched.setattr(releasing, "hand_out", raising(KeyboardInterrupt()))
        for _ in range(MOST_ATTEMPTS):
            with pytest.raises(KeyboardInterrupt):
                release_queued(SYSTEM, with_model.site, waiting.id, draw)
            assert standing(with_model) is not None
    release_queued(SYSTEM, with_model.site, waiting.id, draw)
    found = standing(with_model)
    assert found is not None
    assert (found.problem, phase(with_model)) == (FAILED, Phase.SPENT)
    again = asked(with_model)
    assert (again.id != waiting.id, again.problem, again.attempts) == (True, None, 0)
    release_queued(SYSTEM, with_model.site, waiting.id, draw)  # the earlier one is gone
    assert phase(with_model) is Phase.SPENT
    release_queued(SYSTEM, with_model.site, again.id, draw)
    assert phase(with_model) is Phase.RELEASED


def test_a_release_waits_for_the_database(
    with_model: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = asked(with_model)
    monkeypatch.setattr(releasing, "hand_out", raising(StorageError("away")))
    with pytest.raises(StorageError):
        release_queued(SYSTEM, with_model.site, waiting.id, draw)
    found = standing(with_model)
    assert found is not None
    assert (found.problem, found.attempts) == (None, 1)


def test_a_release_waits_for_its_files(with_model: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    """An object store may be away for a second."""
    waiting = asked(with_model)
    with monkeypatch.context() as patched:
        away = raising(FilesUnusable("s3://bucket/meters: timed out"))
        patched.setattr(FolderFiles, "put", away)
        with pytest.raises(FilesUnusable):
            release_queued(SYSTEM, with_model.site, waiting.id, draw)
    found = standing(with_model)
    assert found is not None
    assert (found.problem, found.attempts) == (None, 1)
    release_queued(SYSTEM, with_model.site, waiting.id, draw)
    assert phase(with_model) is Phase.RELEASED


def test_what_became_wrong_while_it_waited_is_told_to_the_labelers(
    with_model: Room, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    waiting = asked(with_model)
    problem = WrongPhase("rows of test set 1 stand in test set 2, which is active")
    with monkeypatch.context() as patched:
        patched.setattr(release, "_refuse_active_rows", raising(problem))
        release_queued(SYSTEM, with_model.site, waiting.id, draw)
    found = standing(with_model)
    assert found is not None
    assert found.problem == {"error": "wrong-time", "message": str(problem)}
    with pytest.raises(Denied, match="developers may not release a test set"):
        requested_release(Actor.embedded(Role.DEVELOPER), with_model.site.space(with_model.id), 1)
    deliver(with_model.meter, tmp_path, with_model.session.test_labels, seed=77)
    assert asked(with_model).problem is None


def test_what_cannot_be_released_is_refused_in_the_request(room: Room) -> None:
    with pytest.raises(WrongPhase, match="test set 1 is active: only a spent one is released"):
        ask(room)
    with pytest.raises(Denied, match="developers may not release"):
        request_release(Actor.embedded(Role.DEVELOPER), room.site.space(room.id), 1, draw=draw)
