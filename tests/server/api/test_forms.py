"""Forms with files in place of a tar or a plain body: the same files, the same deed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.server.driving import VALIDATION, begin, packed, parquet, predictions, sealed, submit
from tests.server.helpers import Served, serve
from tests.service.helpers import Labels, rows, small_spec

from easeml_meter.errors import InvalidInput
from easeml_meter.scoring.bundle import Bundle
from easeml_meter.server.api.forms import packed as tar_of

LABELS = np.random.default_rng(5).integers(0, 2, 40)


def files(labels: Labels) -> dict[str, Any]:
    return {
        "test": ("my predictions.v2.parquet", predictions(labels)),
        "validation": ("v.parquet", predictions(VALIDATION)),
    }


def test_a_form_is_the_same_submission_as_a_tar(served: Served, meter: str, labels: Labels) -> None:
    developer, path = served.client("developer"), f"/meters/{meter}/submissions?model=model"
    first = developer.post(path, files=files(labels))
    assert (first.status_code, first.json()["signal"]["step"]) == (200, 1)
    again = submit(developer, meter, labels)
    assert (again.json()["signal"]["repeated"], again.json()["signal"]["step"]) == (True, 1)
    checked = developer.post(f"/meters/{meter}/submissions/check", files=files(labels))
    assert (checked.status_code, checked.json()["repeated"]) == (200, True)


def test_models_come_as_forms_too(served: Served, tmp_path: Path) -> None:
    meter = served.add_meter(small_spec(models=True), prefix="m-")
    begin(served, meter, tmp_path, prefix="m-")
    developer, path = served.client("m-developer"), f"/meters/{meter}/submissions?model=m"
    command: Any = [
        ("command", (None, "python predict.py")),
        ("files", ("predict.py", b"print(1)")),
        ("files", ("weights.bin", b"\0")),
    ]
    told = developer.post(path, files=command)
    assert (told.status_code, told.json()["kind"]) == (202, "command")
    onnx = developer.post(path, files={"onnx": ("net.onnx", b"no model")})
    assert (onnx.status_code, onnx.json()["kind"]) == (202, "onnx")


def test_the_tar_of_a_command_has_its_files() -> None:
    body = (
        b'--e\r\nContent-Disposition: form-data; name="command"\r\n\r\npython p.py\r\n'
        b'--e\r\nContent-Disposition: form-data; name="files"; filename="p.py"\r\n\r\n1\r\n--e--'
    )
    bundle = Bundle.from_bytes(tar_of(body, b"e"))
    assert bundle.command == "python p.py"
    assert [(file.name, file.content) for file in bundle.files] == [("p.py", b"1")]


def test_a_form_without_a_field_is_told_what_it_can_hold() -> None:
    with pytest.raises(InvalidInput, match="no field' given, one of these needed: test and val"):
        tar_of(b"--e--", b"e")


@pytest.mark.parametrize(
    ("form", "said"),
    [
        ({"model": ("m", b"x")}, "'model' given, test and validation"),
        ({"test": (None, "x")}, "a file needed: --form test=@FILE"),
        ([("test", ("a.csv", b"1")), ("test", ("b.csv", b"1"))], "test twice"),
        ([("files", ("../x", b"1")), ("files", ("x", b"2"))], "files twice"),
        ({"test": ("test.csv", b"x")}, "'test' given, validation is missing: --form valid"),
        ({"validation": ("v.csv", b"x")}, "'validation' given, test is missing: --form test=@"),
        ({"files": ("p.py", b"x")}, "'files' given, command is missing: --form command=TEXT"),
        (
            [("onnx", ("a.onnx", b"x")), ("test", ("a.csv", b"1")), ("validation", ("b", b"1"))],
            "'onnx, test, validation' given, one of these needed: test and validation",
        ),
        ({"files": ("", b"x")}, "file"),
    ],
)
def test_other_forms_are_refused(
    served: Served, meter: str, labels: Labels, form: Any, said: str
) -> None:
    developer = served.client("developer")
    refused = developer.post(f"/meters/{meter}/submissions?model=m", files=form)
    assert (refused.status_code, refused.json()["error"]) == (422, "invalid")
    assert said in refused.json()["message"]
    assert "\n" not in refused.json()["message"]


def test_a_form_without_a_boundary_or_an_end_is_refused(served: Served, meter: str) -> None:
    developer, path = served.client("developer"), f"/meters/{meter}/submissions?model=m"
    for kind in ("multipart/form-data", "multipart/form-data; boundary=e"):
        refused = developer.post(path, content=b"--e\r\n", headers={"Content-Type": kind})
        assert (refused.status_code, refused.json()["error"]) == (422, "invalid")


def test_a_form_is_as_long_as_a_tar_may_be(tmp_path: Path) -> None:
    with serve(tmp_path, largest_body=1000) as served:
        meter = served.add_meter()
        developer = served.client("developer")
        long = {"test": ("test.csv", b"x" * 1000)}
        refused = developer.post(f"/meters/{meter}/submissions?model=m", files=long)
        assert refused.status_code == 413


def test_a_validation_set_comes_as_a_form(served: Served, meter: str) -> None:
    developer, path = served.client("developer"), f"/meters/{meter}/validation-sets"
    csv = b"id,x,y,label\n1,0.5,0.5,1\n2,0.25,0.5,0\n"
    given = developer.post(path, params={"label": "label"}, files={"file": ("v.csv", csv)})
    assert (given.status_code, given.json()["rows"], given.json()["suffix"]) == (201, 2, ".csv")
    named = developer.post(path, params={"suffix": "csv"}, files={"file": ("v.txt", csv)})
    assert named.status_code == 201
    for form, said in (
        ({"file": ("v.txt", csv)}, "'v.txt' given, a file that ends with one of parquet"),
        ({"validation": ("v.csv", csv)}, "'validation' given, one file: --form file=@FILE"),
        ({"file": (None, "text")}, "one file: --form file=@FILE"),
        ({"file": ("v.csv", csv), "more": ("v.csv", csv)}, "too many fields"),
    ):
        refused = developer.post(path, files=form)
        assert refused.status_code == 422
        assert said in refused.json()["message"]


@pytest.mark.parametrize("form", [True, False])
def test_a_test_set_is_delivered_in_one_request(
    served: Served, meter: str, tmp_path: Path, form: bool
) -> None:
    labeler, path = served.client("labeler"), f"/meters/{meter}/test-sets/file"
    table = rows(LABELS, seed=5)

    def send(content: bytes, **query: Any) -> Any:
        given = {"files": {"file": ("a.sealed", content)}} if form else {"content": content}
        return labeler.post(path, params=query, **given)

    part = sealed(served, meter, table.slice(0, 10), tmp_path)
    first = send(part, part=True)
    assert (first.status_code, first.json()["phase"]) == (201, "requested"), first.text
    assert send(part, part=True).json() == first.json()
    assert first.json()["labels_here"] == 10
    whole = send(sealed(served, meter, table.slice(10), tmp_path))
    assert (whole.json()["phase"], whole.json()["rows"]) == ("active", 40)
    assert send(part, part=False).json() == whole.json()  # it became a part of that
    other = sealed(served, meter, table.slice(0, 5), tmp_path)
    assert send(other).status_code == 409
    assert served.client("developer").post(path, content=part).status_code == 403
    assert list((tmp_path / "site" / "uploads").iterdir()) == []


def test_plain_rows_that_are_delivered_by_mistake_touch_no_disk(
    served: Served, meter: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They were written to be opened, and refused as a file that does not open."""
    monkeypatch.setattr(Path, "write_bytes", lambda path, _: pytest.fail(f"{path} was written"))
    plain = parquet(rows(LABELS, seed=5))
    refused = served.client("labeler").post(f"/meters/{meter}/test-sets/file", content=plain)
    assert refused.status_code == 422
    assert "bytes that are not sealed' given, seal the rows first" in refused.json()["message"]


def test_a_delivery_that_the_disk_has_no_room_for_is_refused(tmp_path: Path) -> None:
    with serve(tmp_path / "site", free_disk_bytes=1 << 60) as served:
        meter = served.add_meter()
        refused = served.client("labeler").post(f"/meters/{meter}/test-sets/file", content=b"x")
        assert (refused.status_code, refused.json()["error"]) == (413, "too-large")


def test_a_tar_is_still_a_tar(served: Served, meter: str, labels: Labels) -> None:
    body = packed(
        test_parquet=predictions(labels), validation_parquet=parquet(rows(VALIDATION, seed=1))
    )
    told = served.client("developer").post(
        f"/meters/{meter}/submissions?model=m",
        content=body,
        headers={"Content-Type": "application/x-tar"},
    )
    assert told.status_code == 422
    assert "prediction" in told.json()["message"]
