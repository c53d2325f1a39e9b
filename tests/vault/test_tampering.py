"""Whatever was done to a sealed file, there is one answer, and nothing is written."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from tests.vault.conftest import Seal

from easeml_meter.errors import VaultError
from easeml_meter.vault import containers
from easeml_meter.vault.keys import Identity
from easeml_meter.vault.sealing import SealedTestSet

MESSAGE = (
    "the sealed test set cannot be opened: it is damaged, or was sealed for another meter, "
    "generation or key"
)
LABELS = ["no", "yes", "no"]


@pytest.fixture
def path(tmp_path: Path, seal_it: Seal, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small file: every byte of it will be tried."""
    monkeypatch.setattr(containers, "_NOTES_BLOCK", 1)
    path = tmp_path / "cats.sealed"
    rows = pa.table({"x": [1.5, 2.5, 3.5], "kind": LABELS})
    seal_it(rows, path, row_group_size=2)
    return path


def outcome(path: Path, key: Identity, meter: str = "cats", generation: int = 1) -> str:
    """Open, read and verify; say what was refused, and see that the rest is true."""
    refused = []
    try:
        with SealedTestSet.open(path, key, meter=meter, generation=generation) as sealed:
            for step in ("labels", "verify"):
                try:
                    if step == "labels":
                        groups = map(sealed.labels, range(sealed.row_groups))
                        assert [label.as_py() for group in groups for label in group] == LABELS
                    else:
                        sealed.verify()
                except VaultError as error:
                    refused.append((step, str(error)))
    except VaultError as error:
        refused.append(("open", str(error)))
    assert {message for _, message in refused} <= {MESSAGE}
    return " and ".join(step for step, _ in refused) or "accepted"


@pytest.fixture
def changed(path: Path) -> Iterator[int]:
    """The file, to be changed in place."""
    descriptor = os.open(path, os.O_RDWR)
    yield descriptor
    os.close(descriptor)


def flip(path: Path, changed: int, key: Identity, bits: int) -> set[str]:
    """Try every byte with each of `bits` bits flipped, one after the other."""
    original = path.read_bytes()
    found = set()
    for position, byte in enumerate(original):
        for bit in range(bits):
            other = byte ^ 1 << (position + 3 * bit) % 8
            os.pwrite(changed, bytes([other]), position)
            result = outcome(path, key)
            assert result != "accepted", (position, bit)
            found.add(result)
        os.pwrite(changed, bytes([byte]), position)
    assert outcome(path, key) == "accepted"
    return found


def test_no_byte_can_be_changed(path: Path, changed: int, meter_key: Identity) -> None:
    found = flip(path, changed, meter_key, bits=3)
    assert found == {"open", "labels and verify", "verify"}
    assert os.listdir(path.parent) == ["cats.sealed"]


@pytest.mark.verify
def test_no_bit_can_be_changed(path: Path, changed: int, meter_key: Identity) -> None:
    flip(path, changed, meter_key, bits=8)


def test_no_length_can_be_cut(path: Path, meter_key: Identity) -> None:
    for length in range(path.stat().st_size - 1, -1, -1):
        os.truncate(path, length)
        assert outcome(path, meter_key) == "open", length


@pytest.mark.parametrize("more", [b"\0", b"more" * 1000])
def test_nothing_can_be_added(path: Path, meter_key: Identity, more: bytes) -> None:
    original = path.read_bytes()
    for position in (0, 8, len(original) // 2, len(original) - 4, len(original)):
        path.write_bytes(original[:position] + more + original[position:])
        assert outcome(path, meter_key) in ("open", "verify", "labels and verify")


def test_another_meter_generation_or_key_is_the_same_refusal(
    path: Path, meter_key: Identity, labeler_key: Identity
) -> None:
    assert outcome(path, meter_key) == outcome(path, labeler_key) == "accepted"
    assert outcome(path, Identity.new()) == "open"
    for meter, generation in [("dogs", 1), ("cats", 2), ("", 1), ('cats", 1', 1), ("cat", 51)]:
        assert outcome(path, meter_key, meter, generation) == "open"


def test_parts_of_two_files_do_not_fit(
    path: Path, tmp_path: Path, seal_it: Seal, meter_key: Identity
) -> None:
    """Neither with the other's wrapped key, nor with the other's row groups."""
    other = tmp_path / "other.sealed"
    seal_it(pa.table({"x": [4.5, 5.5, 6.5], "kind": LABELS}), other, row_group_size=2)
    one, two = path.read_bytes(), other.read_bytes()
    blob = int.from_bytes(two[-4:], "little") + 4
    own = int.from_bytes(one[-4:], "little") + 4
    for mixed in (one[:-own] + two[-blob:], two[:200] + one[200:], one[:200] + two[200:]):
        path.write_bytes(mixed)
        assert outcome(path, meter_key) in ("open", "labels and verify", "verify")


def test_a_column_cannot_be_swapped_within_the_file(
    tmp_path: Path, seal_it: Seal, meter_key: Identity
) -> None:
    """Two row groups of the same size: one put in the other's place is noticed."""
    path = tmp_path / "cats.sealed"
    seal_it(pa.table({"kind": list(range(2000))}), path, row_group_size=1000)
    raw = path.read_bytes()
    size = 8 * 1000
    with SealedTestSet.open(path, meter_key, meter="cats", generation=1) as sealed:
        groups = sealed._container._file.metadata
        starts = [8 + groups.row_group(i).column(0).data_page_offset for i in range(2)]
        lengths = {groups.row_group(i).column(0).total_compressed_size for i in range(2)}
    (length,) = lengths
    assert length > size
    first, second = (raw[start : start + length] for start in starts)
    swapped = bytearray(raw)
    swapped[starts[0] : starts[0] + length] = second
    swapped[starts[1] : starts[1] + length] = first
    path.write_bytes(swapped)
    with SealedTestSet.open(path, meter_key, meter="cats", generation=1) as sealed:
        with pytest.raises(VaultError, match="cannot be opened"):
            sealed.labels(0)
        with pytest.raises(VaultError, match="cannot be opened"):
            sealed.verify()


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_a_damaged_set_is_not_released_not_even_in_part(
    path: Path, changed: int, meter_key: Identity, ending: str
) -> None:
    with SealedTestSet.open(path, meter_key, meter="cats", generation=1) as sealed:
        os.pwrite(changed, b"\xff\xff", 60)
        with pytest.raises(VaultError, match="cannot be opened"):
            sealed.export(path.with_suffix(f".{ending}"))
    assert os.listdir(path.parent) == ["cats.sealed"]


def test_a_set_damaged_while_it_is_released_leaves_nothing(
    path: Path, changed: int, meter_key: Identity, monkeypatch: pytest.MonkeyPatch
) -> None:
    with SealedTestSet.open(path, meter_key, meter="cats", generation=1) as sealed:
        monkeypatch.setattr(containers.Container, "verify", lambda _: "")
        os.pwrite(changed, bytes(400), 300)
        with pytest.raises(VaultError, match="cannot be opened"):
            sealed.export(path.with_suffix(".parquet"))
    assert os.listdir(path.parent) == ["cats.sealed"]


@pytest.mark.parametrize("content", [b"", b"x", b"EMSEAL\n\x01", b"PAR1" * 100, b"\0" * 5000])
def test_what_never_was_sealed_is_the_same_refusal(
    tmp_path: Path, meter_key: Identity, content: bytes
) -> None:
    path = tmp_path / "cats.sealed"
    path.write_bytes(content)
    assert outcome(path, meter_key) == "open"


def test_the_cause_is_not_shown(path: Path, meter_key: Identity) -> None:
    import traceback

    with pytest.raises(VaultError) as caught:
        SealedTestSet.open(path, meter_key, meter="dogs", generation=1)
    shown = "".join(traceback.format_exception(caught.value))
    assert "decrypt" not in shown.lower().replace("decryption_properties", "")
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__
