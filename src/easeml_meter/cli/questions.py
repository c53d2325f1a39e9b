"""The options of `meter plan` for questions other than the gap."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from easeml_meter.errors import invalid

if TYPE_CHECKING:
    from easeml_meter.core.questions.bands import Bands
    from easeml_meter.core.questions.planning import QuestionPlan
    from easeml_meter.core.questions.question import Question

Command = TypeVar("Command", bound=Callable[..., Any])

_OPTIONS = (
    click.option("--question", help='Pass or fail, as in "n > 0.8 +/- 0.01"; or "better".'),
    click.option(
        "--disagreement", type=float, help='With "n - o": fail what differs on more rows.'
    ),
    click.option("--passes", type=int, help="Models that may pass before the one that closes."),
    click.option("--metric", help="The gap of a score of the whole test set, such as f1 or auc."),
    click.option("--floor", type=float, help='With --metric: answer "below the floor" below it.'),
    click.option(
        "--classes", type=int, help="With --metric: classes that are averaged. Default: 2."
    ),
    click.option(
        "--weights", help="With --metric weighted: weights of the classes, as 0.5,0.3,0.2."
    ),
    click.option("--tries", type=int, help="How often sealing may be tried. Default: 1."),
)
_SHARED = ("steps", "delta", "confidence", "tries")
"""Options of every question. All others belong to one kind of it."""
_OWN = {
    "question": ("disagreement", "passes"),
    "metric": ("floor", "classes", "weights"),
}
"""The option that asks each kind of question, and those that only it has."""


def question_options(command: Command) -> Command:
    """Add the options that ask for something else than the gap."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def plan_question(options: dict[str, Any], labels: int | None, *, as_json: bool) -> bool:
    """Plan the question that the options ask; return False if they ask for the gap."""
    from easeml_meter.core.questions import planning

    given = {name: value for name, value in options.items() if value is not None and value != ()}
    given = {name: value for name, value in given.items() if value is not False}
    question = _question(given)
    if question is None:
        return False
    for name in set(given) - set(_SHARED):
        raise invalid(name.replace("_", "-"), given[name], f'not with "{question.statistic}"')
    steps, delta = given.get("steps"), delta_of(given)
    if steps is None and labels is None:
        raise invalid("steps", None, "give --steps, or --labels to ask for them")
    if steps is not None and labels is not None:
        raise invalid("labels", labels, "give --steps or --labels, not both")
    budget = planning.Budget(steps or 1, delta, given.get("tries", 1))
    plan = (
        planning.required_size(question, budget)
        if labels is None
        else planning.supported_steps(question, labels, budget)
    )
    if as_json:
        click.echo(json.dumps(plan.to_json(), indent=2))
    else:
        _show(plan, labels_given=labels is not None)
    return True


def delta_of(given: dict[str, Any]) -> float:
    """Return delta, or what is left of the confidence, or the default."""
    if "confidence" not in given:
        return float(given.get("delta", 0.01))
    confidence = given["confidence"]
    if "delta" in given:
        raise invalid("confidence", confidence, "give delta or confidence, not both")
    # 1 - 0.99 is 0.010000000000000009: keep what the user meant.
    return round(1 - confidence, 15) if math.isfinite(confidence) else float(confidence)


def _question(given: dict[str, Any]) -> Question | None:
    """Take the options of one kind of question out of those given, and build it."""
    asked = [kind for kind in _OWN if kind in given]
    if len(asked) > 1:
        raise invalid(asked[1], given[asked[1]], f"not with --{asked[0]}")
    for kind, names in _OWN.items():
        for name in set(names) & set(given):
            if kind not in asked:
                raise invalid(name, given[name], f"only with --{kind}")
    if not asked:
        if "tries" in given:
            raise invalid("tries", given["tries"], f"only with --{', --'.join(_OWN)}")
        return None
    return _BUILDERS[asked[0]](given)


def _pass_fail(given: dict[str, Any]) -> Question:
    from easeml_meter.core.questions.passing import PassFail

    options = {name: given.pop(name, None) for name in _OWN["question"]}
    tolerance = _number(given, "tolerance")
    return PassFail.parse(given.pop("question"), tolerance=tolerance, **options)


def _metric(given: dict[str, Any]) -> Question:
    from easeml_meter.core.questions.metrics import KINDS, Metric

    name = given.pop("metric")
    averaged = name in KINDS and KINDS[name].classes
    return Metric(
        name,
        _bands(given, shares=name in ("accuracy", "recall", "precision")),
        floor=given.pop("floor", None),
        classes=given.pop("classes", 2 if averaged else 1),
        weights=_numbers(given, "weights") or (),
    )


def _bands(given: dict[str, Any], *, shares: bool = True) -> Bands:
    """Take the bands out of the options given."""
    from easeml_meter.core.questions.bands import Bands

    tolerance = _number(given, "tolerance")
    if tolerance is None:
        raise invalid("tolerance", None, "give --tolerance, such as 0.01")
    edges = _numbers(given, "edges")
    signals = given.pop("signals", 5 if edges is None else len(edges) + 1)
    return Bands(tolerance, signals, edges, given.pop("drawn", None), shares)


_BUILDERS: dict[str, Callable[[dict[str, Any]], Question]] = {
    "question": _pass_fail,
    "metric": _metric,
}


def _numbers(given: dict[str, Any], name: str) -> tuple[float, ...] | None:
    """Take a list of numbers with commas between them out of the options given."""
    text = given.pop(name, None)
    try:
        return None if text is None else tuple(float(part) for part in text.split(","))
    except ValueError:
        raise invalid(name, text, "numbers with commas between them") from None


def _number(given: dict[str, Any], name: str) -> float | None:
    """Take an option out that may be a list for the gap, but is one number here."""
    text = given.pop(name, None)
    try:
        return None if text is None else float(text)
    except ValueError:
        raise invalid(name, text, "one number") from None


def _show(plan: QuestionPlan, *, labels_given: bool) -> None:
    """Print a plan: the answer first, then what is promised and what that rests on."""
    from rich.console import Console
    from rich.padding import Padding
    from rich.table import Table

    from easeml_meter.stats.rounding import at_most

    question, budget = plan.question, plan.budget
    console = Console(highlight=False)
    rows = [
        (f"{question.unit} {'given' if labels_given else 'needed'}", f"{plan.size:,}"),
        ("steps supported" if labels_given else "steps", f"{budget.steps:,}"),
        ("question", question.statistic),
        ("answers", ", ".join(question.answers)),
        ("delta", at_most(budget.failure)),
        ("failure probability", at_most(plan.failure_probability)),
    ]
    table = Table(show_header=False, box=None, padding=(0, 2))
    for index, (name, value) in enumerate(rows):
        table.add_row(name, value, style="bold green" if index == int(labels_given) else None)
    console.print(table)
    console.print(Padding(plan.promise, (1, 2)))
    console.print("  This rests on:")
    for line in plan.assumptions:
        console.print(Padding(f"- {line}", (0, 2)))
