"""Requests for labels: when they come, and why and until when they are to be met."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.service.helpers import Clock, deliver, make_session, small_spec

from easeml_meter.core.lifecycle import Phase
from easeml_meter.core.model import LabelRequest, TestSet
from easeml_meter.core.people import Role
from easeml_meter.errors import Denied, InvalidInput, MeterError, NotFound, WrongPhase
from easeml_meter.meter import Meter
from easeml_meter.service.actor import Actor
from easeml_meter.service.place import Workspace
from easeml_meter.service.testsets import requests

LABELER = Actor.embedded(Role.LABELER)


def test_a_planned_number_of_sessions_is_kept(tmp_path: Path) -> None:
    session = make_session(tmp_path, small_spec(steps=1, sessions=2))
    session.submit(0, 0, model="a")
    n = session.meter.plan.labels
    deliver(session.meter, tmp_path, np.random.default_rng(5).integers(0, 2, n), seed=5)
    session.test_labels = np.random.default_rng(5).integers(0, 2, n)
    session.submit(0, 0, model="b")
    assert [row.phase for row in session.meter.generations] == [Phase.SPENT, Phase.SPENT]
    with pytest.raises(MeterError, match="no further"):
        session.submit(0, 0, model="c")


def test_a_request_is_described(tmp_path: Path) -> None:
    meter = Meter.create(tmp_path / "meter", small_spec(), clock=Clock())
    space = Workspace.open(tmp_path / "meter")
    described = requests.describe_request(
        LABELER, space, 1, reason="the spring release", deadline="2026-03-31T18:00:00+02:00"
    )
    assert requests.list_requests(LABELER, space) == [described]
    assert described.test_set.reason == "the spring release"
    assert described.test_set.deadline == "2026-03-31T16:00:00.000000+00:00"
    assert described.test_set.labels_needed == meter.plan.labels
    taken_back = requests.describe_request(LABELER, space, 1, reason=None, deadline=None)
    assert (taken_back.test_set.reason, taken_back.test_set.deadline) == (None, None)
    assert meter.audit().problems == ()


@pytest.mark.parametrize(
    ("reason", "deadline"),
    [
        ("x" * 501, None),
        ("two\nlines", None),
        (None, "tomorrow"),
        (None, "2026-03-31T18:00"),
        (None, "2026-02-30T18:00+00:00"),
        (None, "0001-01-01T00:00:00+23:00"),
    ],
)
def test_odd_descriptions_are_refused(
    tmp_path: Path, reason: str | None, deadline: str | None
) -> None:
    Meter.create(tmp_path / "meter", small_spec(), clock=Clock())
    space = Workspace.open(tmp_path / "meter")
    with pytest.raises(InvalidInput):
        requests.describe_request(LABELER, space, 1, reason=reason, deadline=deadline)


def test_only_an_open_request_is_described_and_only_by_some(tmp_path: Path) -> None:
    make_session(tmp_path)
    space = Workspace.open(tmp_path / "meter")
    assert requests.list_requests(LABELER, space) == []
    with pytest.raises(WrongPhase, match="its labels have already arrived"):
        requests.describe_request(LABELER, space, 1, reason="late", deadline=None)
    with pytest.raises(NotFound):
        requests.describe_request(LABELER, space, 2, reason="early", deadline=None)
    for role in (Role.DEVELOPER, Role.RUNNER):
        with pytest.raises(Denied):
            requests.list_requests(Actor.embedded(role), space)


def test_what_is_told_of_a_test_set_is_read_again(tmp_path: Path) -> None:
    """The client rebuilds what the server shows; what only the server may know is not told."""
    session = make_session(tmp_path)
    for told in requests.list_test_sets(LABELER, Workspace.open(tmp_path / "meter")):
        assert not {"fingerprint", "blob", "manifest", "sha256"} & set(told.to_json())
        again = TestSet.from_json(told.meter, told.to_json())
        assert again.to_json() == told.to_json()
        assert (again.fingerprint, again.blob) == (None, None)
    for step in range(4):
        session.submit(step, 0, model=str(step))
    (request,) = requests.list_requests(LABELER, Workspace.open(tmp_path / "meter"))
    assert LabelRequest.from_json(request.test_set.meter, request.to_json()) == request
