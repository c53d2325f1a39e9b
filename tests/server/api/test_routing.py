"""What all routes share: lists in pages, and parameters that must be known."""

from __future__ import annotations

from typing import Any

import pytest
from tests.server.driving import give_validation
from tests.server.helpers import Served


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
        {"ask": "x" * 1001},
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
    names = "ask or id_column or missing or model or no_ids or once or tenant or wait"
    assert mistyped.json()["message"] == f"query: 'modl' given, {names} is known here"


def test_without_a_seat_a_wrong_query_says_nothing(served: Served) -> None:
    meter = served.add_meter()
    refused = served.client("stranger").post(f"/meters/{meter}/submissions")
    assert refused.status_code == 404
