"""Logs of harnesses as the cases of `meter gate`, by the readers that `submit --from` has."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from easeml_meter.client.results import Form, Row
from easeml_meter.errors import InvalidInput
from easeml_meter.integrations import inspect
from easeml_meter.integrations.reading import OfOneCase, read_json_lines
from easeml_meter.integrations.registry import Group, find
from easeml_meter.spec import MeterSpec
from easeml_meter.tables.source import some


def cases(path: Path, tool: str, form: Form) -> tuple[Iterator[Row], Form]:
    """Return the cases of a log, and how they were read: with the metric that was named or found.

    Raises:
        InvalidInput: the log is not what the reader needs, or has several metrics to choose from.
    """
    read = find(Group.READERS, tool)
    if form.lower or form.vote or form.cluster:
        raise InvalidInput(f"a log of {tool}: no --lower-is-better, --vote or --cluster is for it")
    path.open("rb").close()  # a name that is wrong comes before what the log should hold
    metric = form.score or _metric(path, tool, form)
    low, high = map(float, form.range)
    spec = MeterSpec.uniform(
        tolerance=0.1, steps=1, delta=0.1, loss=f"score[{low!r},{high!r}]", metric=metric
    )
    try:
        found = read(path, spec)
    except OfOneCase:  # what is wrong with a hidden case must not tell which it is
        raise InvalidInput("a case stands there twice, or has no single number") from None
    rows = ((case, value, None) for case, value in zip(found.ids, found.values, strict=True))
    return rows, replace(form, score=metric)


def _metric(path: Path, tool: str, form: Form) -> str:
    """Return the only metric of a log: which of several counts has to be named."""
    names: set[str] = set()
    if tool == "inspect":
        names = {each["scorer"] for each in inspect.open_log(path).get("reductions") or ()}
    elif tool == "lm-eval":
        lines: list[Any] = read_json_lines(path)
        several = len({line["filter"] for line in lines}) > 1
        names = {
            f"{m},{line['filter']}" if several else m for line in lines for m in line["metrics"]
        }
    else:
        names = {"success"} if tool == "promptfoo" and not form.scores else set()
    if len(names) > 1:
        raise InvalidInput(
            f"{len(names)} metrics are in it: --score NAME, one of {some(sorted(names))}"
        )
    return names.pop() if names else "score"  # the reader says why there is none
