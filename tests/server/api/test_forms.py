"""Forms with files: the same files, the same deed."""

from __future__ import annotations

import asyncio
import gzip
import tempfile
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from starlette.datastructures import Headers
from tests.forms import KIND
from tests.forms import form as form_of
from tests.server.driving import VALIDATION, begin, parquet, predictions, sealed, submit
from tests.server.helpers import Served, serve
from tests.service.helpers import Labels, rows, small_spec

from easeml_meter.errors import InvalidInput
from easeml_meter.scoring.bundle import Bundle, BundledFile
from easeml_meter.server.api.forms import Field, read_form
from easeml_meter.server.api.forms import packed as archive_of
from easeml_meter.service.submissions.kinds import Command
from easeml_meter.tables.archive import File, pack

LABELS = np.random.default_rng(5).integers(0, 2, 40)


def files(labels: Labels) -> dict[str, Any]:
    return {
        "test": ("my predictions.v2.parquet", predictions(labels)),
        "validation": ("v.parquet", predictions(VALIDATION)),
    }


def test_a_form_has_files_of_any_name(served: Served, meter: str, labels: Labels) -> None:
    developer, path = served.client("developer"), f"/meters/{meter}/submissions?model=model"
    first = developer.post(path, files=files(labels))
    assert (first.status_code, first.json()["signal"]["step"]) == (200, 1)
    again = submit(developer, meter, labels)
    assert (again.json()["signal"]["repeated"], again.json()["signal"]["step"]) == (True, 1)
    checked = developer.post(f"/meters/{meter}/submissions/check", files=files(labels))
    assert (checked.status_code, checked.json()["repeated"]) == (200, True)


def test_packed_files_are_read(served: Served, meter: str, labels: Labels) -> None:
    developer, path = served.client("developer"), f"/meters/{meter}"
    lines = "\n".join(["id;prediction", *(f"{i};{label}" for i, label in enumerate(labels)), ""])
    sent = {
        "test": ("t.csv.gz", gzip.compress(lines.encode())),
        "validation": ("v.parquet", predictions(VALIDATION)),
    }
    told = developer.post(f"{path}/submissions?model=m", files=sent)
    assert (told.status_code, told.json()["signal"]["band"]) == (200, 1), told.text
    rows = gzip.compress(b"id,x,y,label\n1,0.5,0.5,1\n2,0.25,0.5,0\n")
    given = developer.post(f"{path}/validation-sets", files={"file": ("v.csv.gz", rows)})
    assert (given.status_code, given.json()["rows"]) == (201, 2), given.text


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


def test_files_keep_their_names_and_those_that_are_named_are_executable() -> None:
    fields = [
        Field("command", None, b"sh run.sh"),
        Field("files", "run.sh", b"1"),
        Field("files", "folder/p.py", b"2"),
        Field("executable", None, b"run.sh"),
    ]
    bundle = Bundle.from_bytes(archive_of(fields))
    assert bundle.command == "sh run.sh"
    assert bundle.files == (
        BundledFile("folder/p.py", b"2"),
        BundledFile("run.sh", b"1", executable=True),
    )
    with pytest.raises(InvalidInput, match=r"'other.sh' given, the name of one of the files"):
        archive_of([*fields, Field("executable", None, b"other.sh")])


HEADERS = Headers({"content-type": KIND})


def read(content: bytes, most: int = 100) -> list[Field]:
    async def pieces() -> AsyncGenerator[bytes, None]:
        yield content

    return asyncio.run(read_form(HEADERS, pieces(), 1 << 20, most, "files"))


def test_a_command_is_the_same_submission_however_it_came(tmp_path: Path) -> None:
    """What it is stays the digest of its contents."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / 'a "b" \\ ü.py').write_bytes(b"1")
    (tmp_path / "run.sh").write_bytes(b"2")
    (tmp_path / "run.sh").chmod(0o755)
    command = Command.of("sh run.sh", [Path("folder")], tmp_path)
    assert Bundle.from_bytes(archive_of(read(form_of(command.form())))) == command.bundle


def test_nothing_of_a_form_touches_the_disk(
    served: Served, meter: str, labels: Labels, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What is longer than a megabyte would be written to a temporary file."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "none"))  # where nothing can be made
    table = pa.table({"id": np.arange(len(labels)), "prediction": labels})
    long = parquet(table.replace_schema_metadata({"salt": "x" * (5 << 20)}))
    sent = {"test": ("t.parquet", long), "validation": ("v.parquet", predictions(VALIDATION))}
    told = served.client("developer").post(f"/meters/{meter}/submissions?model=m", files=sent)
    assert told.status_code == 200, told.text
    with pytest.raises(FileNotFoundError):
        tempfile.TemporaryFile().close()


def test_a_form_has_so_many_files_and_fields_and_no_more() -> None:
    given: list[tuple[str, tuple[str | None, bytes]]] = [
        *[("files", ("a", b"1"))] * 2,
        *[("executable", (None, b"a"))] * 3,
    ]
    assert len(read(form_of(given), most=2)) == 5
    for more in (given[0], given[-1]):
        with pytest.raises(InvalidInput, match="Too many"):
            read(form_of([*given, more]), most=2)
    with pytest.raises(InvalidInput, match="maximum size"):
        read(form_of([("command", (None, b"x" * (1 << 17)))]))


def test_a_form_that_ends_too_early_is_refused() -> None:
    """A file would be missing, and the model another one."""
    whole = form_of([("command", (None, b"x")), ("files", ("a", b"1")), ("files", ("b", b"2"))])
    assert len(read(whole)) == 3
    for end in range(len(whole) - 4):
        with pytest.raises(InvalidInput, match=r"^[^\n]+$"):
            read(whole[:end])


def test_a_form_without_a_field_is_told_what_it_can_hold() -> None:
    with pytest.raises(InvalidInput, match="no field' given, one of these needed: test and val"):
        archive_of([])


@pytest.mark.parametrize(
    ("form", "said"),
    [
        ({"model": ("m", b"x")}, "'model' given, test and validation"),
        ({"test": (None, "x")}, "a file needed: --form test=@FILE"),
        ([("test", ("a.csv", b"1")), ("test", ("b.csv", b"1"))], "test twice"),
        ([("files", ("x", b"1")), ("files", ("x", b"2"))], "files twice"),
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


def test_a_form_is_as_long_as_a_body_may_be(tmp_path: Path) -> None:
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
        ({"file": ("v.csv", csv), "more": ("v.csv", csv)}, "Too many files"),
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


def test_a_tar_is_no_submission(served: Served, meter: str, labels: Labels) -> None:
    told = served.client("developer").post(
        f"/meters/{meter}/submissions?model=m",
        content=pack({"test.parquet": File(predictions(labels))}),
        headers={"Content-Type": "application/x-tar"},
    )
    assert told.status_code == 422
    assert "'application/x-tar' given, a form (multipart/form-data)" in told.json()["message"]
