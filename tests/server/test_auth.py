"""Who asks: the bearer token of a request."""

from __future__ import annotations

from datetime import timedelta

import pytest
from tests.server.helpers import SQLITE, Served, status
from tests.service.helpers import StoppedClock, actor_of

from easeml_meter.service import tokens


@pytest.fixture
def served(served_on_each_database: Served) -> Served:
    return served_on_each_database


class TestTokens:
    def test_without_one(self, served: Served) -> None:
        answer = served.client().get("/me")
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"] == "Bearer"
        assert answer.json() == {
            "error": "unknown-caller",
            "message": "no token was given: send one as Authorization: Bearer",
            "request": answer.headers["x-request-id"],
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

    def test_expired(self, served: Served, clock: StoppedClock) -> None:
        secret = tokens.make_token(actor_of(served.users["stranger"].id), served.site, "t", days=1)[
            1
        ]
        clock.pass_by(timedelta(days=1, microseconds=-1))
        assert status(served, secret)[0] == 200
        clock.pass_by(timedelta(microseconds=1))
        assert status(served, secret) == (401, "the token has expired: log in again")
