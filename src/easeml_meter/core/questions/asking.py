"""Questions from plain options: what the command line, the API and Python ask the planner for."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from easeml_meter.checks import finite, listed
from easeml_meter.conditions import Condition, parse_question
from easeml_meter.core.questions import planning
from easeml_meter.core.questions.bands import Bands
from easeml_meter.core.questions.gap import GapQuestion
from easeml_meter.core.questions.judge import Judge
from easeml_meter.core.questions.metrics import KINDS, Metric
from easeml_meter.core.questions.mixed import Mixed
from easeml_meter.core.questions.ondemand import OnDemand
from easeml_meter.core.questions.passing import PassFail
from easeml_meter.core.questions.question import Question
from easeml_meter.core.questions.reading import DifferenceReading
from easeml_meter.core.questions.rolling import Rolling
from easeml_meter.errors import invalid
from easeml_meter.spec import default_edges

Options = dict[str, Any]

_OWN = {
    "question": ("disagreement", "passes", "on_demand"),
    "metric": ("floor", "classes", "weights", "prevalence"),
    "rolling": ("window", "batch", "submissions"),
    "judge_error": ("pool",),
}
"""The option that asks each kind of question, and those that only it has."""


def asks(options: Mapping[str, Any]) -> bool:
    """Whether options ask another question than the gap.

    Raises:
        InvalidInput: An option of a question is given without it.
    """
    return _kind(options) is not None


def plan_question(**options: Any) -> planning.QuestionPlan:
    """Plan a question; answer the one of labels, steps and tolerance that was not given.

    Options have the names that they have in `meter plan`, as in
    `plan_question(question="n > 0.8 +/- 0.01", steps=32)`.

    Raises:
        InvalidInput: They ask no question, or do not fit together.
    """
    given = {name: value for name, value in options.items() if value is not None}
    kind = _kind(given)
    if kind is None:
        raise invalid("question", None, f"give one of {', '.join(map(_option, _OWN))}")
    size = given.pop("labels", None)
    if "prevalence" in given:
        prevalence = given.pop("prevalence")
        plain = given["metric"] in ("recall", "precision", "f1", "accuracy")
        if not plain and prevalence > 0.5:  # then the other class would be the smaller one
            raise invalid("prevalence", prevalence, "the share of the smallest class, at most 0.5")
        return dataclasses.replace(plan_question(**given, labels=size), prevalence=prevalence)
    if kind == "rolling":
        if size is not None:
            raise invalid("labels", size, "of a rolling test set, give the labels of a batch")
        size = given.pop("batch", None)
        # Without steps, it is promised for as many as one window has.
        if size is not None and "tolerance" not in given:
            given.setdefault("steps", given.get("window"))
    steps, delta, tries = (given.pop(*each) for each in _BUDGET)
    budget = planning.Budget(1 if steps is None else steps, delta, tries)
    if size is not None and "tolerance" not in given and kind != "question":
        if steps is None:
            raise invalid("steps", None, "give the steps or a tolerance")
        return planning.reachable_tolerance(
            lambda tolerance: _built(kind, given | {"tolerance": tolerance}), size, budget
        )
    question = _built(kind, given)
    if size is None:
        if steps is None:
            raise invalid("steps", None, "give the steps, or the labels to ask for them")
        return planning.required_size(question, budget)
    if steps is not None:
        raise invalid("labels", size, "give two of steps, tolerance and labels, not all")
    return planning.supported_steps(question, size, budget)


_BUDGET = (("steps", None), ("delta", 0.01), ("tries", 1))


def _kind(given: Mapping[str, Any]) -> str | None:
    """Return the option that asks for another question than the gap, if one does."""
    asked = [kind for kind in _OWN if kind in given]
    if len(asked) > 1:
        raise invalid(_option(asked[1]), given[asked[1]], f"not with {_option(asked[0])}")
    for kind, names in _OWN.items():
        for name in set(names) & set(given):
            if kind not in asked:
                raise invalid(_option(name), given[name], f"only with {_option(kind)}")
    if not asked and "tries" in given:
        raise invalid("tries", given["tries"], f"only with {', '.join(map(_option, _OWN))}")
    return asked[0] if asked else None


def _option(name: str) -> str:
    return name.replace("_", "-")


def _built(kind: str, given: Options) -> Question:
    """Build the question, and refuse what is left of the options."""
    left = dict(given)
    question = _BUILDERS[kind](left)
    for name, value in left.items():
        raise invalid(_option(name), value, f'not with "{question.statistic}"')
    return question


def _questions(given: Options) -> Question:
    """Build one condition, or several questions to be asked in any order."""
    found = given.pop("question")
    texts = [found] if isinstance(found, str) else list(listed("question", found))
    for text in texts:
        if not isinstance(text, str):
            raise invalid("question", text, 'a text, such as "n > 0.8 +/- 0.01"')
    texts = [text.strip() for text in texts]
    disagreement, passes = (given.pop(name, None) for name in ("disagreement", "passes"))
    asked: list[Question] = []
    # Conditions have tolerances of their own; the two that have none take that of the options.
    tolerance = None
    if "gap" in texts:
        bands = _bands(given)
        tolerance = bands.tolerance
        asked.append(GapQuestion(bands.spec()))
    elif "better" in texts:
        tolerance = given.pop("tolerance", None)
    for text in texts:
        if text != "gap":
            own = tolerance if text == "better" else None
            asked.append(_one(text, own, passes, disagreement, alone=len(texts) == 1))
    question = asked[0] if len(asked) == 1 else Mixed(tuple(asked))
    if not given.pop("on_demand", False):
        return question
    if not isinstance(question, PassFail):
        raise invalid("on-demand", question.statistic, "only for one condition")
    return OnDemand(question)


def _one(
    text: str,
    tolerance: float | None,
    passes: int | None,
    disagreement: float | None,
    *,
    alone: bool,
) -> Question:
    """Build a condition, or a reading of n - o; disagreement is for those that compare."""
    found = parse_question(text, tolerance=tolerance, passes=passes)
    if found.compares or alone:
        found = dataclasses.replace(found, disagreement=disagreement)
    if isinstance(found, Condition):
        return PassFail.of(found)
    if disagreement is None:
        raise invalid("disagreement", None, "a reading of n - o needs one, such as 0.1")
    return DifferenceReading(found)


def _metric(given: Options) -> Question:
    name = given.pop("metric")
    if not isinstance(name, str):
        raise invalid("metric", name, f"one of {', '.join(KINDS)}")
    averaged = name in KINDS and KINDS[name].classes
    return Metric(
        name,
        _bands(given),
        floor=given.pop("floor", None),
        classes=given.pop("classes", 2 if averaged else 1),
        weights=listed("weights", given.pop("weights", ())),
    )


def _rolling(given: Options) -> Question:
    if given.pop("rolling") is not True:
        raise invalid("rolling", False, "true, or leave it out")
    if "window" not in given:
        raise invalid("window", None, "give the number of batches in use, such as 52")
    return Rolling(_bands(given), given.pop("window"), given.pop("submissions", 1))


def _judge(given: Options) -> Question:
    if "pool" not in given:
        raise invalid("pool", None, "give the number of inputs without labels, such as 1000000")
    return Judge(_bands(given), given.pop("judge_error"), given.pop("pool"))


_BUILDERS: dict[str, Callable[[Options], Question]] = {
    "question": _questions,
    "metric": _metric,
    "rolling": _rolling,
    "judge_error": _judge,
}


def _bands(given: Options) -> Bands:
    """Take the bands out of the options given; by default, they are those of a meter."""
    tolerance = given.pop("tolerance", None)
    if tolerance is None:
        raise invalid("tolerance", None, "give one, such as 0.01")
    finite("tolerance", tolerance)
    edges = given.pop("edges", None)
    if edges is not None:
        edges = listed("edges", edges)
    elif not {"signals", "drawn"} & set(given):
        edges = default_edges(tolerance)
    signals = given.pop("signals", 5 if edges is None else len(edges) + 1)
    return Bands(tolerance, signals, edges, given.pop("drawn", None))
