"""What all routes share: lists in pages, and parameters that must be known."""

from __future__ import annotations

from typing import Any

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
