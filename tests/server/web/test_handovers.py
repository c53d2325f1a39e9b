"""Hand-overs by a browser: shown, then recorded."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.server.driving import begin
from tests.server.helpers import Served
from tests.server.web.helpers import Visitor, words
from tests.service.helpers import condition_spec, small_spec

from easeml_meter.core.questions.planning import required_labels


class TestHandover:
    @pytest.fixture
    def meter(self, served: Served, tmp_path: Path) -> str:
        spec = small_spec(steps=6, tenants=(3, 3))
        meter = served.add_meter(spec)
        begin(served, meter, tmp_path, size=required_labels(spec).labels + 10)
        return meter

    def test_is_shown_before_it_is_recorded(self, served: Served, meter: str) -> None:
        visitor = Visitor(served, "developer")
        assert "Hand over a checkpoint" in words(visitor.get(f"/meters/{meter}/settings"))
        path = f"/meters/{meter}/handover"
        for _ in range(2):
            shown = visitor.send(path, giver="1", receiver="2")
            assert "Teams 1 and 2 will share one history on test set 1" in words(shown)
            left = re.findall(r'right number">([0-9]+)(?:, shared)?<', shown.text)
            assert left == ["3", "4", "3", "4"], "each team: now, and shared afterwards"
        answer = visitor.send(path, giver="1", receiver="2", confirm="yes")
        assert answer.status_code == 303
        assert "Team 2 has to agree" in words(visitor.get(f"/meters/{meter}"))
        assert "Withdraw" in words(visitor.get(f"/meters/{meter}"))
        other = Visitor(served, "developer2")
        for page in (f"/meters/{meter}", f"/meters/{meter}/changed"):
            said = words(other.get(page))
            assert "Hand-over from team 1 to team 2 Team 2 has to agree" in said
            assert "1 3 4, shared yes 2 (yours) 3 4, shared not yet" in said
            assert "Agree to share one history Decline" in said
        accepted = other.send(f"{path}/answer", giver="1", receiver="2", answer="accept")
        assert accepted.status_code == 303
        assert "share one history from now on" in words(other.get(f"/meters/{meter}"))
        assert "teams 1 and 2 share one history" in words(visitor.get(f"/meters/{meter}"))
        again = visitor.send(path, giver="1", receiver="2")
        assert again.status_code == 422
        assert "already" in words(again)

    def test_whoever_agrees_last_is_told_that_it_counts_at_once(
        self, served: Served, meter: str
    ) -> None:
        path = f"/meters/{meter}/handover"
        Visitor(served, "developer").send(path, giver="1", receiver="2", confirm="yes")
        last = Visitor(served, "developer2")
        for giver, receiver in (("1", "2"), ("2", "1")):
            shown = words(last.send(path, giver=giver, receiver=receiver))
            assert "It counts as soon as you agree" in shown
            assert "1 3 4, shared yes 2 (yours) 3 4, shared not yet" in shown
            assert "Agree to share one history Cancel" in shown
            assert "Request the hand-over" not in shown
        last.send(path, giver="1", receiver="2", confirm="yes")
        assert "share one history from now on" in words(last.get(f"/meters/{meter}"))

    def test_names_all_teams_that_have_to_agree(self, served: Served, tmp_path: Path) -> None:
        spec = small_spec(steps=6, tenants=(2, 2, 2))
        meter = served.add_meter(spec, prefix="three-")
        begin(served, meter, tmp_path, prefix="three-")
        path = f"/meters/{meter}/handover"
        for user in ("three-developer", "three-developer2"):
            Visitor(served, user).send(path, giver="1", receiver="2", confirm="yes")
        shown = words(Visitor(served, "three-developer3").send(path, giver="1", receiver="3"))
        assert "It counts once teams 1 and 2 have agreed;" in shown

    @pytest.mark.parametrize("answer", ["accept", "decline"])
    def test_is_answered_by_an_admin(self, served: Served, meter: str, answer: str) -> None:
        path, asked = f"/meters/{meter}/handover", {"giver": "1", "receiver": "2"}
        Visitor(served, "developer").send(path, **asked, confirm="yes")
        admin = Visitor(served, "admin")
        assert "Agree to share one history" in words(admin.get(f"/admin/meters/{meter}"))
        sent = admin.send(f"{path}/answer", **asked, answer=answer)
        assert sent.headers["location"] == f"/admin/meters/{meter}"
        links = served.client("labeler").get(f"/meters/{meter}/audit").json()["items"]
        recorded = "handed over" in [link["event"] for link in links]
        assert recorded is (answer == "accept")
        assert "Hand-over from team 1" not in words(admin.get(f"/admin/meters/{meter}"))

    def test_is_for_developers_of_either_tenant(self, served: Served, meter: str) -> None:
        path = f"/meters/{meter}/handover"
        codes = {
            user: Visitor(served, user).send(path, giver="1", receiver="2").status_code
            for user in ("developer", "developer2", "labeler", "runner", "admin", "stranger")
        }
        assert codes == {
            "developer": 200,
            "developer2": 200,
            "labeler": 403,
            "runner": 403,
            "admin": 403,
            "stranger": 404,
        }

    @pytest.mark.parametrize("receiver", ["", "x", "1", "3", "²", "99999999"])
    def test_to_nobody(self, served: Served, meter: str, receiver: str) -> None:
        visitor = Visitor(served, "developer")
        answer = visitor.send(f"/meters/{meter}/handover", giver="1", receiver=receiver)
        assert answer.status_code == 422

    def test_is_refused_where_teams_share_every_answer(
        self, served: Served, tmp_path: Path
    ) -> None:
        spec = condition_spec(steps=6, tenants=(3, 3))
        meter = served.add_meter(spec, prefix="shared-")
        begin(served, meter, tmp_path, prefix="shared-")
        visitor = Visitor(served, "shared-developer")
        for more in ({}, {"confirm": "yes"}):
            answer = visitor.send(f"/meters/{meter}/handover", giver="1", receiver="2", **more)
            assert answer.status_code == 422
            assert "teams are counted as sharing answers" in words(answer)

    def test_is_not_offered_where_there_is_nobody_else(
        self, served: Served, tmp_path: Path
    ) -> None:
        meter = served.add_meter(prefix="one-")
        begin(served, meter, tmp_path, prefix="one-")
        assert "Hand over" not in Visitor(served, "one-developer").get(f"/meters/{meter}").text
