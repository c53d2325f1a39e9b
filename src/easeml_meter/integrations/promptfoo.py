"""promptfoo: what `promptfoo eval -o FILE.json` writes (results of version 3)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from easeml_meter.errors import InvalidInput
from easeml_meter.integrations.reading import (
    OfOneCase,
    Reading,
    as_number,
    lowest,
    needed_metric,
    read_json,
)
from easeml_meter.spec import MeterSpec
from easeml_meter.tables.source import excerpt, some

_VERSION = 3
_ERROR = 2
"""The reason of a failure that is an error, and no assertion that was not met."""
_KNOWN = 'add metric = "score" or "success", or the name of an assertion\'s metric'


def read(path: Path, spec: MeterSpec) -> Reading:
    """Return the scores of one prompt at one provider; repeats of a test are averaged.

    Raises:
        InvalidInput: it is of another version, has several prompts or providers, or a test has no
            id in its metadata, or that of a test with other vars.
    """
    metric = needed_metric(spec, _KNOWN)
    results = read_json(path)["results"]
    if results["version"] != _VERSION:
        raise InvalidInput(f"results of version {results['version']!r}, {_VERSION} needed")
    rows = results["results"]
    tried = {(each["provider"]["id"], each["promptIdx"]) for each in rows}
    if len(tried) > 1:
        pairs = [f"{provider}, {prompt}" for provider, prompt in sorted(tried)]
        raise InvalidInput(
            f"several models: {some(pairs)}: evaluate one provider with one prompt at a time"
        )
    scores: dict[str, list[float]] = {}
    vars_of: dict[str, Any] = {}
    for row in rows:
        # A list in vars makes several tests of one: they are no repeats, and no single example.
        given = row["testCase"].get("vars")
        if vars_of.setdefault(_id(row), given) != given:
            needed = "give each test an id of its own, and vars without lists"
            raise OfOneCase(f"tests with other vars have the id {excerpt(_id(row))}: {needed}")
        scores.setdefault(_id(row), []).append(_score(row, metric, spec))
    means = tuple(sum(each) / len(each) for each in scores.values())
    return Reading(tuple(scores), means)


def _id(row: dict[str, Any]) -> str:
    metadata = row["testCase"].get("metadata") or {}
    if "id" not in metadata:
        raise OfOneCase(f"test {row['testIdx']}: no id: give it metadata: {{id: ...}}")
    return str(metadata["id"])


def _score(row: dict[str, Any], metric: str, spec: MeterSpec) -> float:
    where = f"{metric} of test {row['testIdx']}"
    if row["failureReason"] == _ERROR:
        return lowest(spec)
    if metric in ("score", "success"):
        return as_number(row[metric], where)
    if metric not in row["namedScores"]:
        raise OfOneCase(f"no {where}: known: {some(['score', 'success', *row['namedScores']])}")
    return as_number(row["namedScores"][metric], where)
