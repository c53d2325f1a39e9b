"""Logs on their way to a meter: joined by id, and refused before anything is charged or sent."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.workbench import Workbench
from tests.integrations.artefacts import FOLDER, scored

from easeml_meter.errors import InvalidInput
from easeml_meter.integrations import reading, registry
from easeml_meter.integrations.registry import Group
from easeml_meter.meter import Meter

LOGS = {
    "inspect": ("includes", FOLDER / "inspect/hidden.json", FOLDER / "inspect/dev.json", 20, 8),
    "lm-eval": (
        "acc",
        next((FOLDER / "lm_eval").glob("samples_hidden_*")),
        next((FOLDER / "lm_eval").glob("samples_dev_*")),
        *(12, 6),
    ),
    "promptfoo": (
        "contains",
        *(FOLDER / "promptfoo/hidden.json", FOLDER / "promptfoo/dev.json"),
        *(12, 6),
    ),
}


def bench_of(folder: Path, metric: str, hidden: int, visible: int) -> Workbench:
    """Make a meter so small that the recorded logs are enough for it."""
    spec = scored(metric, signals=2, edges=[0.5], tolerance=0.4, steps=2)
    meter = Meter.create(folder / "meter", spec, name="m")
    assert meter.plan.labels <= 12
    for name, count in (("h", hidden), ("d", visible)):
        ids = "".join(f"{name}{at}\n" for at in range(count))
        (folder / f"{name}.csv").write_text(f"id\n{ids}")
    meter.seal(folder / "h.csv", folder / "t.sealed", id_column="id")
    meter.add_test_set(folder / "t.sealed")
    meter.set_validation(folder / "d.csv", id_column="id")
    return Workbench(folder)


@pytest.mark.parametrize("tool", LOGS)
def test_recorded_logs_get_an_answer(tool: str, tmp_path: Path) -> None:
    metric, hidden, visible, *counts = LOGS[tool]
    bench = bench_of(tmp_path, metric, *counts)
    files = ["--from", tool, "--test", hidden, "--validation", visible, "--model", "a"]
    assert f"{counts[0]} matched by id" in bench.ok("submit", *files, "--check")
    assert bench.json("submit", *files)["band"] == 1


NO_LOGS = (
    *("", "{}", "[]", "null", "no json", '{"results": 3}', "\x00\xff", "[" * 5000),
    *('{"status": "success"}', '{"filter": []}', '{"results": {"version": 3, "results": [1]}}'),
)


@pytest.mark.parametrize("tool", [*LOGS, "scores"])
def test_files_that_are_no_logs_are_refused_in_one_line_and_cost_nothing(
    tool: str, tmp_path: Path
) -> None:
    metric, _, visible, *counts = LOGS.get(tool, LOGS["inspect"])
    bench = bench_of(tmp_path, metric, *counts)
    name = {"lm-eval": "samples_a_b.jsonl", "scores": "bad.csv"}.get(tool, "bad.json")
    files = ["--from", tool, "--validation", visible, "--test"]
    for content in NO_LOGS:
        (tmp_path / name).write_text(content)
        (tmp_path / "results_b.json").write_text(content)
        assert name in bench.refused(2, "submit", *files, name)
    assert "gone.json: cannot be read" in bench.refused(2, "submit", *files, "gone.json")


@pytest.mark.parametrize("name", ["bad.json", "bad.jsonl", "bad.parquet"])
def test_a_refused_table_of_scores_is_named_once(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("{")
    with pytest.raises(InvalidInput) as refused:
        reading.read_both("scores", tmp_path / name, tmp_path / name, scored())
    assert str(refused.value).count(name) == 1


def test_a_log_of_other_examples_is_refused(tmp_path: Path) -> None:
    metric, hidden, visible, *counts = LOGS["inspect"]
    bench = bench_of(tmp_path, metric, *counts)
    files = ["--from", "inspect", "--test", visible, "--validation", hidden]
    assert "ids" in bench.refused(2, "submit", *files)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--no-ids"], "no other way to submit or to match rows"),
        (["--missing", "wrong"], "no other way to submit or to match rows"),
        (["--from", "inspekt"], "reader: 'inspekt' given, did you mean 'inspect'"),
    ],
)
def test_options_that_make_no_sense_together(tmp_path: Path, more: list[str], said: str) -> None:
    metric, hidden, visible, *counts = LOGS["inspect"]
    bench = bench_of(tmp_path, metric, *counts)
    files = ["--from", "inspect", "--test", hidden, "--validation", visible]
    assert said in bench.refused(2, "submit", *files, *more)


def test_scores_out_of_range_are_found_before_they_are_sent(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,score\n1,3\n")
    with pytest.raises(InvalidInput, match=r"a\.csv: row 1: 3(\.0)? given, a number from 0"):
        reading.read_both("scores", tmp_path / "a.csv", tmp_path / "a.csv", scored())


def test_a_strangers_reader_that_returns_something_else_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "find", lambda group, name: lambda path, spec: [1])
    for name in "ab":
        (tmp_path / name).touch()
    with pytest.raises(InvalidInput, match="something else than a Reading"):
        reading.read_both("theirs", tmp_path / "a", tmp_path / "b", scored())
    assert "inspect" in registry.names(Group.READERS)
