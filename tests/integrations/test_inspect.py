"""Logs of Inspect: scores and completions; failed samples count, and parts of a run do not."""

from __future__ import annotations

import asyncio
import json
import sys
from contextvars import ContextVar
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.integrations.artefacts import FOLDER, scored
from tests.service.helpers import small_spec

from easeml_meter.errors import InvalidInput
from easeml_meter.integrations.inspect import as_loss, read
from easeml_meter.integrations.reading import Reading
from easeml_meter.spec import MeterSpec

LOGS = FOLDER / "inspect"
INCLUDES = scored("includes")
ANY = small_spec(loss="numpy:not_equal", classes=())


def scores(name: str, spec: MeterSpec = INCLUDES) -> dict[str, Any]:
    found = read(LOGS / f"{name}.json", spec)
    return dict(zip(found.ids, found.values, strict=True))


def test_the_scores_of_a_log_without_samples() -> None:
    found = scores("hidden")
    assert found == {f"h{at}": float(at % 5 != 0) for at in range(20)}
    assert scores("epochs") == found
    assert scores("several") == found
    assert scores("several", scored("match")) == found


def test_a_sample_that_failed_has_the_lowest_score_and_does_not_vanish() -> None:
    log = json.loads((LOGS / "errored.json").read_text())
    assert log["results"]["scores"][0]["scored_samples"] == 19  # what Inspect averages over
    found = scores("errored")
    assert len(found) == 20
    assert found["h3"] == 0
    assert scores("errored", scored("includes", "score[-2,1]"))["h3"] == -2


def test_a_score_of_several_values_is_chosen_by_its_key() -> None:
    graded = scored("graded/tone", "score")
    assert set(scores("graded", graded).values()) == {0.25}


def test_completions_where_the_loss_compares_them_with_targets() -> None:
    found = scores("completions", ANY)
    assert found["h1"] == "The answer is 1."
    assert found["h3"] == ""  # it failed
    assert len(found) == 6


def test_what_a_sample_wrote_before_it_failed_does_not_count(tmp_path: Path) -> None:
    log = json.loads((LOGS / "completions.json").read_text())
    sample = next(each for each in log["samples"] if each["id"] == "h1")
    assert read(LOGS / "completions.json", ANY).values[1] == "The answer is 1."
    sample["error"] = {"message": "out of time", "traceback": "", "traceback_ansi": ""}
    (tmp_path / "log.json").write_text(json.dumps(log))
    found = read(tmp_path / "log.json", ANY)
    assert dict(zip(found.ids, found.values, strict=True))["h1"] == ""


@pytest.mark.parametrize(
    ("name", "spec", "said"),
    [
        ("failed", INCLUDES, "the run ended with status 'error'"),
        ("limited", INCLUDES, "limit = 5: run all samples"),
        ("errored-epochs", INCLUDES, "some epochs of samples failed"),
        ("hidden", scored(), "meter.toml names none: add metric"),
        ("hidden", scored("exact"), "no scores of 'exact': known: 'includes'"),
        ("completions", INCLUDES, "no scores of 'includes': known: none"),
        ("graded", scored("graded"), "several values: 'clarity', 'tone'"),
        ("hidden", scored("includes/tone"), "a single value, which has no 'tone'"),
        ("hidden", ANY, "no samples are in it: run it without --no-log-samples"),
    ],
)
def test_what_is_refused(name: str, spec: MeterSpec, said: str) -> None:
    with pytest.raises(InvalidInput, match=said) as refused:
        scores(name, spec)
    assert "\n" not in str(refused.value)


def edited(folder: Path, change: Any, name: str = "hidden") -> Path:
    log = json.loads((LOGS / f"{name}.json").read_text())
    change(log)
    path = folder / "edited.json"
    path.write_text(json.dumps(log))
    return path


def _reducers(log: Any) -> None:
    log["reductions"] *= 2


def _stranger(log: Any) -> None:
    log["reductions"][0]["samples"][0]["sample_id"] = "elsewhere"


def _chosen(log: Any) -> None:
    log["eval"]["config"]["sample_id"] = ["h1"]


def _twice(log: Any) -> None:
    log["eval"]["dataset"]["sample_ids"][1] = "h0"


def _letter(log: Any) -> None:
    log["reductions"][0]["samples"][0]["value"] = "C"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_reducers, "several reducers"),
        (_stranger, "samples that are not in the dataset: 'elsewhere'"),
        (_chosen, r"sample_id = \['h1'\]"),
        (_twice, "more than once: 'h0'"),
        (_letter, "'C' given, a finite number needed"),
    ],
)
def test_what_no_run_of_ours_wrote_is_refused_too(tmp_path: Path, change: Any, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        read(edited(tmp_path, change), INCLUDES)


def test_a_score_that_is_not_a_number_counts_as_failed(tmp_path: Path) -> None:
    def unscored(log: Any) -> None:
        log["reductions"][0]["samples"][1]["value"] = float("nan")

    found: Reading = read(edited(tmp_path, unscored), INCLUDES)
    assert found.values[1] == 0


def test_a_log_that_only_inspect_opens_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "inspect_ai.log", None)
    (tmp_path / "a.eval").write_bytes(b"PK")
    with pytest.raises(InvalidInput, match="pip install inspect-ai, or write logs with"):
        read(tmp_path / "a.eval", INCLUDES)
    with pytest.raises(InvalidInput, match="no such file"):
        read(tmp_path / "b.eval", INCLUDES)


def test_a_scorer_is_a_loss_in_a_notebook_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop runs there already, in which no other can be started."""
    package = ModuleType("inspect_ai")
    parts: dict[str, dict[str, Any]] = {
        "scorer": {"value_to_float": lambda: float, "Target": str},
        "model": {"ModelOutput": SimpleNamespace(from_content=lambda _, text: text)},
        "solver": {"TaskState": SimpleNamespace},
    }
    for name, content in parts.items():
        part = ModuleType(f"inspect_ai.{name}")
        vars(part).update(content)
        setattr(package, name, part)
        monkeypatch.setitem(sys.modules, part.__name__, part)
    monkeypatch.setitem(sys.modules, "inspect_ai", package)

    # As Inspect keeps the model that grades, unless a scorer names one.
    active = ContextVar("active_model", default="none")

    async def same(state: Any, target: str) -> Any:
        assert active.get() == "grader"
        return SimpleNamespace(value=state.output == target)

    async def notebook() -> list[float]:
        active.set("grader")
        losses = as_loss(same)(np.array(["a", "b"]), np.array(["a", "c"]))
        return [float(each) for each in losses]

    assert asyncio.run(notebook()) == [0.0, 1.0]
