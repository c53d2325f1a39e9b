"""The options of `meter plan` for questions other than the gap."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from easeml_meter.errors import invalid

if TYPE_CHECKING:
    from easeml_meter.core.questions.planning import QuestionPlan
    from easeml_meter.core.questions.question import Question
    from easeml_meter.spec import MeterSpec

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
        "--prevalence",
        type=float,
        help="With --metric: share of positives, or of the smallest class where all count.",
    ),
    click.option("--positive", help="With --metric and --toml: the positive class."),
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


def question_options(command: Command) -> Command:
    """Add the options that ask for something else than the gap."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def plan_question(
    options: dict[str, Any], labels: int | None, *, as_json: bool, as_toml: bool = False
) -> bool:
    """Plan the question that the options ask; return False if they ask for the gap."""
    from easeml_meter.core.questions import asking

    asked, positive = _asked(options)
    if positive is not None and not (as_toml and "metric" in asked):
        raise invalid("positive", positive, "only with --metric and --toml")
    if not asking.asks(asked):
        return False
    plan = asking.plan_question(**_read(asked), labels=labels)
    if as_toml:
        click.echo(_meter_of(plan, asked, positive).to_toml(), nl=False)
    elif as_json:
        click.echo(json.dumps(plan.to_dict(), indent=2))
    else:
        given = labels is not None or "batch" in asked
        steps = "question" in asked or "tolerance" in asked
        show_question(plan, "size" if not given else "steps" if steps else "tolerance")
        click.echo("\nNext: --toml, with the same options, prints a meter.toml for meter init.")
    return True


def meter_asked(options: dict[str, Any]) -> MeterSpec | None:
    """Return the meter whose question the options ask; None: they ask for the gap."""
    from easeml_meter.core.questions import asking

    asked, positive = _asked(options)
    if not asking.asks(asked):
        return None
    return _meter_of(asking.plan_question(**_read(asked)), asked, positive)


def _asked(options: dict[str, Any]) -> tuple[dict[str, Any], str | None]:
    """Return the options that were given, without the positive class, and that class."""
    # Not "in (.., False)": no passes, 0, would be left out with the flags.
    given = {
        name: value
        for name, value in options.items()
        if value not in (None, ()) and value is not False
    }
    positive = given.pop("positive", None)
    return given, positive


def _read(asked: dict[str, Any]) -> dict[str, Any]:
    """Read the numbers among the options, where they are."""
    for name in ("tolerance", "weights", "edges"):
        if name in asked:
            asked[name] = _numbers(name, asked[name])
    if "tolerance" in asked:
        asked["tolerance"] = _one(asked["tolerance"])
    asked["delta"] = delta_of(asked)
    asked.pop("confidence", None)
    return asked


def _meter_of(plan: QuestionPlan, asked: dict[str, Any], positive: str | None) -> MeterSpec:
    """Return the meter of a plan, with the bands that were planned."""
    from easeml_meter.core.questions.judge import Judge
    from easeml_meter.core.questions.metrics import Metric
    from easeml_meter.core.questions.rolling import Rolling

    question, budget = plan.question, plan.budget
    known: dict[str, Any] = {"steps": budget.steps, "delta": budget.delta}
    if isinstance(question, Judge):
        known |= {"judge_error": question.error, "pool": question.pool, "rows": plan.size}
        return question.bands.spec().replace(**known, tries=budget.tries)
    if isinstance(question, Metric):
        known |= {"loss": _loss(question.name, positive), "floor": question.floor}
        return question.bands.spec().replace(**known, rows=plan.rows, tries=budget.tries)
    if budget.tries > 1:
        raise invalid("--toml", f"{budget.tries} tries", "a meter has one: leave out --tries")
    if isinstance(question, Rolling):
        return question.spec(**known)
    return _asking(question, asked, known)


def _loss(name: str, positive: str | None) -> str:
    """Return the loss of a metric."""
    from easeml_meter.corpus import KINDS, PLANNED_ONLY, WEIGHTED

    if name in PLANNED_ONLY:
        raise invalid("--toml", name, PLANNED_ONLY[name])
    if KINDS[name].averaged:
        inside = "[0.6,0.4]" if name == WEIGHTED else ""
        example = f'loss = "{name}{inside}" and classes = ["a", "b"]'
        raise invalid("--toml", name, f"write a meter.toml with the classes by name: {example}")
    if positive is None:
        raise invalid("positive", None, "name the positive class, as in --positive fraud")
    return f"{name}[{positive}]"


def _asking(question: Question, asked: dict[str, Any], known: dict[str, Any]) -> MeterSpec:
    """Return the meter of one question by its text, or of several; the gap comes first."""
    from easeml_meter.core.questions.gap import GapQuestion
    from easeml_meter.core.questions.mixed import Mixed
    from easeml_meter.spec import GAP, MeterSpec

    if "on_demand" in asked:  # every step has fresh inputs: a test set of its own
        known |= {"steps": 1, "sessions": known["steps"], "on_demand": True}
    texts = [text.strip() for text in asked["question"]]
    known |= {name: asked[name] for name in ("disagreement", "passes") if name in asked}
    each = question.questions if isinstance(question, Mixed) else (question,)
    for gap in each:
        if isinstance(gap, GapQuestion):
            also = tuple(text for text in texts if text != GAP)
            return gap.spec.replace(**known, also=also)
    tolerance = asked.get("tolerance")
    return MeterSpec(
        bands=(), question=texts[0], also=tuple(texts[1:]), tolerance=tolerance, **known
    )


def _one(tolerances: list[float]) -> float:
    """Return the tolerance of a question; bands with one each are for the gap."""
    if len(tolerances) > 1:
        raise invalid("tolerance", tolerances, "one number")
    return tolerances[0]


def _numbers(name: str, text: str) -> list[float]:
    """Read numbers with commas between them."""
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise invalid(name, text, "a number, or numbers with commas between them") from None


def delta_of(given: dict[str, Any]) -> float:
    """Return delta, or what is left of the confidence, or the default."""
    if "confidence" not in given:
        return float(given.get("delta", 0.01))
    confidence = given["confidence"]
    if "delta" in given:
        raise invalid("confidence", confidence, "give delta or confidence, not both")
    # 1 - 0.99 is 0.010000000000000009: keep what the user meant.
    return round(1 - confidence, 15) if math.isfinite(confidence) else float(confidence)


def show_question(plan: QuestionPlan, answer: str) -> None:
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
    if plan.rows is not None and plan.prevalence is not None:
        share = f"{100 * plan.prevalence:g} %"
        rows["rows"] = ("rows to draw", f"{plan.rows:,}, of which {share} count")
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
