"""A hand-over through the API: shown, confirmed, and only by those whom it concerns."""

from __future__ import annotations

from pathlib import Path

from tests.server.driving import begin
from tests.server.helpers import serve
from tests.service.helpers import condition_spec, small_spec

from easeml_meter.core.questions.planning import required_labels


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
            assert "teams are counted as sharing answers" in refused.json()["message"]
