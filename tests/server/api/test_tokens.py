"""Signing in, tokens and their scopes."""

from __future__ import annotations

from datetime import timedelta

import pytest
from tests.server.helpers import NO_ID, PASSWORD, SQLITE, Served, log_in, status
from tests.service.helpers import StoppedClock, actor_of

from easeml_meter.core.people import Role
from easeml_meter.service import guesses, seats, tokens, users
from easeml_meter.service.actor import SYSTEM
from easeml_meter.service.guesses import FAILURES, LOCK
from easeml_meter.storage import schema
from easeml_meter.storage.store import Store


@pytest.fixture
def served(served_on_each_database: Served) -> Served:
    return served_on_each_database


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
            stored = [row for table in schema.metadata.sorted_tables for row in books.select(table)]
        assert made["id"] in str(stored)
        assert made["token"] not in str(stored)

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
            kept = list(books.select(schema.guesses))
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
