"""The audit over HTTP: each role sees its part."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.server.driving import begin, submit
from tests.server.helpers import Served
from tests.service.helpers import make_session, small_spec

from easeml_meter.core.model import AuditLink, Event
from easeml_meter.core.people import Role
from easeml_meter.service.actor import Actor
from easeml_meter.service.audit import _readable, verify


def test_the_audit_shows_each_role_its_part(served: Served, tmp_path: Path) -> None:
    meter = served.add_meter(small_spec(tenants=(2, 2)))
    labels = begin(served, meter, tmp_path)
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
    meter = served.add_meter()
    labels = begin(served, meter, tmp_path)
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
