"""The options of `meter plan` for questions other than the gap."""

from __future__ import annotations

import dataclasses
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
    click.option(
        "--question",
        multiple=True,
        help='Pass or fail, as in "n > 0.8 +/- 0.01"; "better"; "gap". Several: any at each step.',
    ),
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
    click.option(
        "--rolling", is_flag=True, help="Each step adds a batch of labels, and frees one."
    ),
    click.option("--window", type=int, help="With --rolling: batches in use at a time."),
    click.option("--batch", type=int, help="With --rolling: labels a batch that you have."),
    click.option(
        "--submissions", type=int, help="With --rolling: answers for each batch. Default: 1."
    ),
    click.option(
        "--judge-error", type=float, help="Few labels and a judge that errs on this share."
    ),
    click.option("--pool", type=int, help="With --judge-error: inputs without labels."),
    click.option(
        "--on-demand", is_flag=True, help='With "n - o": fresh inputs, few labels, each step.'
    ),
    click.option("--tries", type=int, help="How often sealing may be tried. Default: 1."),
)
_OWN = {
    "question": ("disagreement", "passes", "on_demand"),
    "metric": ("floor", "classes", "weights"),
    "rolling": ("window", "batch", "submissions"),
    "judge_error": ("pool",),
}
"""The option that asks each kind of question, and those that only it has."""


def question_options(command: Command) -> Command:
    """Add the options that ask for something else than the gap."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def plan_question(options: dict[str, Any], labels: int | None, *, as_json: bool) -> bool:
    """Plan the question that the options ask; return False if they ask for the gap."""
    given = {
        name: value
        for name, value in options.items()
        if value not in (None, ()) and value is not False
    }
    kind = _kind(given)
    if kind is None:
        return False
    if kind == "rolling":
        if labels is not None:
            raise invalid("labels", labels, "with --rolling, give --batch")
        labels = given.pop("batch", None)
    plan = _planned(kind, given, labels)
    if as_json:
        click.echo(json.dumps(plan.to_dict(), indent=2))
    else:
        steps = "question" in given or options["tolerance"] is not None
        _show(plan, "size" if labels is None else "steps" if steps else "tolerance")
    return True


def _planned(kind: str, given: dict[str, Any], size: int | None) -> QuestionPlan:
    """Answer the one of size, steps and tolerance that was not given."""
    from easeml_meter.core.questions import planning

    # A rolling test set without steps is promised for as many as one window has.
    if kind == "rolling" and size is not None and "tolerance" not in given:
        given.setdefault("steps", given.get("window"))
    steps, delta = given.pop("steps", None), delta_of(given)
    budget = planning.Budget(steps or 1, delta, given.pop("tries", 1))
    for name in ("delta", "confidence"):
        given.pop(name, None)
    if size is not None and "tolerance" not in given and kind != "question":
        if steps is None:
            raise invalid("steps", None, "give --steps or --tolerance")
        return planning.reachable_tolerance(
            lambda tolerance: _built(kind, given | {"tolerance": tolerance}), size, budget
        )
    question = _built(kind, given)
    if size is None:
        if steps is None:
            raise invalid("steps", None, "give --steps, or --labels to ask for them")
        return planning.required_size(question, budget)
    if steps is not None:
        raise invalid("labels", size, "give two of steps, tolerance and labels, not all")
    return planning.supported_steps(question, size, budget)


def _built(kind: str, given: dict[str, Any]) -> Question:
    """Build the question, and refuse what is left of the options."""
    left = dict(given)
    question = _BUILDERS[kind](left)
    for name, value in left.items():
        raise invalid(name.replace("_", "-"), value, f'not with "{question.statistic}"')
    return question


def delta_of(given: dict[str, Any]) -> float:
    """Return delta, or what is left of the confidence, or the default."""
    if "confidence" not in given:
        return float(given.get("delta", 0.01))
    confidence = given["confidence"]
    if "delta" in given:
        raise invalid("confidence", confidence, "give delta or confidence, not both")
    # 1 - 0.99 is 0.010000000000000009: keep what the user meant.
    return round(1 - confidence, 15) if math.isfinite(confidence) else float(confidence)


def _kind(given: dict[str, Any]) -> str | None:
    """Return the option that asks for another question than the gap, if one does."""
    asked = [kind for kind in _OWN if kind in given]
    if len(asked) > 1:
        raise invalid(_option(asked[1]), given[asked[1]], f"not with --{_option(asked[0])}")
    for kind, names in _OWN.items():
        for name in set(names) & set(given):
            if kind not in asked:
                raise invalid(_option(name), given[name], f"only with --{_option(kind)}")
    if not asked and "tries" in given:
        raise invalid("tries", given["tries"], f"only with --{', --'.join(map(_option, _OWN))}")
    return asked[0] if asked else None


def _option(name: str) -> str:
    return name.replace("_", "-")


def _questions(given: dict[str, Any]) -> Question:
    """Build one condition, or several questions to be asked in any order."""
    from easeml_meter.core.questions.gap import Gap
    from easeml_meter.core.questions.mixed import Mixed
    from easeml_meter.core.questions.ondemand import OnDemand
    from easeml_meter.core.questions.passing import PassFail

    texts = [text.strip() for text in given.pop("question")]
    disagreement, passes = (given.pop(name, None) for name in ("disagreement", "passes"))
    asked: list[Question] = []
    # Conditions have tolerances of their own; the two that have none take that of the options.
    tolerance = None
    if "gap" in texts:
        bands = _bands(given)
        tolerance = bands.tolerance
        asked.append(Gap(bands.spec()))
    elif "better" in texts:
        tolerance = _number(given, "tolerance")
    for text in texts:
        if text != "gap":
            own = tolerance if text == "better" else None
            condition = PassFail.parse(text, tolerance=own, passes=passes)
            if condition.compares or len(texts) == 1:
                condition = dataclasses.replace(condition, disagreement=disagreement)
            asked.append(condition)
    question = asked[0] if len(asked) == 1 else Mixed(tuple(asked))
    if not given.pop("on_demand", False):
        return question
    if not isinstance(question, PassFail):
        raise invalid("on-demand", question.statistic, "only for one condition")
    return OnDemand(question)


def _rolling(given: dict[str, Any]) -> Question:
    from easeml_meter.core.questions.rolling import Rolling

    given.pop("rolling")
    if "window" not in given:
        raise invalid("window", None, "give --window, such as 52")
    return Rolling(_bands(given), given.pop("window"), given.pop("submissions", 1))


def _judge(given: dict[str, Any]) -> Question:
    from easeml_meter.core.questions.judge import Judge

    if "pool" not in given:
        raise invalid("pool", None, "give --pool, such as 1000000")
    return Judge(_bands(given), given.pop("judge_error"), given.pop("pool"))


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
    "question": _questions,
    "metric": _metric,
    "rolling": _rolling,
    "judge_error": _judge,
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


def _show(plan: QuestionPlan, answer: str) -> None:
    """Print a plan: the answer first, then what is promised and what that rests on."""
    from rich.console import Console
    from rich.padding import Padding
    from rich.table import Table

    from easeml_meter.stats.rounding import at_most

    question, budget = plan.question, plan.budget
    console = Console(highlight=False)
    unit = f"{question.unit} {'needed' if answer == 'size' else 'given'}"
    rows = {
        "size": (unit, f"{plan.size:,}"),
        "steps": ("steps supported" if answer == "steps" else "steps", f"{budget.steps:,}"),
        "question": ("question", question.statistic),
        "answers": ("answers", ", ".join(question.answers)),
        "delta": ("delta", at_most(budget.failure)),
        "failure": ("failure probability", at_most(plan.failure_probability)),
    }
    if question.tolerance is not None:
        reached = "tolerance reached" if answer == "tolerance" else "tolerance"
        rows["tolerance"] = (reached, at_most(question.tolerance))
    table = Table(show_header=False, box=None, padding=(0, 2))
    for name, row in rows.items():
        table.add_row(*row, style="bold green" if name == answer else None)
    console.print(table)
    console.print(Padding(plan.promise, (1, 2)))
    for line in plan.notes:
        console.print(Padding(f"Note: {line}.", (0, 2, 1, 2)))
    console.print("  This rests on:")
    for line in plan.assumptions:
        console.print(Padding(f"- {line}", (0, 2)))
