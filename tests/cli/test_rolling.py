"""A rolling test set at the command line: a batch joins, another is fetched."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.running import run
from tests.service.testsets.test_windows import Rolled


def test_batches_are_listed_and_fetched_as_they_leave(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rolled = Rolled(tmp_path)
    place = ["-C", str(tmp_path / "meter")]
    code, out, _ = run(capsys, "testset", "batches", *place)
    assert (code, "no batch has left yet" in out) == (0, True)
    rolled.deliver()
    for number in (1, 2):
        rolled.submit()
        assert "window" in run(capsys, "status", *place)[1]
        batch = rolled.sealed(rolled.table(rolled.batch))
        code, out, _ = run(capsys, "testset", "add", str(batch), *place)
        assert code == 0
        assert f"window {number + 1} is active: {3 * rolled.batch} rows, 1 answer\n" in out
        assert f"batch {number} has left it and is released: {rolled.batch} rows" in out
        _, out, _ = run(capsys, "testset", "batches", "--out", str(tmp_path / "freed"), *place)
        assert f"batch {number}: {rolled.batch} rows, released" in out
        assert out.endswith(": 1\n")
    names = sorted(path.name for path in (tmp_path / "freed").iterdir())
    assert names == ["batch-1.parquet", "batch-2.parquet"]
    _, out, _ = run(capsys, "history", *place)
    assert out.count("window 3") == 1, "all windows are in one table"
    assert "■ band 1" in out
