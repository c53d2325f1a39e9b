"""Seats at a meter."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from tests.server.driving import begin
from tests.server.helpers import NO_ID, Served
from tests.service.helpers import small_spec

from easeml_meter.core.people import Role
from easeml_meter.errors import MeterError
from easeml_meter.service import seats
from easeml_meter.service.actor import SYSTEM


@pytest.fixture
def served(served_on_each_database: Served) -> Served:
    return served_on_each_database


def test_an_account_has_one_role_at_a_meter(served: Served) -> None:
    """As docs/security.md and docs/roles/admin.md say: a second role is refused, by any road."""
    meter = served.add_meter()
    people = {role: served.users[str(role)].id for role in (Role.DEVELOPER, Role.LABELER)}
    for holds, user in people.items():
        for role in {Role.DEVELOPER, Role.LABELER, Role.RUNNER} - {holds}:
            asked = {"user": user, "role": str(role)}
            refused = served.client("admin").post(f"/meters/{meter}/members", json=asked)
            assert refused.status_code in (409, 422), refused.text
            assert "one role each" in refused.json()["message"]
            with pytest.raises(MeterError, match="one role each"):
                seats.add_seat(SYSTEM, served.site.space(meter), user, role)


class TestMembers:
    def test_life(self, served: Served) -> None:
        meter = served.add_meter(small_spec(tenants=(2, 2)))
        admin, stranger = served.client("admin"), served.users["stranger"].id
        path = f"/meters/{meter}/members"
        seat = {"user": stranger, "role": "developer", "tenant": 2}
        given = admin.post(path, json=seat)
        again = admin.post(path, json=seat)  # done already
        assert (given.status_code, again.json()) == (201, given.json())
        found = served.client("stranger").get("/me").json()["seats"]
        assert [(each["meter"], each["role"], each["tenant"]) for each in found] == [
            (meter, "developer", 2)
        ]
        listed = admin.get(path).json()["items"]
        assert [each["role"] for each in listed if each["user"] == stranger] == ["developer"]
        assert admin.delete(f"{path}/{stranger}/developer/2").status_code == 204
        assert admin.delete(f"{path}/{stranger}/developer/2").status_code == 404
        assert served.client("stranger").get("/me").json()["seats"] == []

    @pytest.mark.parametrize(
        ("seat", "code"),
        [
            ({"role": "admin"}, 422),
            ({"role": "owner"}, 422),
            ({"role": "developer", "tenant": -1}, 422),
            ({"role": "developer", "tenant": 3}, 409),
        ],
    )
    def test_impossible_seats(self, served: Served, seat: dict[str, Any], code: int) -> None:
        meter = served.add_meter(small_spec(tenants=(2, 2)))
        body = {"user": served.users["stranger"].id} | seat
        answer = served.client("admin").post(f"/meters/{meter}/members", json=body)
        assert answer.status_code == code

    @pytest.mark.parametrize(
        ("holds", "wants"), list(itertools.permutations(["developer", "labeler", "runner"], 2))
    )
    def test_nobody_has_two_roles(self, served: Served, holds: str, wants: str) -> None:
        meter = served.add_meter()
        body = {"user": served.users[holds].id, "role": wants}
        answer = served.client("admin").post(f"/meters/{meter}/members", json=body)
        assert answer.status_code == 409

    def test_nobody_develops_for_two_isolated_teams(self, served: Served) -> None:
        """Both teams' answers would be in one hand, and no hand-over be recorded."""
        meter = served.add_meter(small_spec(tenants=(2, 2)))
        body = {"user": served.users["stranger"].id, "role": "developer"}
        path = f"/meters/{meter}/members"
        assert served.client("admin").post(path, json=body | {"tenant": 1}).status_code == 201
        answer = served.client("admin").post(path, json=body | {"tenant": 2})
        assert (answer.status_code, "one team each" in answer.text) == (409, True)

    def test_whoever_labeled_a_test_set_develops_only_after_its_release(
        self, served: Served, tmp_path: Path
    ) -> None:
        meter = served.add_meter()
        begin(served, meter, tmp_path)
        admin, labeler = served.client("admin"), served.users["labeler"].id
        path = f"/meters/{meter}/members"
        assert admin.delete(f"{path}/{labeler}/labeler/0").status_code == 204
        body = {"user": labeler, "role": "developer"}
        answer = admin.post(path, json=body)
        assert (answer.status_code, "not released" in answer.text) == (409, True)

    def test_what_is_not_there(self, served: Served) -> None:
        meter = served.add_meter()
        admin = served.client("admin")
        stranger = {"user": served.users["stranger"].id, "role": "labeler"}
        nobody = {"user": NO_ID, "role": "labeler"}
        assert admin.get(f"/meters/{NO_ID}/members").status_code == 404
        assert admin.post(f"/meters/{NO_ID}/members", json=stranger).status_code == 404
        assert admin.post(f"/meters/{meter}/members", json=nobody).status_code == 404

    def test_only_admins_manage(self, served: Served) -> None:
        meter = served.add_meter()
        body = {"user": served.users["stranger"].id, "role": "developer"}
        for name, expected in (("developer", 403), ("labeler", 403), ("stranger", 404)):
            client = served.client(name)
            assert client.get(f"/meters/{meter}/members").status_code == expected
            assert client.post(f"/meters/{meter}/members", json=body).status_code == expected


def test_seats_are_given_and_taken(served: Served) -> None:
    meter = served.add_meter()
    admin, stranger = served.client("admin"), served.client("stranger")
    user = served.users["stranger"].id
    seat = {"user": user, "role": "developer", "tenant": 1}
    given = admin.post(f"/meters/{meter}/members", json=seat)
    assert given.status_code == 201, given.text
    assert stranger.get(f"/meters/{meter}").status_code == 200
    assert stranger.get("/meters").json()["items"][0]["roles"] == ["developer"]
    listed = admin.get(f"/meters/{meter}/members").json()["items"]
    assert {(each["user"], each["role"]) for each in listed} >= {(user, "developer")}
    path = f"/meters/{meter}/members/{user}/developer/1"
    assert admin.delete(path).status_code == 204
    assert admin.delete(path).status_code == 404
    assert stranger.get(f"/meters/{meter}").status_code == 404
