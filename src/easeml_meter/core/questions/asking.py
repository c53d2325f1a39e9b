"""Questions from plain options: what the command line, the API and Python ask the planner for.

A kind of question has an option that asks for it, or a text: `--ask "n > 0.8 +/- 0.01"`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import cache
from typing import Any

from easeml_meter.checks import read_whole
from easeml_meter.conditions import ALARM, BETTER, Condition, Vouching, parse_question
from easeml_meter.core.questions import planning
from easeml_meter.core.questions.bands import Bands
from easeml_meter.core.questions.gap import GapQuestion
from easeml_meter.core.questions.kinds import kinds
from easeml_meter.core.questions.labels import check_many
from easeml_meter.core.questions.ondemand import ONE_TEST_SET, OnDemand
from easeml_meter.core.questions.passing import PassFail
from easeml_meter.core.questions.question import Option, Question, check_tried_once
from easeml_meter.core.questions.reading import DifferenceReading
from easeml_meter.errors import invalid
from easeml_meter.promise.schema import NO_END
from easeml_meter.spec import DEFAULT_DELTA, DEFAULT_STEPS, GAP, MeterSpec, Protocol

Options = dict[str, Any]

_BY_TEXT = (
    Option("ask", str, 'alarm, gap, better, or a condition such as "n > 0.8 +/- 0.01".'),
    Option(
        "disagreement",
        float,
        'With "n - o": fail where exactly one of the two is right on more rows.',
    ),
    Option("passes", int, "Models that may pass before the one that closes."),
    Option("on_demand", bool, 'With "n - o": fresh inputs, few labels, each step.'),
    Option("g", float, "With alarm: the overfitting that is accepted. Default: by the labels."),
    Option("expects", float, "With alarm: the error that models have. Default: 0.2."),
    Option("alarms", int, "With alarm: the alarm that closes the test set. Default: 3."),
)
"""The option for a question by its text, and those that go with it only."""
OF_METERS = (
    Option("labels", int, "Labels that can stay hidden: all that a plan needs."),
    Option("steps", int, 'Promised answers, T, or "no end". Default: 10, or all that fit.'),
    Option("tolerance", list, "One number, or a comma list with one for each band."),
    Option("confidence", str, "How sure the promise is, such as 95. Default: 90."),
    Option("delta", float, "Given instead: 1 - confidence."),
    Option("signals", int, "Number of equally wide bands, m."),
    Option("edges", list, "Inner edges of bands. Default: half a tolerance, then where free."),
    Option("drawn", float, "Draw the edges of every answer at random, this far apart."),
    Option("protocol", Protocol, "Default: regular."),
    Option("loss", str, 'Loss of each example. Default: "0-1". Others use the convex bound.'),
    Option("tenants", str, "Steps of each isolated team, such as 5,5."),
    Option("handover", bool, "Teams start from each other's checkpoints."),
    Option("reverts", str, "Steps to undo, fixed in advance, such as 1,2,3."),
    Option("memory", int, "Models depend on at most this many of the last answers."),
    Option("ceiling", float, 'Answer "above the ceiling" for larger test losses.'),
    Option("top_up", int, "Steps more, once fresh labels have joined the test set."),
    Option("clusters", bool, "Rows belong together: one example is a cluster of them."),
)
"""What describes a meter for the gap, wherever one is planned or made."""
_TRIES = Option("tries", int, "How often sealing may be tried. Default: 1.")


@cache
def _by_option() -> dict[str, type[Question]]:
    """Return the kinds of question that an option asks for, by the name of that option."""
    return {kind.options[0].name: kind for kind in kinds() if kind.options}


def options() -> tuple[Option, ...]:
    """List the options that ask for something else than the gap, and those that belong to them.

    Kinds may share one: it is listed once, as the first of them describes it.
    """
    found: dict[str, Option] = {}
    of_kinds = (option for kind in _by_option().values() for option in kind.options)
    for option in (*_BY_TEXT, *of_kinds, _TRIES):
        found.setdefault(option.name, option)
    return tuple(found.values())


def asks(given: Mapping[str, Any]) -> bool:
    """Whether options ask another question than the gap.

    Raises:
        InvalidInput: An option of a question is given without it.
    """
    return _asking(given) is not None


def plan_question(**options: Any) -> planning.Plan:
    """Plan a question; answer the one of labels, steps and tolerance that was not given.

    Options have the names that they have in `meter plan`, as in
    `plan_question(ask="n > 0.8 +/- 0.01", steps=32)`.

    Raises:
        InvalidInput: They ask no question, or do not fit together.
    """
    return answered(**options)[0]


def answered(**options: Any) -> tuple[planning.Plan, str]:
    """Do the same; say what was not given, too: size, steps or tolerance."""
    given = {name: value for name, value in options.items() if value is not None}
    asking = _asking(given)
    if asking is None:
        known = ("ask", *_by_option())
        raise invalid("ask", None, f"give one of {', '.join(map(_option, known))}")
    kind = _by_option().get(asking, Question)
    given = kind.completed(given)
    if str(given.get("ask")).strip() == ALARM:
        return planning.plan_of(_alarm(given)), "size" if "g" in given else "tolerance"
    size = given.pop(kind.size_option, None)
    if "labels" in given:
        allowed = f"of a {asking} test set, give the labels of a {kind.size_option}"
        raise invalid("labels", given["labels"], allowed)
    steps, delta, tries = (given.pop(*each) for each in _BUDGET)
    budget = planning.Budget(1 if steps is None else steps, delta, tries)
    plan, answer = _planned(asking, given, size, steps, budget)
    if tries > 1 and not plan.question.may_be_tried:
        raise invalid("tries", tries, f"sealing checks nothing for {plan.question.statistic}")
    prevalence = given.get("prevalence")
    if prevalence is not None:
        plan = dataclasses.replace(plan, prevalence=prevalence)
    return plan, answer


_BUDGET = (("steps", None), ("delta", DEFAULT_DELTA), ("tries", 1))


def _planned(
    asking: str, given: Options, size: int | None, steps: int | None, budget: planning.Budget
) -> tuple[planning.Plan, str]:
    """Answer the one of size, steps and tolerance that is not there, and name it."""
    if size is not None and "tolerance" not in given and _has_bands(asking, given):
        if steps is None:
            raise invalid("steps", None, "give the steps or a tolerance")
        return _least(asking, given, size, budget), "tolerance"
    question = _built(asking, given)
    if size is None:
        if steps is None:
            raise invalid("steps", None, "give the steps, or the labels to ask for them")
        return planning.required_size(question, budget), "size"
    if steps is not None:
        raise invalid("labels", size, "give two of steps, tolerance and labels, not all")
    return planning.most_steps(question, size, budget), "steps"


def _has_bands(asking: str, given: Options) -> bool:
    """Whether the tolerance of what is asked can be asked for."""
    if asking in _by_option():
        return _by_option()[asking].has_bands
    text = given["ask"]
    return isinstance(text, str) and text.strip() == GAP


def _least(asking: str, given: Options, size: int, budget: planning.Budget) -> planning.Plan:
    """Return the smallest tolerance, with the default bands for it if options give no others."""
    # Only the ratios of tolerances matter, and these questions have one.
    given = given | {"tolerance": 0.1}

    def reached(**edges: Any) -> planning.Plan:
        return planning.least_tolerance(_built(asking, given | edges), size, budget)

    if {"edges", "signals", "drawn"} & set(given):
        return reached()
    return planning.with_default_edges(lambda edges: reached(edges=edges))


def meter_of(plan: planning.Plan, given: Options) -> MeterSpec:
    """Return the meter of a plan that options asked for, with the bands that were planned."""
    if _asking(given) != "ask":
        return plan.question.meter(plan, given)
    check_tried_once(plan)
    return _meter_by_text(plan, given)


def _asking(given: Mapping[str, Any]) -> str | None:
    """Return the option that asks for another question than the gap, if one does."""
    all_options = (_BY_TEXT, *(kind.options for kind in _by_option().values()))
    own = {first.name: [each.name for each in others] for first, *others in all_options}
    asked = [asking for asking in own if asking in given]
    if len(asked) > 1:
        raise invalid(_option(asked[1]), given[asked[1]], f"not with {_option(asked[0])}")
    for name in sorted({name for names in own.values() for name in names} & set(given)):
        having = [asking for asking, names in own.items() if name in names]
        if not set(having) & set(asked):
            needed = " or ".join(map(_option, having))
            raise invalid(_option(name), given[name], f"only with {needed}")
    if not asked and "tries" in given:
        raise invalid("tries", given["tries"], f"only with {', '.join(map(_option, own))}")
    return asked[0] if asked else None


def _option(name: str) -> str:
    return name.replace("_", "-")


def _built(asking: str, given: Options) -> Question:
    """Build the question, and refuse what is left of the options."""
    left = dict(given)
    question = _by_text(left) if asking == "ask" else _by_option()[asking].asked(left)
    for name, value in left.items():
        raise invalid(_option(name), value, f'not with "{question.statistic}"')
    return question


def _by_text(given: Options) -> Question:
    """Build the question of a text, and take the options out that it understands."""
    text = given.pop("ask")
    if not isinstance(text, str):
        raise invalid("ask", text, 'a text, such as "n > 0.8 +/- 0.01"')
    disagreement, passes = (given.pop(name, None) for name in ("disagreement", "passes"))
    question: Question
    if (text := text.strip()) == GAP:
        if disagreement is not None:
            raise invalid("disagreement", disagreement, 'only with "n - o"')
        if passes is not None:
            raise invalid("passes", passes, "only with a condition, which models pass or fail")
        question = GapQuestion(Bands.asked(given).spec())
    else:
        # Other conditions have tolerances of their own.
        tolerance = given.pop("tolerance", None) if text == BETTER else None
        question = _beside(text, tolerance, passes, disagreement)
    if not given.pop("on_demand", False):
        return question
    if not isinstance(question, PassFail):
        raise invalid("on-demand", question.statistic, "only for one condition")
    return OnDemand(question)


_OF_ALARMS = ("labels", "steps", "delta", "g", "expects", "alarms", "tenants", "handover")


def _alarm(given: Options) -> MeterSpec:
    """Return the meter of an alarm; without labels it asks for them, or for g in a meter.toml."""
    left = {name: value for name, value in given.items() if name not in (*_OF_ALARMS, "ask")}
    for name, value in left.items():
        raise invalid(_option(name), value, "not with an alarm")
    settings = {name: given[name] for name in _OF_ALARMS if name in given}
    check_many(settings.get("labels"))
    if isinstance(teams := settings.get("tenants"), str):
        settings["tenants"] = tuple(read_whole("tenants", each) for each in teams.split(","))
    if settings.get("steps") == NO_END:
        settings |= {"steps": DEFAULT_STEPS, "endless": True}
    steps = sum(settings.get("tenants", ())) or DEFAULT_STEPS
    known: Options = {"question": ALARM, "steps": steps, "delta": DEFAULT_DELTA}
    return MeterSpec(bands=(), **(known | settings))


def _beside(
    text: str, tolerance: float | None, passes: int | None, disagreement: float | None
) -> PassFail | DifferenceReading:
    """Build a condition, or a reading of n - o."""
    found = parse_question(text, disagreement=disagreement, passes=passes, tolerance=tolerance)
    if isinstance(found, Condition):
        return PassFail.of(found)
    if isinstance(found, Vouching):
        raise invalid("ask", text, "give labels and steps, or make the meter")
    if disagreement is None:
        raise invalid("disagreement", None, "a reading of n - o needs one, such as 0.1")
    return DifferenceReading(found)


def _meter_by_text(plan: planning.Plan, given: Options) -> MeterSpec:
    """Return the meter of one question by its text."""
    if plan.meter is not None and plan.meter.vouches:
        return plan.meter
    known: Options = {"steps": plan.budget.steps, "delta": plan.budget.delta}
    if isinstance(plan.question, GapQuestion):
        return plan.question.spec.replace(**known)
    if given.get("on_demand"):
        raise invalid("on-demand", True, ONE_TEST_SET)
    known |= {name: given[name] for name in ("disagreement", "passes") if name in given}
    question, tolerance = given["ask"].strip(), given.get("tolerance")
    return MeterSpec(bands=(), question=question, tolerance=tolerance, **known)
