"""lm-evaluation-harness: `samples_TASK_STAMP.jsonl`, with `results_STAMP.json` beside it.

A line is one document under one filter. The samples file alone does not say whether documents were
left out (`--limit`), so the results file is asked.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from easeml_meter.errors import InvalidInput
from easeml_meter.integrations.reading import (
    Reading,
    as_number,
    needed_metric,
    read_json,
    read_json_lines,
)
from easeml_meter.spec import MeterSpec
from easeml_meter.tables.source import some

_KNOWN = 'add metric = "acc", or with one of several filters metric = "exact_match,strict-match"'


def read(path: Path, spec: MeterSpec) -> Reading:
    """Return the scores of one task, under the metric (and filter) that meter.toml names.

    Raises:
        InvalidInput: not all documents were run, or the metric is of the whole set, lower is
            better, or several filters are there to choose from.
    """
    metric, _, wanted = needed_metric(spec, _KNOWN).partition(",")
    _check_whole(path, metric)
    lines = read_json_lines(path)
    filters = {line["filter"] for line in lines}
    if not wanted and len(filters) > 1:
        raise InvalidInput(f"several filters: {some(sorted(filters))}: {_KNOWN}")
    chosen = [line for line in lines if line["filter"] == (wanted or line["filter"])]
    if not chosen:
        raise InvalidInput(f"no filter {wanted!r}, only {some(sorted(filters))}")
    return Reading(_ids(chosen), tuple(_score(line, metric) for line in chosen))


def _score(line: dict[str, Any], metric: str) -> float:
    if metric not in line["metrics"]:
        known = some(line["metrics"]) or "none"
        raise InvalidInput(f"no metric {metric!r}: known: {known}")
    return as_number(line[metric], f"{metric} of document {line['doc_id']}")


def _ids(lines: list[dict[str, Any]]) -> tuple[str, ...]:
    """Return the ids of the documents themselves, if all have some, else their numbers."""
    documents = [line.get("doc") for line in lines]
    if all(isinstance(each, dict) and "id" in each for each in documents):
        return tuple(str(each["id"]) for each in documents if each)
    return tuple(str(line["doc_id"]) for line in lines)


def _check_whole(path: Path, metric: str) -> None:
    """Refuse a run on some of the documents, and a metric of which less is better."""
    task, _, stamp = path.stem.removeprefix("samples_").rpartition("_")
    results = path.with_name(f"results_{stamp}.json")
    if not task or not results.exists():
        needed = "keep the name samples_TASK_TIME.jsonl, and results_TIME.json beside it"
        raise InvalidInput(f"which run it is of cannot be told: {needed}")
    found = read_json(results)
    counts = found["n-samples"][task]
    if counts["effective"] != counts["original"]:
        run = f"{counts['effective']} of {counts['original']} documents were run"
        raise InvalidInput(f"{run}: run all of them, without --limit")
    if found["higher_is_better"].get(task, {}).get(metric) is False:
        needed = "turn it round and submit it as plain scores (--from scores)"
        raise InvalidInput(f"{metric}: less is better, and of a score more is: {needed}")
