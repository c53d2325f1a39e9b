"""Accounts, and their passwords."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.server.helpers import NO_ID, PASSWORD, SQLITE, Served, log_in, serve

from easeml_meter.service import users
from easeml_meter.service.actor import SYSTEM
from easeml_meter.service.guesses import FAILURES
from easeml_meter.service.users import SHORTEST_PASSWORD


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
