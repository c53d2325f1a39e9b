"""A sealed file that decodes to gigabytes is refused before the server's own process opens it."""

from __future__ import annotations

import pickle
import re
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from tests.tables.costs import cost_of
from tests.vault.conftest import Seal
from tests.vault.forging import forged

from easeml_meter.errors import TooLarge, VaultError
from easeml_meter.tables import apart
from easeml_meter.tables.source import USUAL_LIMITS
from easeml_meter.vault.inspection import Delivered, Inspected
from easeml_meter.vault.keys import Identity
from easeml_meter.vault.sealing import SealedTestSet

pytestmark = pytest.mark.usefixtures("apart")

MEGABYTES = 100
"""What a refusal may take of the process that asked; each file here stands for at least 1,000."""


def texts(rows: int, size: int) -> pa.Table:
    words = pa.DictionaryArray.from_arrays(np.zeros(rows, np.int32), ["x" * size])
    return pa.table({"label": np.zeros(rows, np.int8), "x": words})


def long_texts(path: Path, key: Identity) -> Path:
    return forged(path, key, [texts(4000, 1 << 20)])


def many_groups(path: Path, key: Identity) -> Path:
    return forged(path, key, [texts(200, 1 << 20)] * 12)


def long_classes(path: Path, key: Identity) -> Path:
    label = pa.table({"label": np.zeros(100_000, np.int8)})
    return forged(path, key, [label], classes=["x" * 20_000])


@pytest.mark.parametrize("make", [long_texts, many_groups, long_classes])
def test_a_small_file_costs_little(make: Any, tmp_path: Path, meter_key: Identity) -> None:
    """Before, a server decoded it: gigabytes, in the process that holds the keys."""
    path = make(tmp_path / "bomb.sealed", meter_key)
    assert path.stat().st_size < 1 << 20
    meter_key.write(path.with_suffix(".key"))
    cost = cost_of("sealed", path)
    assert cost.megabytes < MEGABYTES
    assert re.search("most_decoded_bytes|times its size", cost.refusal), cost.refusal


def delivered(path: Path, key: Identity, *generations: int) -> Delivered:
    return Delivered.of(path, key, meter="cats", generations=generations or (1,))


def test_an_ordinary_file_is_read_by_a_child(
    tmp_path: Path, table: pa.Table, seal_it: Seal, meter_key: Identity
) -> None:
    """It says the same as this process does, and is told which other test set a file is for."""
    manifest = seal_it(table, tmp_path / "cats.sealed")
    given = delivered(tmp_path / "cats.sealed", meter_key)
    found = given.inspect_apart(USUAL_LIMITS)
    assert found == given.inspect() == Inspected(1, manifest.sha256)
    other = delivered(tmp_path / "cats.sealed", meter_key, 3, 1)
    assert other.inspect_apart(USUAL_LIMITS) == other.inspect() == Inspected(1, "")


def test_a_damaged_file_is_refused_as_everywhere(
    tmp_path: Path, table: pa.Table, seal_it: Seal, meter_key: Identity
) -> None:
    path = tmp_path / "cats.sealed"
    seal_it(table, path)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    for inspect in (delivered(path, meter_key).inspect, delivered(path, meter_key).inspect_apart):
        with pytest.raises(VaultError, match="cannot be opened: it is damaged, or was sealed for"):
            inspect(USUAL_LIMITS)


def test_a_child_that_dies_is_one_refusal(
    tmp_path: Path, table: pa.Table, seal_it: Seal, meter_key: Identity
) -> None:
    """As one does whose time is over."""
    seal_it(table, tmp_path / "cats.sealed")
    with (
        mock.patch.object(apart, "_PATIENCE", 0.0001),
        pytest.raises(
            TooLarge,
            match=r"memory or .* seconds are needed to read it",
        ),
    ):
        delivered(tmp_path / "cats.sealed", meter_key).inspect_apart(USUAL_LIMITS)


def test_a_child_gets_the_key_of_its_file_and_no_other(
    tmp_path: Path, table: pa.Table, seal_it: Seal, meter_key: Identity
) -> None:
    seal_it(table, tmp_path / "cats.sealed")
    given = delivered(tmp_path / "cats.sealed", meter_key)
    assert b"AGE-SECRET" not in pickle.dumps(given)
    with SealedTestSet.open(tmp_path / "cats.sealed", meter_key, meter="cats", generation=1) as own:
        assert own.grant()._secret.hex() not in repr(given)
