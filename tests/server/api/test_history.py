"""Sessions over HTTP: shown as data, and drawn."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.server.driving import begin, begun, submit
from tests.server.helpers import Served, serve
from tests.service.helpers import condition_spec, make_session, small_spec

from easeml_meter.core.model import AuditLink, Event
from easeml_meter.core.people import Role
from easeml_meter.core.questions.planning import required_labels
from easeml_meter.service.actor import Actor
from easeml_meter.service.audit import _readable, verify


def test_sessions_are_shown_and_drawn(served: Served, tmp_path: Path) -> None:
    meter, labels = begun(served, tmp_path)
    developer = served.client("developer")
    told = submit(developer, meter, labels, errors=8).json()["signal"]
    view = developer.get(f"/meters/{meter}/status").json()
    assert [signal["answer"] for signal in view["signals"]] == [told["answer"]]
    assert (view["steps_left"], view["retrospective"]) == (3, [])
    assert told["validation_loss"] == 0
    assert told["true_loss_at_most"] == told["true_gap"][1] < 1
    assert view["signals"][0]["true_loss_at_most"] == told["true_loss_at_most"]
    history = developer.get(f"/meters/{meter}/history").json()["items"]
    assert history == [view]
    for name, kind, start in (
        ("report.html", "text/html", "<!doctype html>"),
        ("report.svg", "image/svg+xml", "<svg"),
        ("badge.svg", "image/svg+xml", "<svg"),
    ):
        drawn = developer.get(f"/meters/{meter}/{name}")
        assert drawn.headers["content-type"].startswith(kind)
        assert drawn.text.lower().startswith(start)
        assert served.client("admin").get(f"/meters/{meter}/{name}").status_code == 403
    missing = developer.get(f"/meters/{meter}/status", params={"generation": 7})
    assert missing.status_code == 422


def test_shown_then_confirmed(tmp_path: Path) -> None:
    spec = small_spec(steps=6, tenants=(3, 3))
    size = required_labels(spec).labels + 10
    with serve(tmp_path) as served:
        meter = served.add_meter(spec)
        begin(served, meter, tmp_path, size=size)
        path = f"/meters/{meter}/handovers"
        asked = {"giver": 1, "receiver": 2}
        for user in ("developer", "developer2"):
            shown = served.client(user).post(path, json=asked)
            assert shown.status_code == 200, shown.text
            assert shown.json()["recorded"] is False
        before = served.client("developer").get(f"/meters/{meter}/status").json()["steps_left"]
        assert shown.json()["steps_left_before"] == [before, before] == [3, 3]
        asking = served.client("developer2").post(path, json=asked | {"confirm": True})
        agreed = {"agreed": [2], "waiting_for": [1], "standing": asking.json()["standing"]}
        assert asking.json() == shown.json() | agreed
        for user in ("developer", "developer2", "admin"):
            (waiting,) = served.client(user).get(path).json()["items"]
            assert waiting == asking.json()
        for user in ("developer", "developer2"):
            status = served.client(user).get(f"/meters/{meter}/status").json()
            assert (status["steps_left"], status["handovers"]) == (before, [waiting])
        done = served.client("developer").post(f"{path}/answer", json=asked | {"accept": True})
        assert (done.json()["recorded"], done.json()["agreed"]) == (True, [1, 2])
        for user in ("developer", "developer2"):
            status = served.client(user).get(f"/meters/{meter}/status").json()
            assert status["steps_left"] == done.json()["steps_left_after"]
            assert (status["sharing"], status["handovers"]) == ([1, 2], [])
        again = served.client("developer").post(path, json=asked)
        assert again.status_code == 422
        assert "already" in again.json()["message"]
        for user in ("labeler", "runner", "admin"):
            assert served.client(user).post(path, json=asked).status_code == 403


def test_a_misspelled_key_is_refused(tmp_path: Path) -> None:
    """Ignored, it would show a preview to somebody who believes that the hand-over is recorded."""
    with serve(tmp_path) as served:
        meter = served.add_meter(small_spec(steps=6, tenants=(3, 3)))
        begin(served, meter, tmp_path)
        path = f"/meters/{meter}/handovers"
        asked = {"giver": 1, "receiver": 2}
        developer = served.client("developer")
        assert developer.post(path, json=asked).status_code == 200
        for wrong in ({"confrim": True}, {"confirm": "true"}, {"giver": "1"}):
            assert developer.post(path, json=asked | wrong).status_code == 422


def test_refused_where_teams_share_every_answer(tmp_path: Path) -> None:
    with serve(tmp_path) as served:
        meter = served.add_meter(condition_spec(steps=6, tenants=(3, 3)))
        begin(served, meter, tmp_path)
        for confirm in (False, True):
            asked = {"giver": 1, "receiver": 2, "confirm": confirm}
            refused = served.client("developer").post(f"/meters/{meter}/handovers", json=asked)
            assert refused.status_code == 422
            assert "their levels use up delta" in refused.json()["message"]


def test_the_audit_shows_each_role_its_part(served: Served, tmp_path: Path) -> None:
    meter, labels = begun(served, tmp_path, small_spec(tenants=(2, 2)))
    assert submit(served.client("developer"), meter, labels, errors=5).is_success
    assert submit(served.client("developer2"), meter, labels, errors=9).is_success

    def told(user: str) -> list[dict[str, object]]:
        audit = served.client(user).get(f"/meters/{meter}/audit", params={"limit": 200}).json()
        assert (audit["sound"], audit["problems"]) == (True, [])
        shown = {link["digest"] is not None for link in audit["items"]}
        assert shown == {user == "labeler"}
        return [link["details"] for link in audit["items"] if link["event"] == "told"]

    one, two = told("labeler")
    assert (one["tenant"], two["tenant"]) == (1, 2)
    assert (one["answer"], two["answer"]) == ("2", "3")
    assert told("developer") == [one, {}]
    assert told("developer2") == [{}, two]
    assert told("admin") == [{}, {}]
    assert served.client("runner").get(f"/meters/{meter}/audit").status_code == 403


def test_a_tenant_alone_sees_the_whole_chain(served: Served, tmp_path: Path) -> None:
    meter, labels = begun(served, tmp_path)
    assert submit(served.client("developer"), meter, labels).is_success
    links = served.client("developer").get(f"/meters/{meter}/audit").json()["items"]
    assert all(link["digest"] for link in links)
    assert np.array([link["number"] for link in links]).tolist() == [*range(1, len(links) + 1)]


@pytest.mark.parametrize("event", [each for each in Event if "hand" in each])
def test_a_hand_over_is_read_by_the_teams_it_concerns(event: Event) -> None:
    """Also one that the journal brought back: others must not learn who works with whom."""
    link = AuditLink("m", 1, "now", event, {"giver": 1, "receiver": 2}, "0", "1")
    for team in (1, 2):
        assert _readable(Actor(((Role.DEVELOPER, team),)), [link]) == (link,)
    for other in (Actor(((Role.DEVELOPER, 3),)), Actor(((Role.ADMIN, 0),))):
        (shown,) = _readable(other, [link])
        assert (shown.details, shown.digest) == ({}, "")


def test_an_answer_that_is_given_during_an_audit_is_no_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = make_session(tmp_path)
    session.submit(1, 0, model="a")
    space = session.meter.workspace
    names = space.files.names

    def after_an_answer(folder: str) -> list[str]:
        monkeypatch.setattr(space.files, "names", names)
        session.submit(2, 0, model="b")
        return names(folder)

    monkeypatch.setattr(space.files, "names", after_an_answer)
    assert verify(Actor.embedded(), space).problems == ()
