"""Hand-overs by a browser: shown, then recorded."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.server.driving import begin
from tests.server.helpers import Served
from tests.server.web.helpers import Visitor, words
from tests.service.helpers import small_spec


class TestHandover:
    @pytest.fixture
    def meter(self, served: Served, tmp_path: Path) -> str:
        meter = served.add_meter(small_spec(steps=6, tenants=(3, 3)))
        begin(served, meter, tmp_path)
        return meter

    def test_is_shown_before_it_is_recorded(self, served: Served, meter: str) -> None:
        visitor = Visitor(served, "developer")
        assert "Hand over a checkpoint" in words(visitor.get(f"/meters/{meter}"))
        path = f"/meters/{meter}/handover"
        for _ in range(2):
            shown = visitor.send(path, giver="1", receiver="2")
            assert "Teams 1 and 2 will share one history on test set 1" in words(shown)
        answer = visitor.send(path, giver="1", receiver="2", confirm="yes")
        assert answer.status_code == 303
        assert "share one history from now on" in words(visitor.get(f"/meters/{meter}"))
        again = visitor.send(path, giver="1", receiver="2")
        assert again.status_code == 422
        assert "already" in words(again)

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

    def test_is_refused_at_an_incremental_meter(self, served: Served, tmp_path: Path) -> None:
        spec = small_spec(steps=6, tenants=(3, 3), protocol="incremental")
        meter = served.add_meter(spec, prefix="incremental-")
        begin(served, meter, tmp_path, prefix="incremental-")
        visitor = Visitor(served, "incremental-developer")
        for more in ({}, {"confirm": "yes"}):
            answer = visitor.send(f"/meters/{meter}/handover", giver="1", receiver="2", **more)
            assert answer.status_code == 422
            assert "declare handover = true when planning" in words(answer)

    def test_is_not_offered_where_there_is_nobody_else(
        self, served: Served, tmp_path: Path
    ) -> None:
        meter = served.add_meter(prefix="one-")
        begin(served, meter, tmp_path, prefix="one-")
        assert "Hand over" not in Visitor(served, "one-developer").get(f"/meters/{meter}").text
