from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pytest

from easeml_meter.errors import InvalidInput, VaultError
from easeml_meter.tables.opening import open_table
from easeml_meter.vault.blobs import decrypt_bytes, encrypt_bytes, keep_table, open_kept_table
from easeml_meter.vault.keys import Identity

PLACE = ("cats", 1, "submission-7")


def test_a_table_is_kept_for_one_key_and_one_place(
    tmp_path: Path, table: pa.Table, meter_key: Identity
) -> None:
    path = tmp_path / "kept"
    digest = keep_table(open_table(table), path, bound_to=PLACE, recipients=[meter_key.recipient])
    with open_kept_table(path, meter_key, bound_to=PLACE) as kept:
        assert kept.verify() == digest
        assert kept.rows == 10
        assert pa.Table.from_batches(kept.batches()).to_pydict() == table.to_pydict()
    for key, place in [(Identity.new(), PLACE), (meter_key, ("cats", 1, "submission-8"))]:
        with pytest.raises(VaultError, match="the kept table cannot be opened"):
            open_kept_table(path, key, bound_to=place)
    assert b"row-1" not in path.read_bytes()


def test_a_kept_table_is_not_replaced(tmp_path: Path, table: pa.Table, meter_key: Identity) -> None:
    path = tmp_path / "kept"
    path.write_text("precious")
    with pytest.raises(InvalidInput, match="already exists"):
        keep_table(open_table(table), path, bound_to=PLACE, recipients=[meter_key.recipient])
    assert os.listdir(tmp_path) == ["kept"]


def test_bytes_open_for_their_key_alone(meter_key: Identity) -> None:
    blob = encrypt_bytes(b"predictions" * 9999, [meter_key.recipient])
    assert b"predictions" not in blob
    assert decrypt_bytes(blob, meter_key) == b"predictions" * 9999
    for wrong in (blob[:-1], blob + b"\0", blob[: len(blob) // 2], b""):
        with pytest.raises(VaultError, match="cannot be opened"):
            decrypt_bytes(wrong, meter_key)
    with pytest.raises(VaultError, match="cannot be opened"):
        decrypt_bytes(blob, Identity.new())
