"""Without a token, with somebody else's, or with one that was made for less."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator

from redteam import attack
from redteam.target import NOBODY, PASSWORD, Client, draw, hold, parquet, refused, rows_of

OPEN = {"POST /login", "POST /plans"}
"""What everybody may ask for."""


def routes(client: Client) -> Iterator[tuple[str, str]]:
    """Yield method and path of every route of the API, with ids of the meter that is in use."""
    ground = client.target.ground
    document = client.get(f"{client.target.address}/api/v1/openapi.json").json()
    for path, methods in document["paths"].items():
        if not path.startswith("/api/v1/"):
            continue
        filled = path.removeprefix("/api/v1").replace("{meter}", ground.id).replace("{number}", "1")
        filled = (
            filled.replace("{part}", "1")
            .replace("{tenant}", "1")
            .replace("{file}", "testset.parquet")
        )
        filled = filled.replace("{role}", "developer")
        for name in ("user", "upload", "submission", "token"):
            filled = filled.replace(f"{{{name}}}", NOBODY)
        for method in methods:
            if f"{method.upper()} {path.removeprefix('/api/v1')}" not in OPEN:
                yield method.upper(), filled


@attack(who="outsider", finding="a route answers without a token", attempts=[1])
def every_route_without_a_token(client: Client) -> None:
    found = list(routes(client))
    hold(len(found) > 40, f"only {len(found)} routes in openapi.json")
    for method, path in found:
        refused(client.request(method, path), 401)


@attack(who="stranger", finding="a meter shows to people without a seat", attempts=[2])
def every_route_of_a_meter_without_a_seat(client: Client) -> None:
    for method, path in routes(client):
        if path.startswith("/meters/"):
            refused(client.request(method, path), 404)


@attack(who="developer", finding="a developer does what another role may", attempts=[3, 59])
def routes_of_other_roles(client: Client) -> None:
    ground = client.target.ground
    set_1 = ground.at("/test-sets/1")
    tries = {
        "developer": [("GET", f"{set_1}/inputs"), ("GET", ground.at("/notices"))],
        "runner": [("GET", ground.at(f"/{each}")) for each in ("signals", "status", "history")],
    }
    for who, requests in tries.items():
        with client.target.client(who) as person:
            for method, path in requests:
                refused(person.request(method, path), 403)
            refused(person.post(f"{set_1}/release"), 403)
            refused(person.post(ground.at("/uploads"), json={"name": "x", "size": 1}), 403)
            refused(person.get(ground.at("/members")), 403)
            refused(person.get(f"{set_1}/released/testset.parquet"), 403, 404)
            refused(person.post("/meters", json={"name": "m", "settings": {}}), 403)


@attack(who="admin", finding="an admin sees signals, inputs or submissions", attempts=[4])
def what_an_admin_must_not_see(client: Client) -> None:
    ground = client.target.ground
    for each in ("signals", "status", "history", "report.html", "report.svg", "badge.svg"):
        refused(client.get(ground.at(f"/{each}")), 403)
    for each in ("notices", "test-sets/1/inputs", "validation-sets", "submissions"):
        refused(client.get(ground.at(f"/{each}")), 403)
    refused(client.get(ground.at("/test-sets/1/released/testset.parquet")), 403)


@attack(who="developer", finding="an account is changed by its owner beyond e-mail", attempts=[8])
def making_oneself_an_admin(client: Client) -> None:
    own = f"/users/{client.target.people['developer'].id}"
    for change in ({"admin": True}, {"disabled": True}, {"name": "admin"}, {"role": "owner"}):
        refused(client.patch(own, json=change))
    hold(not client.get(own).json()["admin"], "the developer is an admin")
    with client.target.client("admin") as admin:
        refused(admin.post("/users", json={"name": "x", "id": NOBODY}), 422)
        seat = {"user": client.target.people["auditor"].id, "role": "developer", "tenant": 1}
        for wrong in ({"role": "owner"}, {"tenant": 999}, {"tenant": -1}):
            refused(admin.post(client.target.ground.at("/members"), json=seat | wrong))
        second = {"user": client.target.people["developer"].id, "role": "labeler", "tenant": 0}
        refused(admin.post(client.target.ground.at("/members"), json=second))


@attack(who="developer", finding="a token of any length of life", attempts=[9])
def days_of_a_token(client: Client) -> None:
    for days in ("NaN", "Infinity", "1e309", "0", "-1", "3661"):
        body = f'{{"name": "t", "days": {days}}}'
        sent = client.post("/tokens", content=body, headers={"Content-Type": "application/json"})
        refused(sent, 422)


@attack(who="developer", finding="somebody else's account or token is in reach", attempts=[10])
def accounts_of_others(client: Client) -> None:
    with client.target.client("labeler") as other:
        token = other.get("/me").json()["token"]["id"]
    refused(client.delete(f"/tokens/{token}"), 404)
    refused(client.get(f"/users/{client.target.people['labeler'].id}"), 403, 404)
    refused(client.get("/users"), 403)


@attack(who="developer", finding="a limited token leads to more", attempts=[11, 12, 13])
def a_token_limited_to_one_meter(client: Client) -> None:
    own = client.target.person("limited")
    scope = f"developer:{client.target.ground.id}"
    with client.target.client(own) as whole:
        whole.post("/tokens", json={"name": "other"}).raise_for_status()
        others = [each["id"] for each in whole.get("/tokens").json()["items"]]
        made = whole.post("/tokens", json={"name": "ci", "scopes": [scope]}).json()
    limited = {"Authorization": f"Bearer {made['token']}"}
    with client.target.client("outsider", headers=limited) as ci:
        refused(ci.post("/tokens", json={"name": "more"}))
        for change in ({"password": "another password"}, {"email": "x@example.org"}):
            refused(ci.patch(f"/users/{own.id}", json=change | {"current_password": PASSWORD}))
        for other in others:
            refused(ci.delete(f"/tokens/{other}"))
        seen = ci.get("/tokens")
        listed = [each["id"] for each in seen.json().get("items", [])]
        hold(not set(listed) & set(others), "the limited token lists its owner's other tokens")


@attack(who="developer", finding="rows at no cost have no end", seconds=60, small=False)
def rows_without_end(client: Client) -> None:
    ground, pair = client.target.meter(tenants=(2, 2)), {"giver": 1, "receiver": 2}

    def hand_over() -> int:
        asked = client.post(ground.at("/handovers"), json=pair | {"confirm": True})
        client.post(ground.at("/handovers/answer"), json=pair | {"accept": False})
        return asked.status_code

    def validate() -> int:
        return ground.validate(client, parquet(rows_of(draw(2)))).status_code

    def token() -> int:
        return client.post("/tokens", json={"name": "t"}).status_code

    for act, most in ((hand_over, 100), (validate, 100), (token, 1000)):
        hold(409 in (act() for _ in range(most + 1)), f"{most + 1} times")


@attack(who="outsider", finding="something like a token is taken for one", attempts=[14])
def spellings_of_a_token(client: Client) -> None:
    token = client.target.people["stranger"].token
    for header in (
        *(f"Bearer {token[:-1]}", f"Bearer {token.upper()}", f"Bearer {token} {token}"),
        *(f"Basic {token}", f"Bearer {token},Bearer {token}", token, "Bearer", "Bearer \x7f"),
    ):
        refused(client.get("/me", headers={"Authorization": header}), 401)
    refused(client.get("/me", params={"token": token, "access_token": token}), 401, 422)


@attack(who="outsider", finding="a stranger locks somebody out", attempts=[16])
def locking_somebody_out(client: Client) -> None:
    victim = client.target.person("victim")
    for _ in range(6):
        client.post("/login", json={"name": victim.name, "password": "wrong"})
    with client.target.client("outsider") as elsewhere:
        answer = elsewhere.post("/login", json={"name": victim.name, "password": PASSWORD})
    hold(answer.status_code == 200, f"the right password gets {answer.status_code}")


@attack(
    who="outsider",
    finding="forged addresses give more logins",
    attempts=[17],
    seconds=10,
    small=False,
)
def forged_addresses(client: Client) -> None:
    statuses, started = [], time.monotonic()
    for number in range(40):
        address = f"203.0.113.{number}"
        forged = {"X-Forwarded-For": address, "X-Real-IP": address, "Forwarded": f"for={address}"}
        body = {"name": f"nobody-{secrets.token_hex(4)}", "password": "wrong"}
        statuses.append(client.post("/login", json=body, headers=forged).status_code)
    allowed = 21 + (time.monotonic() - started) * 20 / 60
    hold(statuses.count(401) <= allowed, f"{statuses.count(401)} of 40 logins were tried")


@attack(who="admin", finding="an admin acts as somebody and no chain shows it", attempts=[36])
def signing_in_as_somebody_else(client: Client) -> None:
    ground = client.target.meter(begun=False)
    before = client.get(ground.at("/audit")).json()["items"]
    runner = client.target.people["runner"]
    changed = client.patch(f"/users/{runner.id}", json={"password": PASSWORD})
    after = client.get(ground.at("/audit")).json()["items"]
    with client.target.client("outsider") as again:
        body = {"name": runner.name, "password": PASSWORD}
        token = again.post("/login", json=body).json()["token"]
    client.target.people["runner"] = type(runner)(runner.id, runner.name, token)
    hold(changed.status_code >= 400 or len(after) > len(before), "no link in the audit chain")


@attack(who="admin", finding="the audit chain shows an admin answers", attempts=[37])
def the_chain_as_an_admin(client: Client) -> None:
    ground = client.target.meter()
    with client.target.client("developer") as developer:
        said = ground.submit(developer).json()["signal"]
    links = client.get(ground.at("/audit")).json()["items"]
    told = [link for link in links if link["event"] == "told"]
    hold(len(told) == 1 and said, "the answer is not in the chain at all")
    hold("band" not in str(told) and "'answer':" not in str(told), f"answers: {told}"[:200])


@attack(who="admin", finding="one person sits where two were promised", attempts=[38])
def seats_for_one_person(client: Client) -> None:
    ground = client.target.meter(tenants=(2, 2), begun=False)
    both = {"user": client.target.people["developer"].id, "role": "developer", "tenant": 2}
    refused(client.post(ground.at("/members"), json=both))
    ground = client.target.meter(tenants=(2, 2))
    with client.target.client("developer") as developer:
        ground.submit(developer).raise_for_status()
    for who, tenant, second in (("labeler", 0, 1), ("runner", 1, 1), ("developer", 1, 2)):
        user = client.target.people[who].id
        client.delete(ground.at(f"/members/{user}/{who}/{tenant}")).raise_for_status()
        seat = {"user": user, "role": "developer", "tenant": second}
        refused(client.post(ground.at("/members"), json=seat), 409)


@attack(who="labeler", finding="a labeler of some rows develops once others bring the rest")
def a_seat_before_the_set_is_active(client: Client) -> None:
    ground = client.target.meter(begun=False)
    ground.deliver(rows_of(draw(5)), part=True)
    labeler = client.target.people["labeler"].id
    with client.target.client("admin") as admin:
        admin.delete(ground.at(f"/members/{labeler}/labeler/0")).raise_for_status()
        seat = {"user": labeler, "role": "developer", "tenant": 1}
        refused(admin.post(ground.at("/members"), json=seat), 409)


@attack(who="admin", finding="two accounts that look the same")
def names_that_look_alike(client: Client) -> None:
    name = client.target.people["stranger"].name
    for alike in (
        name.upper(),
        f"{name} ",
        name.replace("a", "\u0430"),
        name.replace("s", "\uff53"),
        *(f"{name[:3]}{sign}{name[3:]}" for sign in "\xad\u2800\ufe0f\U000e0041"),
    ):
        refused(client.post("/users", json={"name": alike}))


@attack(who="developer", finding="a password is guessed through one's own account", attempts=[56])
def guessing_the_current_password(client: Client) -> None:
    person = client.target.person("guesser")
    with client.target.client(person) as own:
        for _ in range(6):
            body = {"current_password": "wrong", "password": "another password"}
            refused(own.patch(f"/users/{person.id}", json=body))
        right = {"current_password": PASSWORD, "password": "another password"}
        refused(own.patch(f"/users/{person.id}", json=right))
