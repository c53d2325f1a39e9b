"""The app as a whole: its document, its methods."""

from __future__ import annotations

from tests.server.helpers import Served


def test_openapi_documents_every_error_in_the_one_shape(served: Served) -> None:
    document = served.client().get("/openapi.json").json()
    for path, operations in document["paths"].items():
        if not path.startswith("/api/"):
            continue
        for operation in operations.values():
            errors = {code: e for code, e in operation["responses"].items() if code >= "400"}
            assert {"422", "429"} <= set(errors), path
            for answer in errors.values():
                schema = answer["content"]["application/json"]["schema"]
                assert schema == {"$ref": "#/components/schemas/Problem"}


def test_a_wrong_method_is_told_all_right_ones(served: Served) -> None:
    answer = served.client("admin").put("/users", json={})
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET, POST")


def test_no_page_of_documentation_from_elsewhere(served: Served) -> None:
    assert served.client().get("http://server/redoc").status_code == 404
