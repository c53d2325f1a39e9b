"""What all routes share: lists in pages, and parameters that must be known."""

from __future__ import annotations

from typing import Any

import pytest
from tests.nodes import ROOT
from tests.server.driving import give_validation
from tests.server.helpers import NO_ID, PASSWORD, Served


def test_lists_come_in_pages(served: Served) -> None:
    meter = served.add_meter()
    developer = served.client("developer")
    for seed in range(5):
        assert give_validation(developer, meter, seed=seed).is_success
    seen, after = [], ""
    while after is not None:
        params: dict[str, Any] = {"limit": 2, "after": after}
        page = developer.get(f"/meters/{meter}/validation-sets", params=params).json()
        assert len(page["items"]) <= 2
        seen += [each["number"] for each in page["items"]]
        after = page["next"]
    assert seen == [1, 2, 3, 4, 5]


def test_a_mistyped_parameter_is_refused(served: Served) -> None:
    meter = served.add_meter()
    refused = served.client("labeler").get(f"/meters/{meter}/status", params={"tenat": 2})
    assert refused.status_code == 422
    assert refused.json()["message"] == "query: 'tenat' given, generation or tenant is known here"


@pytest.mark.parametrize(
    "wrong",
    [
        {"missing": "maybe"},
        {"no_ids": "perhaps"},
        {"id_column": "a\nb"},
        {"id_column": "x" * 201},
        {"tenant": "0"},
        {"tenant": "one"},
    ],
)
def test_a_query_that_is_read_whole_is_refused_in_the_same_words(
    served: Served, wrong: dict[str, str]
) -> None:
    """A submission reads its query by itself; a check has FastAPI read the same parameters."""
    meter = served.add_meter()
    developer = served.client("developer")
    whole, one_by_one = (
        developer.post(f"/meters/{meter}/submissions{end}", params=wrong | named, content=b"")
        for end, named in (("", {"model": "m"}), ("/check", {}))
    )
    assert whole.status_code == one_by_one.status_code == 422
    told = {key: value for key, value in whole.json().items() if key != "request"}
    assert told == {key: value for key, value in one_by_one.json().items() if key != "request"}


def test_every_parameter_of_a_query_that_is_read_whole_is_known(served: Served) -> None:
    meter = served.add_meter()
    refused = served.client("developer").post(f"/meters/{meter}/submissions", content=b"")
    assert refused.json()["message"] == "query.model: Field required"
    mistyped = served.client("developer").post(f"/meters/{meter}/submissions?modl=m", content=b"")
    names = "baseline or id_column or link or missing or model or no_ids or note or once or "
    names += "tenant or test_set or validation_set or wait"
    assert mistyped.json()["message"] == f"query: 'modl' given, {names} is known here"


def test_without_a_seat_a_wrong_query_says_nothing(served: Served) -> None:
    meter = served.add_meter()
    refused = served.client("stranger").post(f"/meters/{meter}/submissions")
    assert refused.status_code == 404


NAMED = {"meter", "user"}
"""Parameters of paths that take a name besides an id."""
BY_ID = {"submission", "token", "upload"}
"""Those that take an id only: docs/curl.md says why."""
OTHERS = {"number", "part", "tenant", "role", "file"}
"""Numbers and fixed words, of what has no id."""


def test_every_parameter_of_a_path_takes_a_name_or_the_docs_say_why_not(served: Served) -> None:
    found: dict[str, list[dict[str, Any]]] = {}
    for item in served.client().get("/openapi.json").json()["paths"].values():
        for operation in item.values():
            for each in operation.get("parameters", ()):
                if each["in"] == "path":
                    found.setdefault(each["name"], []).append(each)
    assert found.keys() == NAMED | BY_ID | OTHERS
    for name, parameters in found.items():
        for each in parameters:
            assert ("name" in each.get("description", "")) == (name in NAMED), each
            assert ("[0-9a-f]{32}" in each["schema"].get("pattern", "")) == (name in BY_ID), each
    page = (ROOT / "docs" / "curl.md").read_text(encoding="utf-8")
    paragraph = next(each for each in page.split("\n\n") if "only by their ids" in each)
    assert [name for name in BY_ID if f"{name}s" not in paragraph.lower()] == []


def test_users_are_known_by_their_names_as_by_their_ids(served: Served) -> None:
    admin, ann = served.client("admin"), served.add_user("Ann of Cleves")
    by_name = "/users/Ann%20of%20Cleves"
    assert admin.get(by_name).json() == admin.get(f"/users/{ann.id}").json()
    changed = admin.patch(by_name, json={"email": "ann@example.org"})
    assert (changed.status_code, changed.json()["id"]) == (200, ann.id)
    assert admin.post(f"{by_name}/invitations").status_code == 201
    members = f"/meters/{served.add_meter()}/members"
    given = admin.post(members, json={"user": "Ann of Cleves", "role": "labeler"})
    assert (given.status_code, given.json()["user"]) == (201, ann.id)
    assert admin.delete(f"{members}/Ann%20of%20Cleves/labeler/0").status_code == 204
    own = served.client("Ann of Cleves")
    assert own.get(by_name).json()["id"] == ann.id
    assert own.patch(by_name, json={"email": None}).json()["email"] is None


def test_a_name_that_looks_like_an_id_is_none(served: Served) -> None:
    served.add_user(NO_ID)
    for name in ("admin", NO_ID):
        assert served.client(name).get(f"/users/{NO_ID}").status_code in (403, 404)


def test_who_is_no_admin_cannot_tell_which_names_are_taken(served: Served) -> None:
    meter, password = served.add_meter(), {"password": PASSWORD, "current_password": PASSWORD}
    names = ("stranger", "Stranger", "nobody", served.users["stranger"].id, NO_ID)
    for who in ("developer", "labeler"):
        client, told = served.client(who), set()
        for name in names:
            given = {"user": name, "role": "labeler"}
            answers = (
                client.get(f"/users/{name}"),
                client.patch(f"/users/{name}", json={"email": None}),
                client.patch(f"/users/{name}", json=password),
                client.post(f"/users/{name}/invitations"),
                client.post(f"/meters/{meter}/members", json=given),
                client.delete(f"/meters/{meter}/members/{name}/labeler/0"),
            )
            told.add(tuple((each.status_code, each.json()["message"]) for each in answers))
        assert len(told) == 1
        assert {code for code, _ in told.pop()} == {403}
    admin = served.client("admin")
    for answer in (
        admin.get("/users/nobody"),
        admin.post(f"/meters/{meter}/members", json={"user": "nobody", "role": "labeler"}),
        admin.delete(f"/meters/{meter}/members/nobody/labeler/0"),
    ):
        assert (answer.status_code, answer.json()["error"]) == (404, "not-found")
        assert answer.json()["message"] == "user 'nobody': none of that name"
