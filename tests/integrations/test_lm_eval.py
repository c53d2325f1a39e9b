"""Samples of lm-evaluation-harness: whole runs, one filter, a metric of single documents."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.integrations.artefacts import FOLDER, scored

from easeml_meter.errors import InvalidInput
from easeml_meter.integrations.lm_eval import read
from easeml_meter.spec import MeterSpec

RUNS = FOLDER / "lm_eval"
ACC = scored("acc")


def samples(task: str, folder: Path = RUNS) -> Path:
    return next(folder.glob(f"samples_{task}_*.jsonl"))


def test_the_scores_of_a_task_by_the_ids_of_its_documents() -> None:
    found = read(samples("hidden"), ACC)
    assert found.ids == tuple(f"h{at}" for at in range(12))
    results = json.loads(next(RUNS.glob("results_*.json")).read_text())["results"]
    assert sum(map(float, found.values)) / 12 == pytest.approx(results["hidden"]["acc,none"])


def test_one_of_several_filters_is_named_by_the_metric() -> None:
    assert len(read(samples("filters"), scored("exact_match,strict")).ids) == 12


@pytest.mark.parametrize(
    ("task", "folder", "spec", "said"),
    [
        ("filters", "", scored("exact_match"), "several filters: 'loose', 'strict'"),
        ("filters", "", scored("exact_match,best"), "no filter 'best', only 'loose', 'strict'"),
        ("hidden", "", scored("f1"), "no metric 'f1': known: 'acc'"),
        ("hidden", "", scored(), "meter.toml names none: add metric"),
        ("hidden", "limited", ACC, "4 of 12 documents were run: run all of them"),
        ("filters", "predict_only", scored("exact_match,strict"), "known: 'bypass'"),
    ],
)
def test_what_is_refused(task: str, folder: str, spec: MeterSpec, said: str) -> None:
    with pytest.raises(InvalidInput, match=said) as refused:
        read(samples(task, RUNS / folder), spec)
    assert "\n" not in str(refused.value)


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    for path in RUNS.glob("*.json*"):
        shutil.copy(path, tmp_path)
    return tmp_path


def change(path: Path, **fields: Any) -> Path:
    """Change fields of every line."""
    lines = [json.loads(line) | fields for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_a_metric_of_the_whole_set_is_refused(copied: Path) -> None:
    path = change(samples("hidden", copied), metrics=["mcc"], mcc=[0, 1])
    with pytest.raises(InvalidInput, match=r"mcc of document 0: no number .* whole set"):
        read(path, scored("mcc"))


def test_documents_without_ids_go_by_their_numbers(copied: Path) -> None:
    path = change(samples("hidden", copied), doc={"question": "?"})
    assert read(path, ACC).ids == tuple(map(str, range(12)))


def test_texts_may_have_any_separator_of_lines(copied: Path) -> None:
    """The harness writes them as they are; only a line feed ends a document."""
    path = samples("hidden", copied)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    texts = [json.dumps(line | {"resps": "a\u2028b\x85c"}, ensure_ascii=False) for line in lines]
    path.write_text("\r\n".join(texts) + "\n", encoding="utf-8")
    assert read(path, ACC) == read(samples("hidden"), ACC)


def test_documents_that_repeat_are_refused(copied: Path) -> None:
    path = change(samples("hidden", copied), doc={"id": "same"})
    with pytest.raises(InvalidInput, match="more than once: 'same'"):
        read(path, ACC)


def test_a_metric_of_which_less_is_better_is_refused(copied: Path) -> None:
    results = next(copied.glob("results_*"))
    found = json.loads(results.read_text())
    found["higher_is_better"]["hidden"]["acc"] = False
    results.write_text(json.dumps(found))
    with pytest.raises(InvalidInput, match="acc: less is better"):
        read(samples("hidden", copied), ACC)


def test_without_the_results_nobody_knows_whether_documents_were_left_out(copied: Path) -> None:
    next(copied.glob("results_*")).unlink()
    with pytest.raises(InvalidInput, match="and results_TIME"):
        read(samples("hidden", copied), ACC)
