"""Validation sets over HTTP: given, replaced, listed, read."""

from __future__ import annotations

from tests.server.driving import VALIDATION, give_validation, parquet
from tests.server.helpers import Served
from tests.service.helpers import rows


def test_validation_sets_are_given_replaced_and_read(served: Served) -> None:
    meter = served.add_meter()
    developer = served.client("developer")
    path = f"/meters/{meter}/validation-sets"
    content = parquet(rows(VALIDATION, seed=7))
    nameless = developer.post(path, content=content)
    assert (nameless.status_code, nameless.json()["error"]) == (422, "invalid")
    wrong = developer.post(path, params={"label": "truth"}, content=content)
    assert wrong.json()["message"].startswith("validation.parquet: no column 'truth'")
    assert give_validation(developer, meter).json()["number"] == 1
    csv = b"id,x,y,label\n1,0.5,0.5,1\n2,0.25,0.5,0\n"
    replaced = developer.post(path, params={"suffix": "csv"}, content=csv)
    assert (replaced.status_code, replaced.json()["rows"]) == (201, 2)
    for user in ("developer", "labeler", "runner"):
        client = served.client(user)
        listed = client.get(path).json()["items"]
        assert [(each["number"], each["label"]) for each in listed] == [(1, "label"), (2, "label")]
        assert client.get(f"{path}/1/file").content == content
        assert client.get(f"{path}/2/file").content == csv
    assert developer.get(f"{path}/3/file").status_code == 404
    joined = developer.post(path, params={"id_column": "id"}, content=content)
    assert joined.json()["id_column"] == "id"
    assert replaced.json()["id_column"] is None
    reset = developer.post(path, params={"reset": True}, content=content)
    assert "only an incremental meter" in reset.json()["message"]
