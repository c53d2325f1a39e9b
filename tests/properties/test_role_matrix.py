"""Every route x every role x own and foreign meter and tenant: allowed where the table says so.

The table is written out here, from design.md; a route that it does not know fails the test.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi.routing import APIRoute
from tests.server.driving import VALIDATION, begin, parquet, submission, submit
from tests.server.helpers import Served, serve
from tests.service.helpers import Labels, actor_of, rows, small_spec

from easeml_meter.server.api import ROUTERS
from easeml_meter.service import tokens

SETTINGS = small_spec().to_mapping()
NOBODYS = "f" * 32
"""An id that nothing has."""


@dataclass(frozen=True)
class Rule:
    """Who may: D developer, L labeler, R runner, A admin; and a request that is in order."""

    roles: str
    tenants: bool = False
    """Whether it is about one tenant, chosen by ?tenant=."""
    params: dict[str, Any] = field(default_factory=dict)
    json: Any = None
    content: bytes | None = None
    number: int = 1
    """Of the test set; 9 is one that this meter does not have, for what would change the others."""


VALIDATION_SET = parquet(rows(VALIDATION, seed=7))

METER: dict[str, Rule] = {
    "GET ": Rule("DLRA"),
    "POST /archive": Rule("A"),
    "GET /members": Rule("A"),
    "POST /members": Rule("A", json={"user": NOBODYS, "role": "developer", "tenant": 1}),
    "DELETE /members/{user}/{role}/{tenant}": Rule("A"),
    "GET /requests": Rule("LA"),
    "PATCH /requests/{number}": Rule("LA", json={"reason": "more"}),
    "DELETE /requests/{number}/parts/{part}": Rule("L"),
    "POST /uploads": Rule("L", json={"name": "set", "size": 10}),
    "GET /uploads/{upload}": Rule("L"),
    "PUT /uploads/{upload}": Rule("L", params={"offset": 0}, content=b"x"),
    "DELETE /uploads/{upload}": Rule("L"),
    "GET /wanted": Rule("L"),
    "POST /wanted/labels": Rule("L", params={"label": "y", "kind": "csv"}, content=b"x"),
    "GET /test-sets": Rule("DLRA"),
    "POST /test-sets": Rule("L", json={"upload": NOBODYS}),
    "POST /test-sets/file": Rule("L", content=b"x"),
    "GET /test-sets/{number}": Rule("DLRA"),
    "GET /test-sets/{number}/inputs": Rule("LR"),
    "POST /test-sets/{number}/retire": Rule("LA", number=9),
    "POST /test-sets/{number}/release": Rule("L"),
    "GET /test-sets/{number}/release": Rule("L"),
    "GET /test-sets/{number}/released/{file}": Rule("DL", tenants=True),
    "GET /test-sets/{number}/compare": Rule("DL", tenants=True),
    "GET /batches": Rule("DLRA"),
    "GET /batches/{number}": Rule("DLR"),
    "GET /notices": Rule("L"),
    "GET /validation-sets": Rule("DLR"),
    "POST /validation-sets": Rule("D", content=VALIDATION_SET),
    "GET /validation-sets/{number}/file": Rule("DLR"),
    "POST /submissions": Rule("DR", tenants=True, params={"model": "m"}, content=b"x"),
    "POST /submissions/check": Rule("DR", tenants=True, content=b"x"),
    "POST /submissions/promote": Rule("D", tenants=True, json={"model": "m"}),
    "GET /submissions": Rule("DLR", tenants=True),
    "GET /submissions/{submission}": Rule("DLR", tenants=True),
    "GET /submissions/{submission}/events": Rule("DLR", tenants=True),
    "DELETE /submissions/{submission}": Rule("DR", tenants=True),
    "GET /signals": Rule("DL", tenants=True),
    "GET /status": Rule("DL", tenants=True),
    "GET /history": Rule("DL", tenants=True),
    "GET /report.html": Rule("DL", tenants=True),
    "GET /report.svg": Rule("DL", tenants=True),
    "GET /badge.svg": Rule("DL", tenants=True),
    "GET /handovers": Rule("DA"),
    "POST /handovers": Rule("D", json={"giver": 1, "receiver": 2}),
    "POST /handovers/answer": Rule("DA", json={"giver": 1, "receiver": 2, "accept": True}),
    "GET /audit": Rule("DLA"),
}
SITE: dict[str, Rule] = {
    "POST /login": Rule("nobody", json={"name": "x", "password": "y"}),
    "POST /plans": Rule("nobody", json={"settings": SETTINGS}),
    "POST /logout": Rule("DLRA"),
    "GET /me": Rule("DLRA"),
    "GET /users": Rule("A"),
    "POST /users": Rule("A", json={"name": "new"}),
    "GET /users/{user}": Rule("A"),
    "PATCH /users/{user}": Rule("A", json={"email": "x@example.org"}),
    "POST /users/{user}/invitations": Rule("A"),
    "DELETE /users/{user}/identity": Rule("A"),
    "GET /tokens": Rule("DLRA"),
    "POST /tokens": Rule("DLRA", json={"name": "t"}),
    "DELETE /tokens/{token}": Rule("DLRA"),
    "GET /meters": Rule("DLRA"),
    "POST /meters": Rule("A", json={"name": "m", "settings": SETTINGS}),
}
BELOW = "/meters/{meter}"
USERS = {"developer": "D", "labeler": "L", "runner": "R", "admin": "A"}


def served_routes() -> set[str]:
    routes = [route for router in ROUTERS for route in router.routes]
    assert all(isinstance(route, APIRoute) for route in routes)
    return {
        f"{method} {route.path}"
        for route in routes
        if isinstance(route, APIRoute)
        for method in route.methods or ()
    }


def test_every_route_is_in_the_table() -> None:
    below = {f"{method} {BELOW}{path}" for method, path in (rule.split(" ") for rule in METER)}
    assert served_routes() == below | set(SITE)


@dataclass
class World:
    """A meter of two tenants in the middle of its life, and another meter."""

    served: Served
    meter: str
    other: str
    labels: Labels
    submission: str

    def send(self, user: str | None, route: str, rule: Rule, **options: Any) -> httpx.Response:
        """Ask as a user, with a token of its own: one of the routes revokes it."""
        method, path = route.split(" ")
        filled = path.format(
            meter=options.pop("meter", self.meter),
            user=options.pop("about", NOBODYS),
            role="developer",
            tenant=1,
            number=rule.number,
            part=1,
            file=options.pop("file", "retrospective.json"),
            upload=NOBODYS,
            submission=self.submission,
            token=NOBODYS,
        )
        token = options.pop("token", None)
        if user is not None:
            identifier = self.served.users[user].id
            token = tokens.make_token(actor_of(identifier), self.served.site, "one")[1]
        return self.served.client(token=token).request(
            method,
            filled,
            params=rule.params | options,
            json=rule.json,
            content=rule.content,
        )


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder: Path = tmp_path_factory.mktemp("matrix")
    with serve(folder / "site", requests_per_second=0, logins_per_minute=0) as served:
        spec = small_spec(tenants=(2, 2), inputs="hidden")
        meter, other = served.add_meter(spec), served.add_meter(spec, prefix="other-")
        labels = begin(served, meter, folder)
        told = submit(served.client("developer"), meter, labels)
        yield World(served, meter, other, labels, told.json()["id"])


def denied(answer: httpx.Response) -> bool:
    return answer.status_code in (401, 403)


def invisible(answer: httpx.Response) -> bool:
    return answer.status_code == 404 and "that you have a seat at" in answer.json()["message"]


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("route", METER)
def test_roles_at_ones_own_meter(world: World, route: str, user: str) -> None:
    rule = METER[route]
    method, path = route.split(" ")
    answer = world.send(user, f"{method} {BELOW}{path}", rule)
    assert answer.status_code < 500, answer.text
    assert not invisible(answer), answer.text
    assert denied(answer) is (USERS[user] not in rule.roles), answer.text


@pytest.mark.parametrize("user", ["other-developer", "other-labeler", "other-runner", "stranger"])
@pytest.mark.parametrize("route", METER)
def test_a_foreign_meter_does_not_exist(world: World, route: str, user: str) -> None:
    method, path = route.split(" ")
    answer = world.send(user, f"{method} {BELOW}{path}", METER[route])
    assert invisible(answer), answer.text
    absent = world.send(user, f"{method} {BELOW}{path}", METER[route], meter=NOBODYS)
    said = [each.json()["message"] for each in (absent, answer)]
    assert said[0].replace(NOBODYS, world.meter) == said[1]
    assert absent.json()["error"] == answer.json()["error"]


@pytest.mark.parametrize("route", METER)
def test_an_admin_finds_no_meter_that_is_not_there(world: World, route: str) -> None:
    method, path = route.split(" ")
    answer = world.send("admin", f"{method} {BELOW}{path}", METER[route], meter=NOBODYS)
    assert answer.status_code == 404 or denied(answer), answer.text
    assert not denied(answer) or "A" not in METER[route].roles


@pytest.mark.parametrize("route", [*METER, *SITE])
def test_nobody_is_let_in_without_a_token(world: World, route: str) -> None:
    method, path = route.split(" ")
    rule = METER.get(route) or SITE[route]
    answer = world.send(None, f"{method} {BELOW if route in METER else ''}{path}", rule)
    assert answer.status_code < 500, answer.text
    without = (answer.status_code, answer.json().get("error")) == (401, "unknown-caller")
    if route == "POST /login":  # a wrong password looks the same
        assert without
    else:
        assert without is (rule.roles != "nobody")


@pytest.mark.parametrize("route", [route for route, rule in METER.items() if rule.tenants])
def test_tenants_are_apart(world: World, route: str) -> None:
    rule = METER[route]
    method, path = route.split(" ")
    for user in ("developer", "runner"):
        own = world.send(user, f"{method} {BELOW}{path}", rule, tenant=1)
        assert denied(own) is (USERS[user] not in rule.roles), own.text
        foreign = world.send(user, f"{method} {BELOW}{path}", rule, tenant=2)
        assert foreign.status_code == 403, foreign.text
    if "L" in rule.roles:
        for tenant in (1, 2):
            asked = world.send("labeler", f"{method} {BELOW}{path}", rule, tenant=tenant)
            assert not denied(asked), asked.text
    if "{submission}" in route:  # another tenant's is not there
        for user in ("developer2", "runner2"):
            hidden = world.send(user, f"{method} {BELOW}{path}", rule)
            assert hidden.status_code == 404, hidden.text


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("route", SITE)
def test_roles_at_the_site(world: World, route: str, user: str) -> None:
    rule = SITE[route]
    answer = world.send(user, route, rule)
    assert answer.status_code < 500, answer.text
    if rule.roles != "nobody":
        assert denied(answer) is (USERS[user] not in rule.roles), answer.text


@pytest.mark.parametrize("user", ["developer", "runner", "labeler"])
def test_ones_own_account_is_ones_own(world: World, user: str) -> None:
    own, admins = world.served.users[user].id, world.served.users["admin"].id
    rule = Rule("", json={"email": "me@example.org"})
    changed = world.send(user, "PATCH /users/{user}", rule, about=own)
    assert changed.status_code == 200, changed.text
    risen = world.send(user, "PATCH /users/{user}", Rule("", json={"admin": True}), about=own)
    assert denied(risen), risen.text
    assert denied(world.send(user, "PATCH /users/{user}", rule, about=admins))


@pytest.mark.parametrize("user", USERS)
def test_the_released_rows_are_for_all_but_admins(world: World, user: str) -> None:
    route = f"GET {BELOW}/test-sets/{{number}}/released/{{file}}"
    answer = world.send(user, route, Rule("DLR"), file="testset.parquet")
    assert denied(answer) is (user == "admin")


@pytest.mark.parametrize("user", USERS)
def test_a_scoped_token_does_no_more_than_it_says(world: World, user: str) -> None:
    identifier = world.served.users[user].id
    scopes = ["runner" if user == "developer" else "developer"]
    secret = tokens.make_token(actor_of(identifier), world.served.site, "narrow", scopes=scopes)[1]
    answer = world.served.client(token=secret).get(f"/meters/{world.meter}")
    assert answer.status_code == 404
    here = [user if user == "admin" else f"{user}:{world.meter}"]  # an admin's is the whole site
    secret = tokens.make_token(actor_of(identifier), world.served.site, "here", scopes=here)[1]
    client = world.served.client(token=secret)
    assert client.get(f"/meters/{world.meter}").is_success
    assert client.get(f"/meters/{world.other}").is_success is (user == "admin")


@pytest.mark.parametrize("route", [*METER, *SITE])
def test_a_token_for_metrics_opens_no_route(world: World, route: str) -> None:
    """A monitoring system keeps it for years, and many people can read its settings."""
    admin = actor_of(world.served.users["admin"].id)
    secret = tokens.make_token(admin, world.served.site, "prometheus", scopes=["metrics"])[1]
    rule = METER.get(route) or SITE[route]
    method, path = route.split(" ")
    below = BELOW if route in METER else ""
    answer = world.send(None, f"{method} {below}{path}", rule, token=secret)
    if rule.roles != "nobody":
        assert denied(answer) or invisible(answer), answer.text
    assert world.served.client(token=secret).get("http://server/metrics").is_success


def test_a_runners_answer_has_no_signal(world: World) -> None:
    body = submission(world.labels, salt="runner")
    rule = Rule("", params={"model": "m"}, content=body)
    answer = world.send("runner2", f"POST {BELOW}/submissions", rule)
    assert (answer.status_code, answer.json()["signal"]) == (200, None)
