"""Inspect: its logs as scores or completions, and its scorers as losses on sealed targets.

A log in JSON is read as it is. One that ends in `.eval` is a zip with a compression that Python
does not know, so only Inspect itself opens it.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from easeml_meter.errors import InvalidInput
from easeml_meter.integrations.reading import (
    OfOneCase,
    Reading,
    as_number,
    check_distinct,
    lowest,
    needed_metric,
    read_json,
)
from easeml_meter.spec import MeterSpec
from easeml_meter.tables.source import some

_KNOWN = 'add metric = "includes", or with a score of several values metric = "graded/clarity"'

Log = dict[str, Any]


def read(path: Path, spec: MeterSpec) -> Reading:
    """Return the scores of a log, or its completions where the loss compares them with targets.

    Raises:
        InvalidInput: the run did not end, or was limited to some samples, or has not what
            meter.toml names.
    """
    log = open_log(path)
    ids = _ids(log)
    return _scores(log, ids, spec) if spec.meter.sample.takes_scores else _completions(log, ids)


def open_log(path: Path) -> Log:
    """Return a log as Inspect writes it in JSON."""
    if path.suffix == ".json":
        log: Log = read_json(path)
        return log
    if not path.is_file():
        raise InvalidInput("no such file")
    try:
        from inspect_ai.log import read_eval_log
    except ImportError:
        ways = "pip install inspect-ai, or write logs with --log-format json"
        raise InvalidInput(f"only Inspect opens it: {ways}") from None
    dumped: Log = read_eval_log(str(path)).model_dump(mode="json")
    return dumped


def _ids(log: Log) -> tuple[str, ...]:
    """Return the ids of all samples of a run that ended and left none out."""
    if log["status"] != "success":
        raise InvalidInput(f"the run ended with status {log['status']!r}: run it again")
    config = log["eval"]["config"]
    for option in ("limit", "sample_id"):
        if config.get(option) is not None:
            raise InvalidInput(f"{option} = {config[option]!r}: run all samples, without it")
    ids = log["eval"]["dataset"]["sample_ids"]
    if not ids:
        raise InvalidInput("no ids of samples are in it")
    texts = tuple(map(str, ids))
    check_distinct(texts)
    return texts


def _scores(log: Log, ids: tuple[str, ...], spec: MeterSpec) -> Reading:
    scorer, _, key = needed_metric(spec, _KNOWN).partition("/")
    reductions = log.get("reductions") or []
    chosen = [each for each in reductions if each["scorer"] == scorer]
    if not chosen:
        known = some([each["scorer"] for each in reductions]) or "none"
        raise InvalidInput(f"no scores of {scorer!r}: known: {known}")
    if len(chosen) > 1:
        raise InvalidInput(f"several reducers of {scorer!r}: give one (epochs_reducer)")
    results = log["results"]
    if results["completed_samples"] < results["total_samples"] and results["total_samples"] != len(
        ids
    ):
        # Reduced over the epochs that did not fail, such a score is better than it was.
        raise InvalidInput("some epochs of samples failed: run it again, or with one epoch")
    found = {str(each["sample_id"]): _value(each, scorer, key) for each in chosen[0]["samples"]}
    strangers = [each for each in found if each not in set(ids)]
    if strangers:
        raise OfOneCase(f"scores of samples that are not in the dataset: {some(strangers)}")
    low = lowest(spec)
    values = (found.get(each, math.nan) for each in ids)
    return Reading(ids, tuple(low if math.isnan(value) else value for value in values))


def _value(sample: dict[str, Any], scorer: str, key: str) -> float:
    value = sample["value"]
    where = f"{scorer} of sample {sample['sample_id']}"
    if isinstance(value, dict):
        if key not in value:
            raise OfOneCase(f"{where}: several values: {some(list(value))}: {_KNOWN}")
        value = value[key]
    elif key:
        raise OfOneCase(f"{where}: a single value, which has no {key!r}")
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return math.nan
    return as_number(value, where)


def _completions(log: Log, ids: tuple[str, ...]) -> Reading:
    """Return what the model wrote for each sample; nothing where the sample failed.

    A sample that failed may have written something before: it has no score in Inspect, so it must
    not get a better one here.
    """
    samples = log.get("samples") or []
    if not samples:
        raise InvalidInput("no samples are in it: run it without --no-log-samples")
    if any(each["epoch"] != 1 for each in samples):
        raise InvalidInput("several epochs: one completion for each sample needed")
    found = {
        str(each["id"]): (each.get("output") or {}).get("completion", "")
        for each in samples
        if not each.get("error")
    }
    return Reading(ids, tuple(found.get(each, "") for each in ids))


Losses = NDArray[np.float64]


def includes(completions: Any, targets: Any) -> Losses:
    """Return 1 where the completion does not contain the target."""
    return _own("includes")(completions, targets)


def match(completions: Any, targets: Any) -> Losses:
    """Return 1 where the completion does not end with the target."""
    return _own("match")(completions, targets)


def exact(completions: Any, targets: Any) -> Losses:
    """Return 1 where the completion is not the target, normalized as Inspect does."""
    return _own("exact")(completions, targets)


def f1(completions: Any, targets: Any) -> Losses:
    """Return 1 minus the F1 of the words of completion and target."""
    return _own("f1")(completions, targets)


def _own(name: str) -> Callable[[Any, Any], Losses]:
    from inspect_ai import scorer

    return as_loss(getattr(scorer, name)())


def as_loss(score: Callable[..., Any]) -> Callable[[Any, Any], Losses]:
    """Return the loss that a scorer of Inspect stands for: 1 minus the score of each example.

    For scorers with settings, and for one's own: they see the completion and the target, and
    nothing else. `answer = as_loss(pattern(r"ANSWER: (.*)"))` in a module `mine` is the loss
    "mine:answer" of a meter.toml.
    """

    def loss(completions: Any, targets: Any) -> Losses:
        from inspect_ai import scorer
        from inspect_ai.model import ModelOutput
        from inspect_ai.solver import TaskState

        number = scorer.value_to_float()

        async def judged() -> list[float]:
            found = []
            for completion, target in zip(completions.tolist(), targets.tolist(), strict=True):
                output = ModelOutput.from_content("none", str(completion))
                state = TaskState(
                    model="none", sample_id=0, epoch=1, input="", messages=[], output=output
                )
                judgement = await score(state, scorer.Target(str(target)))
                found.append(1.0 - number(judgement.value))
            return found

        # In a thread of its own: in that of a notebook, a loop is running already. Inspect's active
        # model is a variable of the context, which threads do not inherit.
        with ThreadPoolExecutor(1) as alone:
            return np.array(alone.submit(copy_context().run, asyncio.run, judged()).result())

    return loss
