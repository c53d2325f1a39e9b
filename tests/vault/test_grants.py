"""A sealed set opened elsewhere: by its own secret alone, and from where fsspec reaches."""

from __future__ import annotations

import os
import pickle
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import fsspec
import numpy as np
import pyarrow as pa
import pytest
from s3fs.core import S3File
from tests.vault.conftest import Seal

from easeml_meter.errors import InvalidInput, MeterError, VaultError
from easeml_meter.storage.files import copy_into, open_files
from easeml_meter.vault.keys import Identity
from easeml_meter.vault.sealing import Grant, SealedTestSet

URL = "memory://grants/cats.sealed"


@pytest.fixture
def path(tmp_path: Path, table: pa.Table, seal_it: Seal) -> Path:
    seal_it(table, tmp_path / "cats.sealed", row_group_size=4)
    return tmp_path / "cats.sealed"


@pytest.fixture
def grant(path: Path, meter_key: Identity) -> Grant:
    with SealedTestSet.open(path, meter_key, meter="cats", generation=1) as sealed:
        return sealed.grant()


def test_a_grant_opens_the_set_in_another_process(grant: Grant, table: pa.Table) -> None:
    sent: Grant = pickle.loads(pickle.dumps(grant))  # noqa: S301
    assert sent == grant
    with sent.open() as sealed:
        assert pa.Table.from_batches(sealed.batches()) == table
        assert sealed.verify().rows == 10
        assert sealed.grant() == grant


def test_a_grant_is_for_one_set(grant: Grant, tmp_path: Path, seal_it: Seal) -> None:
    seal_it(pa.table({"kind": [1, 2, 3]}), tmp_path / "other.sealed")
    for other in (
        replace(grant, generation=2),
        replace(grant, meter="dogs"),
        replace(grant, location=str(tmp_path / "other.sealed")),
        replace(grant, _secret=bytes(64)),
        replace(grant, _secret=b""),
    ):
        with pytest.raises(VaultError, match="cannot be opened"):
            other.open()


def test_a_grant_finds_a_changed_file(grant: Grant, path: Path) -> None:
    raw = bytearray(path.read_bytes())
    raw[20] ^= 1
    path.write_bytes(raw)
    with grant.open() as sealed, pytest.raises(VaultError):
        sealed.verify()


def test_no_repr_tells_the_secret(grant: Grant, path: Path, meter_key: Identity) -> None:
    with SealedTestSet.open(path, meter_key, meter="cats", generation=1) as sealed:
        shown = repr([grant, sealed, *sealed.label_groups()]) + str(grant)
    for secret in (grant._secret, grant._secret[:32]):
        assert repr(secret)[2:-1] not in shown
        assert secret.hex() not in shown
    assert "cats.sealed" in shown


def test_labels_are_decrypted_where_they_are_read(
    grant: Grant, path: Path, meter_key: Identity, table: pa.Table
) -> None:
    with SealedTestSet.open(path, meter_key, meter="cats", generation=1) as sealed:
        groups = list(sealed.label_groups())
    assert [len(group) for group in groups] == [4, 4, 2]
    read = pa.chunked_array([group.read() for group in pickle.loads(pickle.dumps(groups))])  # noqa: S301
    assert read.cast(pa.string()) == table["kind"]
    with grant.open() as sealed:
        gathered = list(sealed.label_groups([range(2), range(2, 3)]))
    assert [len(group) for group in gathered] == [8, 2]
    assert pa.chunked_array([group.read() for group in gathered]) == read
    path.unlink()
    with pytest.raises(InvalidInput, match="cannot be read"):
        groups[0].read()


def test_only_some_row_groups(grant: Grant, table: pa.Table) -> None:
    with grant.open() as sealed:
        found = pa.Table.from_batches(sealed.batches(["size", "kind"], range(1, 3)))
        assert found == table.select(["size", "kind"]).slice(4)
        assert list(sealed.batches(["size"], range(2, 2))) == []


def test_a_grant_holds_in_another_folder(
    path: Path, meter_key: Identity, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(path.parent)
    with SealedTestSet.open(path.name, meter_key, meter="cats", generation=1) as sealed:
        grant = sealed.grant()
    monkeypatch.chdir(os.sep)
    with grant.open() as sealed:
        assert sealed.rows == 10


def test_a_set_is_read_from_where_fsspec_reaches(
    path: Path, meter_key: Identity, table: pa.Table
) -> None:
    with path.open("rb") as source, fsspec.open(URL, "wb") as target:
        shutil.copyfileobj(source, target)
    with SealedTestSet.open(path, meter_key, meter="cats", generation=1) as sealed:
        manifest = sealed.verify()
    with SealedTestSet.open(URL, meter_key, meter="cats", generation=1) as sealed:
        assert sealed.verify() == manifest
        grant = sealed.grant()
    assert grant.location == URL
    with grant.open() as sealed:
        assert pa.Table.from_batches(sealed.batches()) == table
        assert sealed.labels(2).to_pylist() == table["kind"].to_pylist()[8:]
    fsspec.filesystem("memory").pipe(URL, b"EMSEAL\n\x01 cut short")
    with pytest.raises(VaultError):
        grant.open()


def test_no_more_is_read_from_a_store_than_is_needed(
    tmp_path: Path, seal_it: Seal, meter_key: Identity, s3_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task of one row group must not be sent the rest of the set."""
    rows, groups = 1 << 17, 16
    table = pa.table({"kind": np.arange(rows), "size": np.random.default_rng(1).random(rows)})
    seal_it(table, tmp_path / "big.sealed", row_group_size=rows // groups)
    files = open_files(s3_url)
    copy_into(files, "big.sealed", tmp_path / "big.sealed")
    sent: list[int] = []
    fetch = S3File._fetch_range

    def counted(self: S3File, start: int, end: int) -> bytes:
        found: bytes = fetch(self, start, end)
        sent.append(len(found))
        return found

    monkeypatch.setattr(S3File, "_fetch_range", counted)
    url = files.location("big.sealed")
    with SealedTestSet.open(url, meter_key, meter="cats", generation=1) as sealed:
        group = next(sealed.label_groups([range(7, 8)]))
    assert group.read().to_pylist() == table["kind"].to_pylist()[7 * len(group) :][: len(group)]
    assert sum(sent) < (tmp_path / "big.sealed").stat().st_size / 4


def test_urls_that_cannot_be_read(meter_key: Identity, monkeypatch: pytest.MonkeyPatch) -> None:
    def refusal(url: str) -> str:
        with pytest.raises(MeterError) as refused:
            SealedTestSet.open(url, meter_key, meter="cats", generation=1)
        assert "\n" not in str(refused.value)
        return str(refused.value)

    assert "there is none" in refusal("memory://grants/missing")
    assert "cannot be read here" in refusal("nonsense://bucket/name")
    monkeypatch.setitem(sys.modules, "fsspec", None)
    assert "pip install 'easeml-meter[s3]'" in refusal(URL)
