from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import argon2
import pytest
from tests.server.helpers import Served, serve
from tests.service.helpers import actor_of, small_spec

from easeml_meter.core.people import Role
from easeml_meter.errors import MeterError
from easeml_meter.service import seats, tokens, users
from easeml_meter.service.actor import SYSTEM
from easeml_meter.service.users import FAILURES, LOCK, SHORTEST_PASSWORD
from easeml_meter.storage import schema

PASSWORD = "correct horse battery"  # noqa: S105
NO_ID = "0" * 32


SQLITE = pytest.mark.parametrize("database", ["sqlite"], indirect=True)
"""For what is refused before any database is asked."""


class SetClock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.moment = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.moment

    def pass_by(self, time: timedelta) -> None:
        self.moment += time


@pytest.fixture(autouse=True)
def cheap_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    cheap = functools.partial(argon2.PasswordHasher, time_cost=1, memory_cost=8, parallelism=1)
    monkeypatch.setattr(argon2, "PasswordHasher", cheap)


@pytest.fixture
def clock() -> SetClock:
    return SetClock()


@pytest.fixture
def served(tmp_path: Path, clock: SetClock, database: str) -> Iterator[Served]:
    with serve(tmp_path / "site", clock=clock, database=database, logins_per_minute=0) as each:
        yield each


def status(served: Served, token: str | None) -> tuple[int, str]:
    answer = served.client(token=token).get("/me")
    return answer.status_code, answer.json().get("message", "")


def log_in(served: Served, name: str, password: str) -> int:
    return served.client().post("/login", json={"name": name, "password": password}).status_code


class TestTokens:
    def test_without_one(self, served: Served) -> None:
        answer = served.client().get("/me")
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"] == "Bearer"
        assert answer.json() == {
            "error": "unknown-caller",
            "message": "no token was given: send one as Authorization: Bearer",
        }

    @SQLITE
    @pytest.mark.parametrize("header", ["emt_abc", "Basic YTpi", "Bearer", "Bearer ", "bearer x y"])
    def test_malformed(self, served: Served, header: str) -> None:
        answer = served.client().get("/me", headers={"Authorization": header})
        assert answer.status_code == 401

    def test_wrong(self, served: Served) -> None:
        right = served.tokens["admin"]
        assert status(served, right[:-1])[0] == 401
        assert status(served, right + "x") == (401, "the token is not known: log in again")
        assert status(served, right)[0] == 200

    def test_expired(self, served: Served, clock: SetClock) -> None:
        secret = tokens.make_token(actor_of(served.users["stranger"].id), served.site, "t", days=1)[
            1
        ]
        clock.pass_by(timedelta(days=1, microseconds=-1))
        assert status(served, secret)[0] == 200
        clock.pass_by(timedelta(microseconds=1))
        assert status(served, secret) == (401, "the token has expired: log in again")

    def test_revoked_acts_at_once(self, served: Served) -> None:
        client = served.client("stranger")
        made = client.post("/tokens", json={"name": "ci"}).json()
        assert status(served, made["token"])[0] == 200
        assert client.delete(f"/tokens/{made['id']}").status_code == 204
        assert status(served, made["token"]) == (401, "the token was revoked: log in again")
        listed = {token["name"]: token for token in client.get("/tokens").json()["items"]}
        assert listed["ci"]["revoked_at"] is not None
        assert listed["test"]["revoked_at"] is None
        assert "token" not in listed["ci"]

    def test_of_a_disabled_account(self, served: Served) -> None:
        stranger = served.users["stranger"].id
        admin = served.client("admin")
        admin.patch(f"/users/{stranger}", json={"disabled": True})
        assert status(served, served.tokens["stranger"])[0] == 401
        admin.patch(f"/users/{stranger}", json={"disabled": False})
        # Enabling the account again does not bring its tokens back.
        assert status(served, served.tokens["stranger"])[0] == 401

    def test_logout_revokes_this_token_only(self, served: Served) -> None:
        other = tokens.make_token(actor_of(served.users["stranger"].id), served.site, "other")[1]
        assert served.client("stranger").post("/logout").status_code == 204
        assert status(served, served.tokens["stranger"])[0] == 401
        assert status(served, other)[0] == 200

    def test_of_others_are_out_of_reach(self, served: Served) -> None:
        made = served.client("admin").post("/tokens", json={"name": "mine"}).json()
        answer = served.client("stranger").delete(f"/tokens/{made['id']}")
        missing = served.client("stranger").delete(f"/tokens/{NO_ID}")
        assert (answer.status_code, missing.status_code) == (404, 404)
        assert status(served, made["token"])[0] == 200

    def test_secret_is_not_stored(self, served: Served) -> None:
        headers = {"Idempotency-Key": "k"}
        made = served.client("admin").post("/tokens", json={"name": "x"}, headers=headers).json()
        again = served.client("admin").post("/tokens", json={"name": "x"}, headers=headers).json()
        assert again == made
        with served.site.reading() as books:
            stored = [row for table in schema.metadata.sorted_tables for row in books.select(table)]
        assert made["id"] in str(stored)
        assert made["token"] not in str(stored)

    @SQLITE
    @pytest.mark.parametrize("days", [0, -1, 3661, "1"])
    def test_days(self, served: Served, days: object) -> None:
        answer = served.client("admin").post("/tokens", json={"name": "x", "days": days})
        assert answer.status_code == 422


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


class TestScopes:
    def test_limit_roles_and_meters(self, served: Served) -> None:
        first, second = served.add_meter(), served.add_meter(prefix="other-")
        developer = served.users["developer"].id
        seats.add_seat(SYSTEM, served.site.space(second), developer, Role.DEVELOPER, 1)
        client = served.client("developer")

        def seen(*scopes: str) -> set[tuple[str, str]]:
            made = client.post("/tokens", json={"name": "x", "scopes": list(scopes)}).json()
            me = served.client(token=made["token"]).get("/me").json()
            return {(seat["meter"], seat["role"]) for seat in me["seats"]}

        assert seen() == {(first, "developer"), (second, "developer")}
        assert seen("developer") == {(first, "developer"), (second, "developer")}
        assert seen(f"developer:{second}") == {(second, "developer")}
        assert seen("labeler") == set()

    def test_limit_admins(self, served: Served) -> None:
        admin = served.client("admin")
        codes = {}
        for scope in ("admin", "developer"):
            made = admin.post("/tokens", json={"name": "x", "scopes": [scope]}).json()
            codes[scope] = served.client(token=made["token"]).get("/users").status_code
        assert codes == {"admin": 200, "developer": 403}

    def test_do_not_lead_to_an_unlimited_token(self, served: Served) -> None:
        served.add_user("dev", password=PASSWORD)
        made = served.client("dev").post("/tokens", json={"name": "x", "scopes": ["developer"]})
        limited = served.client(token=made.json()["token"])
        assert limited.post("/tokens", json={"name": "y"}).status_code == 403
        change = {"password": "another password", "current_password": PASSWORD}
        answer = limited.patch(f"/users/{served.users['dev'].id}", json=change)
        assert answer.status_code == 403

    @SQLITE
    @pytest.mark.parametrize(
        "scope", ["", "king", "owner", "developer:", "developer:x", f"x:{NO_ID}", f"admin:{NO_ID}"]
    )
    def test_unknown(self, served: Served, scope: str) -> None:
        answer = served.client("admin").post("/tokens", json={"name": "x", "scopes": [scope]})
        assert answer.status_code == 422


class TestLogin:
    def test_gives_a_token_that_expires(self, served: Served, clock: SetClock) -> None:
        served.add_user("anna", password=PASSWORD)
        given = served.client().post("/login", json={"name": "anna", "password": PASSWORD}).json()
        assert status(served, given["token"])[0] == 200
        assert given["expires_at"] == "2026-01-08T00:00:00.000000+00:00"
        clock.pass_by(timedelta(days=7))
        assert status(served, given["token"])[0] == 401

    def test_says_the_same_of_wrong_names_and_passwords(self, served: Served) -> None:
        served.add_user("anna", password=PASSWORD)
        served.add_user("gone", password=PASSWORD)
        users.change_user(SYSTEM, served.site, served.users["gone"].id, disabled=True)
        tries = [("anna", "wrong"), ("nobody", PASSWORD), ("stranger", ""), ("gone", PASSWORD)]
        client = served.client()
        answers = [
            client.post("/login", json={"name": name, "password": word}) for name, word in tries
        ]
        assert {answer.status_code for answer in answers} == {401}
        assert len({answer.content for answer in answers}) == 1

    def test_locks_out(self, served: Served, clock: SetClock) -> None:
        served.add_user("anna", password=PASSWORD)
        for _ in range(FAILURES):
            assert log_in(served, "anna", "wrong") == 401
        assert log_in(served, "anna", PASSWORD) == 401
        clock.pass_by(LOCK - timedelta(seconds=1))
        assert log_in(served, "anna", PASSWORD) == 401
        clock.pass_by(timedelta(seconds=1))
        # One more wrong one locks for twice as long.
        assert log_in(served, "anna", "wrong") == 401
        clock.pass_by(LOCK)
        assert log_in(served, "anna", PASSWORD) == 401
        clock.pass_by(LOCK)
        assert log_in(served, "anna", PASSWORD) == 200
        # And the count begins anew.
        for _ in range(FAILURES - 1):
            assert log_in(served, "anna", "wrong") == 401
        assert log_in(served, "anna", PASSWORD) == 200

    def test_locks_for_an_hour_at_most(self, served: Served, clock: SetClock) -> None:
        served.add_user("anna", password=PASSWORD)
        for _ in range(FAILURES + 12):
            log_in(served, "anna", "wrong")
            clock.pass_by(timedelta(hours=1))
        assert log_in(served, "anna", PASSWORD) == 200

    def test_a_locked_account_keeps_its_tokens(self, served: Served) -> None:
        served.add_user("anna", password=PASSWORD)
        for _ in range(FAILURES):
            log_in(served, "anna", "wrong")
        assert status(served, served.tokens["anna"])[0] == 200

    def test_failures_are_counted(self, served: Served) -> None:
        log_in(served, "nobody", "wrong")
        text = served.client("admin").get("http://server/metrics").text
        assert "\nmeter_failed_logins_total 1\n" in text


class TestPasswords:
    def test_of_ones_own(self, served: Served) -> None:
        anna = served.add_user("anna", password=PASSWORD).id
        client = served.client("anna")
        new = "a new one, longer"
        wrong = {"password": new, "current_password": "guess"}
        assert client.patch(f"/users/{anna}", json=wrong).status_code == 401
        assert client.patch(f"/users/{anna}", json={"password": new}).status_code == 401
        right = {"password": new, "current_password": PASSWORD}
        assert client.patch(f"/users/{anna}", json=right).status_code == 200
        assert (log_in(served, "anna", PASSWORD), log_in(served, "anna", new)) == (401, 200)
        # Whoever knew the old one may have made tokens.
        assert client.get("/me").status_code == 401

    def test_guessing_the_current_one_locks(self, served: Served) -> None:
        anna = served.add_user("anna", password=PASSWORD).id
        guess = {"password": "a new one, longer", "current_password": "guess"}
        for _ in range(FAILURES):
            served.client("anna").patch(f"/users/{anna}", json=guess)
        assert log_in(served, "anna", PASSWORD) == 401

    def test_admin_sets_one_and_ends_a_lock(self, served: Served) -> None:
        anna = served.add_user("anna", password=PASSWORD).id
        for _ in range(FAILURES):
            log_in(served, "anna", "wrong")
        served.client("admin").patch(f"/users/{anna}", json={"password": "set by an admin"})
        assert log_in(served, "anna", "set by an admin") == 200

    @SQLITE
    @pytest.mark.parametrize("length", [0, SHORTEST_PASSWORD - 1, 1001])
    def test_length(self, served: Served, length: int) -> None:
        body = {"name": "anna", "password": "x" * length}
        answer = served.client("admin").post("/users", json=body)
        assert answer.status_code == 422
        assert "xxx" not in answer.text
        assert [user.name for user in users.list_users(SYSTEM, served.site)] == [
            "admin",
            "stranger",
        ]

    def test_unknown_names_take_as_long(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.undo()
        parameters = users.hash_password(PASSWORD).rpartition("$")[0].rpartition("$")[0]
        assert parameters == "$argon2id$v=19$m=65536,t=3,p=4"
        assert users._NOBODYS.startswith(f"{parameters}$")
        assert not users.verify_password(None, PASSWORD)

    def test_none_means_tokens_only(self, served: Served) -> None:
        assert log_in(served, "stranger", "") == 401
        anna = served.add_user("anna", password=PASSWORD).id
        served.client("admin").patch(f"/users/{anna}", json={"password": None})
        assert log_in(served, "anna", PASSWORD) == 401


class TestUsers:
    def test_life(self, served: Served) -> None:
        admin = served.client("admin")
        body = {"name": "anna", "email": "anna@example.org"}
        made = admin.post("/users", json=body)
        assert made.status_code == 201
        anna = made.json()
        assert (anna["name"], anna["email"], anna["admin"]) == ("anna", "anna@example.org", False)
        assert admin.get(f"/users/{anna['id']}").json() == anna
        changed = admin.patch(f"/users/{anna['id']}", json={"email": None, "admin": True}).json()
        assert changed == anna | {"email": None, "admin": True}
        names = [user["name"] for user in admin.get("/users").json()["items"]]
        assert names == ["admin", "anna", "stranger"]

    def test_pages(self, served: Served) -> None:
        for number in range(5):
            served.add_user(f"user {number}")
        client = served.client("admin")
        seen, after = [], ""
        for _ in range(4):
            page = client.get("/users", params={"limit": 2, "after": after}).json()
            seen.append([user["name"] for user in page["items"]])
            after = page["next"]
        assert after is None
        assert seen == [
            ["admin", "stranger"],
            ["user 0", "user 1"],
            ["user 2", "user 3"],
            ["user 4"],
        ]
        for limit in ("0", "201", "x"):
            assert client.get("/users", params={"limit": limit}).status_code == 422

    def test_names_are_unique(self, served: Served) -> None:
        answer = served.client("admin").post("/users", json={"name": "stranger"})
        assert answer.status_code == 409
        assert "another user has it" in answer.json()["message"]

    def test_only_admins_manage(self, served: Served) -> None:
        stranger = served.client("stranger")
        own, other = served.users["stranger"].id, served.users["admin"].id
        assert stranger.get("/users").status_code == 403
        assert stranger.post("/users", json={"name": "x"}).status_code == 403
        assert stranger.get(f"/users/{own}").status_code == 200
        # Whether there is such a user is not said.
        assert stranger.get(f"/users/{other}").status_code == 403
        assert stranger.get(f"/users/{NO_ID}").status_code == 403
        assert stranger.patch(f"/users/{other}", json={"email": None}).status_code == 403
        assert stranger.patch(f"/users/{own}", json={"admin": True}).status_code == 403
        assert stranger.patch(f"/users/{own}", json={"disabled": False}).status_code == 403
        assert stranger.patch(f"/users/{own}", json={"email": "a@b.c"}).status_code == 200

    def test_the_last_admin_stays(self, served: Served) -> None:
        admin = served.client("admin")
        own = served.users["admin"].id
        for change in ({"admin": False}, {"disabled": True}):
            answer = admin.patch(f"/users/{own}", json=change)
            assert answer.status_code == 409
            assert "last admin" in answer.json()["message"]
        assert admin.get("/users").status_code == 200
        served.add_user("second", admin=True)
        assert admin.patch(f"/users/{own}", json={"admin": False}).status_code == 200
        assert admin.get("/users").status_code == 403

    @SQLITE
    @pytest.mark.parametrize(
        "body",
        [
            {},
            {"name": ""},
            {"name": "a\nb"},
            {"name": "a\0b"},
            {"name": "x" * 201},
            {"name": 1},
            {"name": "x", "admin": "true"},
            {"name": "x", "email": "no address"},
            {"name": "x", "email": "a@b.c\r\nBcc: d@e.f"},
            {"name": "x", "colour": 1},
            {"name": " "},
            {"name": "a\u202eb"},
            [],
        ],
    )
    def test_what_is_malformed_is_refused(self, served: Served, body: Any) -> None:
        answer = served.client("admin").post("/users", json=body)
        assert answer.status_code == 422
        assert answer.json()["error"] == "invalid"

    @SQLITE
    @pytest.mark.parametrize(
        "body", [b"", b"{", b"\xff", b'{"name": "\\ud800"}', b'{"\\ud800": 1}', b"[" * 100_000]
    )
    def test_bytes_that_are_no_json_are_refused(self, served: Served, body: bytes) -> None:
        headers = {"Content-Type": "application/json"}
        answer = served.client("admin").post("/users", content=body, headers=headers)
        assert answer.status_code == 422
        assert answer.json()["error"] == "invalid"


class TestMembers:
    def test_life(self, served: Served) -> None:
        meter = served.add_meter(small_spec(tenants=(2, 2)))
        admin, stranger = served.client("admin"), served.users["stranger"].id
        path = f"/meters/{meter}/members"
        seat = {"user": stranger, "role": "developer", "tenant": 2}
        assert admin.post(path, json=seat).status_code == 201
        assert admin.post(path, json=seat).status_code == 201  # once is enough
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
