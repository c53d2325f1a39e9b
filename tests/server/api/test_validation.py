"""Validation sets over HTTP: given, replaced, listed, read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.server.driving import VALIDATION, begun, give_validation, packed, parquet, submit
from tests.server.helpers import Served, serve
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


@pytest.mark.parametrize(
    ("setting", "refusal"),
    [
        ("most_rows", "20 rows given, at most 3"),
        ("most_columns", "4 columns given, at most 3"),
        ("most_decoded_bytes", "bytes when decoded given, at most 3"),
    ],
)
def test_a_table_that_holds_too_much_is_refused_with_the_setting_that_says_so(
    tmp_path: Path, setting: str, refusal: str
) -> None:
    limit: dict[str, Any] = {setting: 3}
    with serve(tmp_path / "site", **limit) as served:
        meter = served.add_meter()
        refused = give_validation(served.client("developer"), meter)
    assert (refused.status_code, refused.json()["error"]) == (413, "too-large")
    line = f"(setting {setting} of the server)"
    assert refused.json()["message"].startswith("validation.parquet: ")
    assert refusal in refused.json()["message"]
    assert refused.json()["message"].endswith(line)


def test_predictions_that_hold_too_much_are_refused_and_cost_nothing(tmp_path: Path) -> None:
    with serve(tmp_path / "site", most_columns=4) as served:
        meter, labels = begun(served, tmp_path)
        developer = served.client("developer")
        wide = {f"c{n}": VALIDATION for n in range(5)}
        content = {
            "test_parquet": parquet(pa.table(wide)),
            "validation_parquet": parquet(pa.table(wide)),
        }
        refused = developer.post(
            f"/meters/{meter}/submissions",
            params={"model": "wide"},
            content=packed(**content),
        )
        assert (refused.status_code, refused.json()["error"]) == (413, "too-large")
        assert "5 columns given, at most 4" in refused.json()["message"]
        assert submit(developer, meter, labels).json()["signal"]["step"] == 1
