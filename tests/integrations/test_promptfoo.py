"""Results of promptfoo: one model, by ids; errors count, repeats are averaged."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.integrations.artefacts import FOLDER, scored

from easeml_meter.errors import InvalidInput
from easeml_meter.integrations.promptfoo import read
from easeml_meter.spec import MeterSpec

RESULTS = FOLDER / "promptfoo"


@pytest.mark.parametrize("metric", ["score", "success", "contains"])
def test_scores_and_an_error_that_counts(metric: str) -> None:
    found = read(RESULTS / "hidden.json", scored(metric))
    scores = dict(zip(found.ids, found.values, strict=True))
    assert scores == {f"h{at}": float(at % 5 != 0 and at != 3) for at in range(12)}
    low = read(RESULTS / "hidden.json", scored(metric, "score[-1,1]"))
    assert dict(zip(low.ids, low.values, strict=True))["h3"] == -1


@pytest.mark.parametrize(
    ("name", "spec", "said"),
    [
        ("two", scored("score"), "several models: 'numbers, 0', 'numbers, 1': evaluate"),
        ("hidden", scored(), "meter.toml names none: add metric"),
        ("hidden", scored("tone"), "no tone of test 0: known: 'score', 'success', 'contains'"),
    ],
)
def test_what_is_refused(name: str, spec: MeterSpec, said: str) -> None:
    with pytest.raises(InvalidInput, match=said) as refused:
        read(RESULTS / f"{name}.json", spec)
    assert "\n" not in str(refused.value)


Change = Callable[[Any], None]


def edited(folder: Path, change: Change) -> Path:
    found = json.loads((RESULTS / "hidden.json").read_text())
    change(found["results"])
    (folder / "edited.json").write_text(json.dumps(found))
    return folder / "edited.json"


def test_repeats_of_a_test_are_averaged(tmp_path: Path) -> None:
    def repeat(results: Any) -> None:
        row = results["results"][1]
        results["results"] += [row | {"score": 0.0}]

    found = read(edited(tmp_path, repeat), scored("score", "score"))
    assert dict(zip(found.ids, found.values, strict=True))["h1"] == 0.5


def _version(results: Any) -> None:
    results["version"] = 4


def _nameless(results: Any) -> None:
    del results["results"][0]["testCase"]["metadata"]


def _text(results: Any) -> None:
    results["results"][0]["score"] = "high"


def _shared_id(results: Any) -> None:
    """Two tests were averaged, as if they were repeats of one."""
    results["results"][1]["testCase"]["metadata"]["id"] = "h0"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_version, "results of version 4, 3 needed"),
        (_nameless, "test 0: no id: give it metadata"),
        (_shared_id, "tests with other vars have the id 'h0': give each test"),
        (_text, "'high' given, a finite number needed"),
    ],
)
def test_what_no_run_of_ours_wrote_is_refused_too(
    tmp_path: Path, change: Change, said: str
) -> None:
    with pytest.raises(InvalidInput, match=said):
        read(edited(tmp_path, change), scored("score"))
