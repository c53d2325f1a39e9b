"""A file in memory is read as the file itself would be, and no file is opened for it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from tests.scoring.examples import ANIMALS, DIGITS, expected, write

from easeml_meter.errors import InvalidInput
from easeml_meter.scoring import predictions as module
from easeml_meter.scoring.outputs import Expected
from easeml_meter.scoring.predictions import Predictions
from easeml_meter.tables import table as text
from easeml_meter.tables.opening import open_raw, open_table
from easeml_meter.tables.source import Given, Held, for_arrow, source_of

FORMATS = (".parquet", ".arrow", ".arrows", ".csv", ".tsv", ".jsonl", ".json", ".npy")
LISTS = tuple(ending for ending in FORMATS if ending not in (".csv", ".tsv"))
CLASSES = ["owl", "cat", "cat", "dog", "owl", "owl", "dog"]
SCORES = [[0.25, 0.5, 0.25], [0.5, 0.0, 0.5], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are named without a folder, as what comes in a submission is."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)


def put(path: Path, columns: dict[str, Any]) -> None:
    if path.suffix == ".tsv":
        pyarrow.csv.write_csv(pa.table(columns), path, pyarrow.csv.WriteOptions(delimiter="\t"))
    else:
        write(path, columns)


def made(ending: str, columns: dict[str, Any]) -> Held:
    """Write a file, take it into memory, remove it."""
    path = Path(f"p{ending}")
    put(path, columns)
    content = path.read_bytes()
    path.unlink()
    return Held(path.name, content)


def on_disk(held: Held) -> Path:
    path = Path(held.name)
    path.write_bytes(held.content)
    return path


def read(given: Given, needed: Expected) -> object:
    """Give all that predictions are, or the line that they are refused with."""
    try:
        found = Predictions.open(given, expected=needed)
        half = found.rows // 2
        values = np.concatenate(list(found.batches([half, found.rows - half])))
    except InvalidInput as error:
        return str(error)
    table = found.table
    return (
        found.digest,
        values.tolist(),
        values.dtype,
        found.layout,
        (table.name, table.schema, table.rows, type(table)),
    )


def read_alike(held: Held, needed: Expected) -> object:
    """Read from memory and, after that, from a file of that name."""
    in_memory = read(held, needed)
    path = on_disk(held)
    assert in_memory == read(path, needed)
    path.unlink()
    return in_memory


@pytest.fixture(params=[True, False], ids=["kept", "read again"])
def _kept(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if not request.param:
        monkeypatch.setattr(module, "KEEP_BYTES", 0)


# --- Good files ---


@pytest.mark.usefixtures("_kept")
@pytest.mark.parametrize("ending", FORMATS)
class TestFormats:
    @pytest.mark.parametrize(
        ("column", "loss", "wanted"),
        [
            (CLASSES, "0-1", [2, 0, 0, 1, 2, 2, 1]),
            ([1.0, 0.5, 0.25, 0.125, 0.0], "absolute[0,1]", [1.0, 0.5, 0.25, 0.125, 0.0]),
            ([1, 0], "squared[0,1]", [1.0, 0.0]),
        ],
        ids=["classes", "numbers", "whole numbers"],
    )
    def test_a_column(self, ending: str, column: list[Any], loss: str, wanted: list[Any]) -> None:
        held = made(ending, {"prediction": column})
        found = read_alike(held, expected(len(column), loss, ANIMALS))
        assert isinstance(found, tuple)
        assert found[:2] == (hashlib.sha256(held.content).hexdigest(), wanted)

    def test_any_case_of_the_ending(self, ending: str) -> None:
        plain = made(ending, {"prediction": CLASSES})
        found = read_alike(Held(f"p{ending.upper()}", plain.content), expected(7, "0-1", ANIMALS))
        assert isinstance(found, tuple)
        assert found[1] == [2, 0, 0, 1, 2, 2, 1]


@pytest.mark.usefixtures("_kept")
@pytest.mark.parametrize("ending", LISTS)
def test_lists_of_scores(ending: str) -> None:
    held = made(ending, {"prediction": SCORES})
    found = read_alike(held, expected(4, "brier", ANIMALS))
    assert isinstance(found, tuple)
    assert found[1] == SCORES
    read_alike(held, expected(4, "top-2", ANIMALS))


@pytest.mark.parametrize("ending", FORMATS[:-1])
def test_several_columns(ending: str) -> None:
    held = made(ending, {"x": [1.5, 2.5], "prediction": ["cat", "owl"], "id": [7, 8]})
    found = read_alike(held, expected(2, "0-1", ANIMALS))
    assert isinstance(found, tuple)
    assert found[1] == [0, 2]


@pytest.mark.parametrize("ending", [".csv", ".tsv", ".jsonl"])
def test_more_than_one_block(ending: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "BLOCK", 64)
    column = [row % 10 for row in range(500)]
    held = made(ending, {"prediction": column})
    found = read_alike(held, expected(500, "0-1", DIGITS))
    assert isinstance(found, tuple)
    assert found[1] == column


def test_several_readers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WORKER_ROWS", 10)
    monkeypatch.setattr(module, "WORKERS", 4)
    column = [row % 10 for row in range(200)]
    found = read_alike(made(".parquet", {"prediction": column}), expected(200, "0-1", DIGITS))
    assert isinstance(found, tuple)
    assert found[1] == column


@pytest.mark.parametrize("ending", FORMATS)
@pytest.mark.parametrize("opener", [open_table, open_raw])
def test_tables_are_read_alike_again_and_again(ending: str, opener: Callable[[Given], Any]) -> None:
    held = made(ending, {"prediction": [3, 1, 4, 1, 5, 9]})
    table = opener(held)
    rows = [pa.Table.from_batches(table.batches()).to_pydict() for _ in range(2)]
    table.check_unchanged()
    same = opener(on_disk(held))
    assert rows == [pa.Table.from_batches(same.batches()).to_pydict()] * 2
    assert (table.schema, table.digest()) == (same.schema, same.digest())


# --- Bad files ---


@pytest.mark.parametrize("ending", FORMATS)
class TestRefusals:
    """Word for word those of a file."""

    def refused(self, held: Held, needed: Expected) -> str:
        line = read_alike(held, needed)
        assert isinstance(line, str)
        assert line.startswith(f"{held.name}: ")
        assert line.isprintable()
        return line

    def test_the_number_of_rows(self, ending: str) -> None:
        held = made(ending, {"prediction": [1, 2, 3]})
        for rows in (2, 4, 10**12):
            line = self.refused(held, expected(rows, "0-1", DIGITS))
            assert f"3 rows given, {rows:,} needed" in line

    def test_an_unknown_class(self, ending: str) -> None:
        held = made(ending, {"prediction": ["cat", "dog", "cat", "bee"]})
        assert "row 4: 'bee' given" in self.refused(held, expected(4, "0-1", ANIMALS))

    def test_a_number_out_of_range(self, ending: str) -> None:
        held = made(ending, {"prediction": [0.5, 1.0, 1.5]})
        assert "row 3: 1.5 given" in self.refused(held, expected(3, "absolute[0,1]"))

    def test_an_empty_file(self, ending: str) -> None:
        line = self.refused(Held(f"p{ending}", b""), expected(3, "0-1", DIGITS))
        assert "an empty file given" in line

    def test_nonsense(self, ending: str) -> None:
        for content in (b"\n", b"hush", b"PAR1hushPAR1", b"\xff" * 100, b"\0"):
            line = self.refused(Held(f"p{ending}", content), expected(3, "0-1", DIGITS))
            assert "hush" not in line.replace("'hush'", "")

    def test_a_file_cut_short_anywhere(self, ending: str) -> None:
        held = made(ending, {"prediction": [3, 1, 4, 1, 5, 9, 2, 6]})
        step = max(1, len(held.content) // 40)
        for length in range(0, len(held.content) - 2, step):
            cut = Held(held.name, held.content[:length])
            assert isinstance(read_alike(cut, expected(8, "0-1", DIGITS)), str)

    def test_a_byte_flipped_anywhere(self, ending: str) -> None:
        """Refused, or read as something else: alike in any case."""
        held = made(ending, {"prediction": [3, 1, 4, 1, 5, 9, 2, 6]})
        whole = held.content
        for place in range(0, len(whole), max(1, len(whole) // 40)):
            flipped = whole[:place] + bytes([whole[place] ^ 0x55]) + whole[place + 1 :]
            read_alike(Held(held.name, flipped), expected(8, "0-1", DIGITS))


@pytest.mark.parametrize("name", ["p.xls", "p", "p.parquet.exe", "p." + "x" * 150, "p\x1b[31m.csv"])
def test_names_that_are_none_of_a_table(name: str) -> None:
    line = read_alike(Held(name, b"hush"), expected(3, "0-1", DIGITS))
    assert isinstance(line, str)
    assert line.isprintable()


# --- It is no path ---


def test_it_cannot_be_taken_for_a_path() -> None:
    on_disk(Held("p.csv", b"prediction\n1\n"))
    held: Any = Held("p.csv", b"prediction\n2\n")
    assert not isinstance(held, os.PathLike | str | bytes)
    uses: tuple[Callable[[Any], object], ...] = (os.fspath, Path, open, os.stat, pa.OSFile)
    for use in uses:
        with pytest.raises(TypeError):
            use(held)


def test_it_is_what_it_was_made_of() -> None:
    held = Held("p.tar.CSV", b"content")
    assert held.suffix == ".CSV"
    assert held.read_bytes() == b"content"
    assert held.absolute() is held
    with held.open("rb") as file:
        assert file.read() == b"content"
    assert source_of(held) is held
    assert not isinstance(for_arrow(held), str)
    assert source_of("p.csv") == Path("p.csv")
    assert for_arrow(Path("p.csv")) == "p.csv"


def test_its_content_is_not_shown() -> None:
    assert "hush" not in repr(Held("p.csv", b"hush"))


def another_file(name: str) -> None:
    """Other columns, other rows, other classes: whatever is taken from it would show."""
    put(Path(name), {"prediction": ["hush", "hush"], "id": [1, 2]})


def nonsense(name: str) -> None:
    Path(name).write_bytes(b"hush")


def an_empty_file(name: str) -> None:
    Path(name).touch()


def a_folder(name: str) -> None:
    Path(name).mkdir()


def a_link_to_nowhere(name: str) -> None:
    Path(name).symlink_to("nowhere")


LIES = (another_file, nonsense, an_empty_file, a_folder, a_link_to_nowhere)


@pytest.mark.usefixtures("_kept")
@pytest.mark.parametrize("ending", FORMATS)
def test_what_lies_there_under_its_name_is_never_opened(
    ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = made(ending, {"prediction": CLASSES})
    for lying in LIES:
        folder = tmp_path / lying.__name__
        folder.mkdir()
        monkeypatch.chdir(folder)
        lying(held.name)
        found = read(held, expected(7, "0-1", ANIMALS))
        assert isinstance(found, tuple), found
        assert found[:2] == (hashlib.sha256(held.content).hexdigest(), [2, 0, 0, 1, 2, 2, 1])


@pytest.mark.parametrize("name", ["/etc/passwd.csv", "../p.csv", "p/../p.csv"])
def test_a_name_leads_nowhere(name: str, tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text("prediction\nhush\n")
    found = read(Held(name, b"prediction\ncat\n"), expected(1, "0-1", ANIMALS))
    assert isinstance(found, tuple), found
    assert found[1] == [0]


def test_a_dot_at_the_end_is_no_ending() -> None:
    lines = []
    for given in (on_disk(Held("test.", b"x")), Held("test.", b"x")):
        with pytest.raises(InvalidInput) as refused:
            open_raw(given)
        lines.append(str(refused.value))
    assert lines[0] == lines[1]
    assert "no ending given" in lines[0]
