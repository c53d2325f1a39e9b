from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from tests.vault.conftest import Seal

from easeml_meter.errors import InvalidInput, MeterError, VaultError
from easeml_meter.tables.opening import open_table
from easeml_meter.tables.spelling import OrderDigest
from easeml_meter.vault import containers, survey
from easeml_meter.vault.keys import Identity, fingerprint_key
from easeml_meter.vault.manifest import Column, Manifest
from easeml_meter.vault.sealing import SealedTestSet

KEY = bytes(32)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "cats.sealed"


def opened(path: Path, key: Identity) -> SealedTestSet:
    return SealedTestSet.open(path, key, meter="cats", generation=1)


def rows_of(sealed: SealedTestSet, columns: list[str] | None = None) -> pa.Table:
    return pa.Table.from_batches(sealed.batches(columns))


def test_what_was_sealed_opens_for_every_recipient(
    path: Path, table: pa.Table, seal_it: Seal, meter_key: Identity, labeler_key: Identity
) -> None:
    manifest = seal_it(table, path, id_column="name", row_group_size=4)
    ids = OrderDigest()
    ids.update(table["name"].combine_chunks())
    assert manifest == Manifest(
        version=1,
        meter="cats",
        generation=1,
        rows=10,
        row_groups=3,
        columns=(
            Column("name", "string"),
            Column("size", "double"),
            Column("words", "list<item: string>"),
            Column("kind", "string"),
        ),
        label=Column("kind", "string"),
        id_column="name",
        order_digest=ids.hexdigest(),
        created="2026-03-01T12:00:00+00:00",
        sha256=manifest.sha256,
    )
    for key in (meter_key, labeler_key):
        with opened(path, key) as sealed:
            assert sealed.verify() == manifest
            assert (sealed.rows, sealed.row_groups, sealed.group_rows) == (10, 3, [4, 4, 2])
            assert sealed.inputs == ("size", "words")
            assert "bird" not in repr(sealed)
            assert rows_of(sealed).to_pydict() == table.to_pydict()
            assert rows_of(sealed, ["kind", "size"]).to_pydict() == {
                "kind": table["kind"].to_pylist(),
                "size": table["size"].to_pylist(),
            }
    assert os.listdir(path.parent) == ["cats.sealed"]


def test_the_digest_is_the_files(path: Path, table: pa.Table, seal_it: Seal) -> None:
    import hashlib

    manifest = seal_it(table, path)
    assert manifest.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


LABELS: list[pa.Array] = [
    pa.array([2, 0, 1, 0], pa.int64()),
    pa.array([2, 0, 1, 0], pa.int8()),
    pa.array([0.5, -1.0, 2.0, 0.0]),
    pa.array([True, False, True, True]),
    pa.array(["x", "y", "x", "z"]),
    pa.array(["x", "y", "x", "z"], pa.large_string()),
    pa.array(["x", "y", "x", "z"]).dictionary_encode(),
    pa.array([b"x", b"y", b"x", b""]),
    pa.array([[1], [], [1, 2], [3]]),
]


@pytest.mark.parametrize("labels", LABELS, ids=lambda labels: str(labels.type))
def test_labels_come_back_group_by_group(
    path: Path, seal_it: Seal, meter_key: Identity, labels: pa.Array
) -> None:
    manifest = seal_it(pa.table({"x": range(4), "kind": labels}), path, row_group_size=3)
    with opened(path, meter_key) as sealed:
        groups = [sealed.labels(group) for group in range(sealed.row_groups)]
        assert [value for group in groups for value in group.to_pylist()] == labels.to_pylist()
        if "string" in str(labels.type):
            assert manifest.label.type == "string"
            assert groups[0].dictionary == groups[1].dictionary == sealed.classes
            assert sealed.classes is not None
            assert sealed.classes.to_pylist() == ["x", "y", "z"]
        else:
            assert manifest.label.type == str(labels.type)
            assert groups[0].type == labels.type


def test_text_that_hardly_repeats_is_kept_as_it_is(
    path: Path, seal_it: Seal, meter_key: Identity, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(survey, "MOST_CLASSES", 3)
    labels = ["a", "b", "c", "d"]
    seal_it(pa.table({"kind": labels}), path)
    with opened(path, meter_key) as sealed:
        assert sealed.classes is None
        assert sealed.labels(0).to_pylist() == labels


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_files_are_sealed_in_their_order(
    tmp_path: Path, path: Path, seal_it: Seal, meter_key: Identity, ending: str
) -> None:
    source = tmp_path / f"source.{ending}"
    rows = pa.table({"x": np.arange(5000)[::-1], "kind": [f"k{i % 7}" for i in range(5000)]})
    write = pyarrow.csv.write_csv if ending == "csv" else pq.write_table
    write(rows, source)
    seal_it(source, path)
    with opened(path, meter_key) as sealed:
        assert rows_of(sealed).to_pydict() == rows.to_pydict()


def test_dictionaries_may_differ_from_batch_to_batch(
    tmp_path: Path, path: Path, seal_it: Seal, meter_key: Identity
) -> None:
    parts = [pa.array(text).dictionary_encode() for text in (["b", "a"], ["c", "b"])]
    source = tmp_path / "source.arrows"
    rows = pa.table({"x": pa.chunked_array(parts), "kind": pa.chunked_array(parts)})
    with pa.ipc.new_stream(source, rows.schema) as writer:
        writer.write_table(rows)
    seal_it(source, path)
    with opened(path, meter_key) as sealed:
        assert rows_of(sealed).to_pydict() == {"x": list("bacb"), "kind": list("bacb")}


def test_large_rows_make_smaller_groups(
    path: Path, seal_it: Seal, meter_key: Identity, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(containers, "GROUP_BYTES", 1)
    batches = [pa.record_batch({"x": [i], "kind": [i]}) for i in range(3)]
    assert seal_it(pa.Table.from_batches(batches), path).row_groups == 3


def test_odd_names_are_only_names(path: Path, seal_it: Seal, meter_key: Identity) -> None:
    rows = {"kind.x": [1], "kind": [2], "0": [3], "": [4], "in": [{"kind": 5}], "é\n": [6]}
    seal_it(pa.table(rows), path)
    with opened(path, meter_key) as sealed:
        assert sealed.labels(0).to_pylist() == [2]
        assert rows_of(sealed).to_pydict() == rows


REFUSED: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"kind": [1, None, 2, None]}, {}, "the label is missing in row 2, 4"),
    ({"kind": [1.0, float("nan")]}, {}, "the label is missing in row 2"),
    ({"kind": ["a", "", None]}, {}, "the label is missing in row 2, 3"),
    ({"kind": [None] * 9}, {}, "the label is missing in row 1, 2, 3, 4, 5 and 4 more"),
    ({"kind": [1, 2], "n": ["a", None]}, {"id_column": "n"}, "the id is missing in row 2"),
    ({"kind": [1], "n": [0.5]}, {"id_column": "n"}, "whole numbers or text"),
    ({"kind": []}, {}, "the table: no rows given"),
    ({"kind": [1], "x": [{}]}, {}, "column 'x' of type struct<> cannot be kept"),
    (
        {"kind": [1]},
        {"label": "sort"},
        r"no column 'sort' \(there are 'kind'\): name the label column",
    ),
    ({"kind": [1]}, {"id_column": "n"}, r"no column 'n' \(there are 'kind'\): name the id column"),
    ({"kind": [1]}, {"id_column": "kind"}, "must not be the label column"),
    ({"kind": [1]}, {"recipients": []}, "at least one public key"),
    ({"kind": [1]}, {"recipients": ["age1x"]}, "a public key is needed"),
    ({"kind": [1]}, {"meter": ""}, "a name and a number are needed"),
    ({"kind": [1]}, {"row_group_size": 0}, "at least 1 row"),
    ({"kind": [1]}, {"generation": -1}, "a name and a number are needed"),
]


@pytest.mark.parametrize(("rows", "settings", "message"), REFUSED, ids=lambda case: str(case)[:30])
def test_a_refusal_is_one_line_and_leaves_nothing(
    path: Path, seal_it: Seal, rows: dict[str, Any], settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidInput, match=message) as caught:
        seal_it(pa.table(rows), path, **settings)
    assert len(str(caught.value).splitlines()) == 1
    assert os.listdir(path.parent) == []


def test_missing_labels_are_numbered_across_batches(
    tmp_path: Path, path: Path, seal_it: Seal
) -> None:
    labels = np.ones(200_000)
    labels[[0, 65_536, 199_999]] = np.nan
    with pytest.raises(InvalidInput, match="missing in row 1, 65537, 200000"):
        seal_it(pa.table({"kind": labels}), path)


def test_nothing_is_overwritten(path: Path, table: pa.Table, seal_it: Seal) -> None:
    path.write_text("precious")
    with pytest.raises(InvalidInput, match="already exists"):
        seal_it(table, path)
    assert path.read_text() == "precious"


def test_a_folder_that_is_not_there_is_one_line(path: Path, table: pa.Table, seal_it: Seal) -> None:
    with pytest.raises(MeterError, match=r"cannot write .*: No such file or directory"):
        seal_it(table, path.parent / "nowhere" / "cats.sealed")


def test_a_source_that_changes_meanwhile_is_refused(
    tmp_path: Path, path: Path, table: pa.Table, seal_it: Seal, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "source.parquet"
    for changed in (table.slice(1), table.set_column(3, "kind", [["new"] * 10])):
        pq.write_table(table, source)
        real = survey.survey

        def then_change(*given: Any, changed: pa.Table = changed, real: Any = real) -> Any:
            found = real(*given)
            pq.write_table(changed, source)
            return found

        with monkeypatch.context() as patch:
            patch.setattr("easeml_meter.vault.sealing.survey", then_change)
            with pytest.raises(InvalidInput, match="changed while it was read"):
                seal_it(source, path)
        assert os.listdir(tmp_path) == ["source.parquet"]


def test_the_same_rows_have_the_same_fingerprint(
    tmp_path: Path, table: pa.Table, seal_it: Seal, meter_key: Identity
) -> None:
    def fingerprint(rows: pa.Table, name: str, **settings: Any) -> str:
        path = tmp_path / name
        seal_it(rows, path, **settings)
        with opened(path, meter_key) as sealed:
            return sealed.fingerprint(fingerprint_key(meter_key))

    first = fingerprint(table, "a", id_column="name")
    renamed = table.set_column(0, "name", pa.array([f"other-{i}" for i in range(10)]))
    shuffled = renamed.take([3, 1, 4, 0, 5, 9, 2, 6, 8, 7])
    assert fingerprint(shuffled, "b", id_column="name", row_group_size=3) == first
    other_label = table.set_column(3, "kind", [["cat", *table["kind"].to_pylist()[1:-1], "owl"]])
    assert fingerprint(other_label, "c", id_column="name") != first
    assert fingerprint(table, "d") != first, "without an id column, names are inputs"


def test_labels_alone_are_told_apart_by_ids_or_order(
    tmp_path: Path, seal_it: Seal, meter_key: Identity
) -> None:
    def fingerprint(rows: dict[str, Any], name: str, **settings: Any) -> str:
        path = tmp_path / name
        seal_it(pa.table(rows), path, **settings)
        with opened(path, meter_key) as sealed:
            return sealed.fingerprint(KEY)

    assert fingerprint({"kind": [0, 1]}, "a") != fingerprint({"kind": [1, 0]}, "b")
    assert fingerprint({"kind": [0, 1]}, "c") == fingerprint({"kind": [0, 1]}, "d")
    assert fingerprint({"": [0, 1]}, "nameless", label="") != fingerprint({"kind": [0, 1]}, "h")
    ids = {"n": ["a", "b"]}
    one = fingerprint({**ids, "kind": [0, 1]}, "e", id_column="n")
    assert one == fingerprint({"n": ["b", "a"], "kind": [1, 0]}, "f", id_column="n")
    assert one != fingerprint({**ids, "kind": [1, 0]}, "g", id_column="n")


@pytest.mark.parametrize("ending", ["parquet", "arrow", "csv", "jsonl"])
def test_a_release_is_the_whole_set_in_the_clear(
    tmp_path: Path, path: Path, seal_it: Seal, meter_key: Identity, ending: str
) -> None:
    rows = pa.table({"x": [0.5, None], "kind": ["b", "a"]})
    seal_it(rows, path, row_group_size=1)
    with opened(path, meter_key) as sealed:
        sealed.export(tmp_path / f"released.{ending}")
        with pytest.raises(InvalidInput, match="already exists"):
            sealed.export(tmp_path / f"released.{ending}")
    found = pa.Table.from_batches(open_table(tmp_path / f"released.{ending}").batches())
    assert found.to_pydict() == rows.to_pydict()


def test_a_release_that_cannot_be_written_leaves_nothing(
    tmp_path: Path, path: Path, table: pa.Table, seal_it: Seal, meter_key: Identity
) -> None:
    seal_it(table, path)
    with opened(path, meter_key) as sealed:
        with pytest.raises(InvalidInput, match=r"must end in .parquet"):
            sealed.export(tmp_path / "released.xls")
        with pytest.raises(InvalidInput, match="csv cannot hold these columns"):
            sealed.export(tmp_path / "released.csv")
    assert os.listdir(tmp_path) == ["cats.sealed"]


def test_unknown_columns_are_refused(
    path: Path, table: pa.Table, seal_it: Seal, meter_key: Identity
) -> None:
    seal_it(table, path)
    with opened(path, meter_key) as sealed, pytest.raises(InvalidInput, match="'sort' given"):
        rows_of(sealed, ["sort"])


def test_a_file_that_is_not_there_is_told_apart(tmp_path: Path, meter_key: Identity) -> None:
    with pytest.raises(InvalidInput, match=r"cannot be read \(No such file"):
        opened(tmp_path / "none.sealed", meter_key)
    with pytest.raises(InvalidInput, match="a folder given, a file needed"):
        opened(tmp_path, meter_key)


def test_the_data_key_is_fresh_and_can_be_injected(
    tmp_path: Path, table: pa.Table, seal_it: Seal, meter_key: Identity
) -> None:
    asked: list[int] = []

    def random(size: int) -> bytes:
        asked.append(size)
        return bytes(size)

    seal_it(table, tmp_path / "a", random=random)
    assert asked == [32, 32]  # and the secret that edges are drawn with
    with opened(tmp_path / "a", meter_key) as sealed:
        assert sealed.rows == 10


def test_only_labels_are_read_for_labels(
    path: Path, seal_it: Seal, meter_key: Identity, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = 50_000
    random = np.random.default_rng(0)
    seal_it(pa.table({"x": random.random(rows), "kind": np.arange(rows) % 2}), path)
    read = 0
    real = os.pread

    def counting(descriptor: int, size: int, offset: int) -> bytes:
        nonlocal read
        read += size
        return real(descriptor, size, offset)

    monkeypatch.setattr(os, "pread", counting)
    with opened(path, meter_key) as sealed:
        sealed.labels(0)
    assert 8 * rows < read < 1.2 * 8 * rows < path.stat().st_size / 1.5


def test_threads_read_side_by_side(path: Path, seal_it: Seal, meter_key: Identity) -> None:
    labels = np.arange(20_000) % 7
    seal_it(pa.table({"x": labels * 0.5, "kind": labels}), path, row_group_size=500)

    def read(group: int) -> list[int]:
        with opened(path, meter_key) as sealed:
            return list(sealed.labels(group).to_pylist())

    with ThreadPoolExecutor(4) as pool:
        found = [label for group in pool.map(read, range(40)) for label in group]
    assert found == labels.tolist()


@pytest.mark.parametrize("kind", ["text", "number"])
def test_the_size_on_disk_does_not_tell_the_labels(
    tmp_path: Path, seal_it: Seal, kind: str
) -> None:
    """Sizes may differ by what a different number of digits in an offset takes."""
    rows = 20_000
    rare, even = np.zeros(rows, int), np.arange(rows) % 3
    rare[:2] = [1, 2]
    sizes = []
    for name, codes in {"rare": rare, "even": even}.items():
        labels = np.array(["no", "perhaps", "most certainly"])[codes] if kind == "text" else codes
        path = tmp_path / name
        seal_it(pa.table({"x": range(rows), "kind": labels}), path, recipients=[PUBLIC])
        with path.open("rb") as stream:
            stream.seek(-4, os.SEEK_END)
            blob = int.from_bytes(stream.read(), "little")  # age pads it at random
        sizes.append(path.stat().st_size - blob)
    assert abs(sizes[0] - sizes[1]) <= 2


PUBLIC = "age1zvkyg2lqzraa2lnjvqej32nkuu0ues2s82hzrye869xeexvn73equnujwj"


def test_vault_errors_are_one_line_of_the_base_kind() -> None:
    assert issubclass(VaultError, MeterError)
    assert VaultError.exit_code == 1


@pytest.mark.parametrize("columns", [["name", "size", "kind"], ["name", "kind"], ["kind"]])
def test_a_batch_has_the_fingerprint_it_had_by_itself(
    tmp_path: Path, table: pa.Table, seal_it: Seal, meter_key: Identity, columns: list[str]
) -> None:
    sizes = (1, 5, 4)
    chosen = table.select(columns)
    whole, *alone = (tmp_path / f"{number}.sealed" for number in range(len(sizes) + 1))
    names = "name" if "name" in columns else None
    seal_it(chosen, whole, id_column=names, row_group_size=4)
    found = []
    for at, (path, size) in enumerate(zip(alone, sizes, strict=True)):
        seal_it(chosen.slice(sum(sizes[:at]), size), path, id_column=names, row_group_size=2)
        with opened(path, meter_key) as sealed:
            found.append(sealed.fingerprint(KEY))
    with opened(whole, meter_key) as sealed:
        assert sealed.fingerprints(KEY, sizes) == found
        assert sealed.fingerprints(KEY, [10]) == [sealed.fingerprint(KEY)]
    assert len({*found}) == len(sizes)
