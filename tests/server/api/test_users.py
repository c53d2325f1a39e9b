"""Accounts, and their passwords."""

from __future__ import annotations

import itertools
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.server.helpers import NO_ID, PASSWORD, SQLITE, Served, log_in, serve, status
from tests.service.helpers import StoppedClock, actor_of, small_spec
from tests.storage.examples import stored

from easeml_meter.core.people import Role
from easeml_meter.errors import MeterError
from easeml_meter.service import guesses, seats, tokens, users
from easeml_meter.service.actor import SYSTEM
from easeml_meter.service.guesses import FAILURES, LOCK
from easeml_meter.service.users import SHORTEST_PASSWORD
from easeml_meter.storage import schema
from easeml_meter.storage.store import Store


@pytest.fixture
def served(served_on_each_database: Served) -> Served:
    return served_on_each_database


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

    def test_guessing_the_current_one_counts_as_a_login(self, tmp_path: Path) -> None:
        """It was limited as any other request is, and each takes as long as a login."""
        with serve(tmp_path / "other", logins_per_minute=2) as served:
            anna = served.add_user("anna", password=PASSWORD).id
            guess = {"password": "a new one, longer", "current_password": "guess"}
            codes = [
                served.client("anna").patch(f"/users/{anna}", json=guess).status_code
                for _ in range(3)
            ]
            assert codes == [401, 401, 429]
            text = served.client("admin").get("http://server/metrics").text
            assert "\nmeter_failed_logins_total 2.0\n" in text

    def test_whoever_waits_for_a_hash_holds_up_nobody(
        self, served: Served, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Fifty of them held all threads, and others waited for seconds."""
        hashing = threading.Event()
        anna = served.add_user("anna", password=PASSWORD).id
        monkeypatch.setattr(users, "verify_password", lambda *_: hashing.wait(60))
        guess = {"password": "a new one, longer", "current_password": "guess"}
        with ThreadPoolExecutor(50) as pool:
            waiting = [
                pool.submit(served.client("anna").patch, f"/users/{anna}", json=guess)
                for _ in range(50)
            ]
            assert served.client("admin").get("/users").status_code == 200
            assert not any(each.done() for each in waiting)
            hashing.set()

    def test_admin_sets_one_and_ends_a_lock(self, served: Served) -> None:
        anna = served.add_user("anna", password=PASSWORD).id
        for _ in range(FAILURES):
            log_in(served, "anna", "wrong")
        served.client("admin").patch(f"/users/{anna}", json={"password": "set by an admin"})
        assert log_in(served, "anna", "set by an admin") == 200

    def test_set_by_an_admin_shows_in_the_chain_of_every_meter(self, served: Served) -> None:
        """Whoever sets a password can sign in as that person, and see what they see."""
        meter = served.add_meter()
        path = f"/users/{served.users['runner'].id}"
        admin = served.client("admin")
        for change in ({"password": "set by an admin"}, {"disabled": True}, {"disabled": False}):
            assert admin.patch(path, json=change).status_code == 200
        own = {"password": "a new one, longer", "current_password": "set by an admin"}
        signed_in = {"name": "runner", "password": "set by an admin"}
        token = served.client().post("/login", json=signed_in).json()["token"]
        assert served.client(token=token).patch(path, json=own).status_code == 200
        with served.site.reading() as books:
            told = [link.event for link in books.audit.all(meter)]
        assert told[-3:] == ["password set by an admin", "account disabled", "account enabled"]

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

    @pytest.mark.usefixtures("costly_hashes")
    def test_unknown_names_take_as_long(self) -> None:
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
        admin = served.client("admin")
        for other in ({"email": "s@example.org"}, {"admin": True}, {"password": "correct horse"}):
            answer = admin.post("/users", json={"name": "stranger"} | other)
            assert answer.status_code == 409
            assert "another user has it" in answer.json()["message"]

    def test_the_same_account_once_more_is_that_account(self, served: Served) -> None:
        admin, asked = served.client("admin"), {"name": "carla", "email": "c@example.org"}
        made = admin.post("/users", json=asked)
        assert admin.post("/users", json=asked).json() == made.json()
        # Not once its owner can sign in: who asks for it then may mean somebody else.
        secret = {"password": "correct horse battery"}
        assert admin.patch(f"/users/{made.json()['id']}", json=secret).status_code == 200
        assert admin.post("/users", json=asked).status_code == 409

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


@SQLITE
@pytest.mark.parametrize("name", ["ADMIN", "\uff41dmin", "admin ", "\u0430dmin"])
def test_a_name_that_looks_like_another_is_refused(served: Served, name: str) -> None:
    answer = served.client("admin").post("/users", json={"name": name})
    assert answer.status_code in (409, 422)


def test_an_admin_invites(served: Served) -> None:
    anna = served.add_user("anna").id
    admin = served.client("admin")
    made = [admin.post(f"/users/{anna}/invitations") for _ in range(2)]
    assert [answer.status_code for answer in made] == [201, 201]
    secret = made[1].json()["path"].removeprefix("/join#")
    bearer = {"Authorization": f"Bearer {secret}"}
    assert admin.get("/me", headers=bearer).status_code == 401
    assert served.client("anna").post(f"/users/{anna}/invitations").status_code == 403
    assert admin.post(f"/users/{NO_ID}/invitations").status_code == 404


def test_an_admin_disconnects_an_account_from_the_provider(served: Served) -> None:
    known_as = ("https://login.example.org", "1")
    anna = users.add_user(SYSTEM, served.site, "anna", known_as=known_as).id
    admin = served.client("admin")
    assert [admin.delete("/users/anna/identity").status_code for _ in range(2)] == [204, 409]
    assert admin.delete(f"/users/{NO_ID}/identity").status_code == 404
    with served.site.reading() as books:
        assert books.users.identity(anna).subject is None


def test_pages_of_users_leave_nobody_out(served: Served) -> None:
    """PostgreSQL sorts names by its own alphabet, and pages went on by another one."""
    for name in ("Zoe", "bob", "Carl", "dora", "Eva"):
        served.add_user(name)
    client, found, after = served.client("admin"), list[str](), ""
    while after is not None:
        page = client.get("/users", params={"limit": 2, "after": after}).json()
        found += [each["name"] for each in page["items"]]
        after = page["next"]
    assert found == sorted(["admin", "stranger", "Zoe", "bob", "Carl", "dora", "Eva"])


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


class TestTokens:
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

    def test_revoked_by_another_server_acts_at_once(self, served: Served) -> None:
        """Every request asks the database, and remembers nobody."""
        made = served.client("stranger").post("/tokens", json={"name": "ci"}).json()
        assert status(served, made["token"])[0] == 200
        other = Store.open(served.site.store.address)
        with other.writing() as books:
            books.tokens.revoke(served.site.now(), user=served.users["stranger"].id)
        other.close()
        assert status(served, made["token"]) == (401, "the token was revoked: log in again")

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
        made = served.client("admin").post("/tokens", json={"name": "x"}).json()
        again = served.client("admin").post("/tokens", json={"name": "x"}).json()
        assert again["id"] != made["id"]  # nobody has seen its secret: it is listed, and revoked
        with served.site.reading() as books:
            kept = [stored(books, table) for table in schema.metadata.sorted_tables]
        assert made["id"] in str(kept)
        assert made["token"] not in str(kept)

    @SQLITE
    @pytest.mark.parametrize("days", [0, -1, 3661, "1"])
    def test_days(self, served: Served, days: object) -> None:
        answer = served.client("admin").post("/tokens", json={"name": "x", "days": days})
        assert answer.status_code == 422

    def test_pace(self, served: Served) -> None:
        served.add_user("dev", password=PASSWORD)
        dev = served.client("dev")
        made = dev.post("/tokens", json={"name": "agent", "pace": 5}).json()
        assert made["pace"] == 5
        listed = {token["name"]: token["pace"] for token in dev.get("/tokens").json()["items"]}
        assert listed == {"agent": 5, "test": None}
        limited = served.client(token=made["token"])
        assert limited.get("/me").json()["token"]["pace"] == 5
        assert limited.post("/tokens", json={"name": "y"}).status_code == 403

    @SQLITE
    @pytest.mark.parametrize("pace", [0, -1, 1_000_001, 1.5, "5", True])
    def test_pace_that_is_none(self, served: Served, pace: object) -> None:
        answer = served.client("admin").post("/tokens", json={"name": "x", "pace": pace})
        assert answer.status_code == 422


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

    def test_neither_list_nor_revoke_the_other_tokens_of_their_owner(self, served: Served) -> None:
        served.add_user("dev")
        dev = served.client("dev")
        made = dev.post("/tokens", json={"name": "x", "scopes": ["developer"]}).json()
        other = dev.post("/tokens", json={"name": "y"}).json()
        limited = served.client(token=made["token"])
        assert limited.get("/tokens").status_code == 403
        assert limited.delete(f"/tokens/{other['id']}").status_code == 403
        assert served.client(token=other["token"]).get("/me").status_code == 200
        assert limited.post("/logout").status_code == 204
        assert limited.get("/me").status_code == 401
        assert dev.get("/me").status_code == 200

    @SQLITE
    @pytest.mark.parametrize(
        "scope", ["", "king", "owner", "developer:", "developer:x", f"x:{NO_ID}", f"admin:{NO_ID}"]
    )
    def test_unknown(self, served: Served, scope: str) -> None:
        answer = served.client("admin").post("/tokens", json={"name": "x", "scopes": [scope]})
        assert answer.status_code == 422


class TestLogin:
    def test_gives_a_token_that_expires(self, served: Served, clock: StoppedClock) -> None:
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
        assert len({(body := answer.json())["error"] + body["message"] for answer in answers}) == 1
        assert len({len(answer.content) for answer in answers}) == 1

    def test_locks_out(self, served: Served, clock: StoppedClock) -> None:
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

    def test_a_stranger_locks_out_nobody_else(self, served: Served) -> None:
        """Five wrong passwords from anywhere kept the right one out."""
        served.add_user("anna", password=PASSWORD)
        stranger = served.client_from("198.51.100.7")
        codes = [
            stranger.post("/login", json={"name": "anna", "password": word}).status_code
            for word in [*["wrong"] * FAILURES, PASSWORD]
        ]
        assert set(codes) == {401}
        assert log_in(served, "anna", PASSWORD) == 200

    def test_a_crowd_of_strangers_locks(
        self, served: Served, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(guesses, "FAILURES_ANYWHERE", FAILURES + 1)
        served.add_user("anna", password=PASSWORD)
        for number in range(FAILURES + 1):
            given = {"name": "anna", "password": "wrong"}
            served.client_from(f"198.51.100.{number}").post("/login", json=given)
        assert log_in(served, "anna", PASSWORD) == 401

    def test_names_that_nobody_has_do_not_fill_the_books(
        self, served: Served, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(guesses, "IDLE_KEYS", 4)
        monkeypatch.setattr(guesses, "FAILURES_ANYWHERE", 2)
        served.add_user("anna", password=PASSWORD)
        for number in range(12):
            stranger = served.client_from(f"198.51.100.{number}")
            for name in ("anna", f"nobody {number}"):
                stranger.post("/login", json={"name": name, "password": "wrong"})
        with served.site.writing() as books:
            kept = stored(books, schema.guesses)
        assert 2 < len(kept) <= 4 + 2

    def test_a_guess_that_comes_too_early_is_written_as_others_are(self, served: Served) -> None:
        """Its time must not say whether an account of that name exists."""
        now = served.site.clock()
        writes: list[None] = []
        with served.site.writing() as books:
            put = type(books.guesses).put
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(type(books.guesses), "put", lambda *given: writes.append(put(*given)))
                told = [guesses.begin_guess(books, "0" * 64, now) for _ in range(FAILURES + 2)]
        assert told == [True] * FAILURES + [False] * 2
        assert len(writes) == FAILURES + 2

    def test_locks_for_an_hour_at_most(self, served: Served, clock: StoppedClock) -> None:
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
        assert "\nmeter_failed_logins_total 1.0\n" in text
