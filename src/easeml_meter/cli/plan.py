"""`meter plan`: how many labels a promise needs.

Stories that a plan can start from: `meter plan --preset NAME`; what is typed counts more.
"""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from easeml_meter.checks import read_shares, read_whole
from easeml_meter.cli.common import echo_json
from easeml_meter.cli.plan_keep import KEEP, labels_alone, plan_keep
from easeml_meter.cli.questions import (
    WHOLE,
    delta_of,
    meter_asked,
    meter_options,
    planned_question,
    question_options,
    retyped,
)
from easeml_meter.conditions import ALARM
from easeml_meter.core.questions.labels import (
    FEWEST,
    Way,
    fewer_answers,
    from_tables,
    other_ways,
    plan_labels,
    split,
    starts_with_alarm,
    validation_noise,
    with_validation,
)
from easeml_meter.core.questions.planning import (
    Plan,
    check_planned,
    required_labels,
    supported_steps,
)
from easeml_meter.core.questions.reasons import why_unexplained
from easeml_meter.errors import InvalidInput, invalid
from easeml_meter.promise.gains import Reach
from easeml_meter.report.gains import gate_beside, reach_json, reach_lines
from easeml_meter.report.presets import PRESETS
from easeml_meter.scoring.losses import parse_loss
from easeml_meter.spec import DEFAULT_DELTA, DEFAULT_STEPS, GAP, MeterSpec
from easeml_meter.spec.strata import check_new_strata

_TOML = Path("meter.toml")


def _integers(option: str, text: str | None) -> tuple[int, ...]:
    if text is None:
        return ()
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise invalid(option, text, "whole numbers with commas between them") from None


def _preset_option(command: Any) -> Any:
    """Add --preset, whose settings are the defaults of all other options."""

    def lay_under(context: click.Context, _: click.Parameter, name: str | None) -> None:
        if name is not None:
            context.default_map = {**(context.default_map or {}), **PRESETS[name]}
            context.meta["preset"] = name

    return click.option(
        "--preset",
        type=click.Choice(list(PRESETS)),
        is_eager=True,  # before the options whose defaults it sets
        expose_value=False,
        callback=lay_under,
        help="Start from a story; options that you give count more.",
    )(command)


def _check_alone(path: object) -> None:
    """Refuse a preset beside a meter.toml, which is a story of its own."""
    name = click.get_current_context().meta.get("preset")
    if name is not None and path is not None:
        raise invalid("preset", name, "without --spec: the file has all of it")


def plan_options(command: Any) -> Any:
    """Add what `meter plan` and `meter init` take: a meter, a question, a file or a story."""
    command = _preset_option(command)
    spec = click.option(
        "--spec", "path", type=click.Path(path_type=Path), help="Start from a meter.toml."
    )
    return meter_options(question_options(spec(command)))


@click.command()
@click.argument("hidden", metavar="[LABELS]", required=False)
@plan_options
@click.option("--gain", metavar="5%", help="With --ask keep: how many cases does it take?")
@click.option("--validation", type=WHOLE, help="Rows of the validation set: how noisy are they?")
@click.option("--rows", type=WHOLE, help="Labelled rows without a split: how many to hide?")
@click.option("--toml", "as_toml", is_flag=True, help="Print the meter.toml of the plan.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def plan(
    *,
    hidden: str | None,
    validation: int | None,
    rows: int | None,
    as_toml: bool,
    as_json: bool,
    path: Path | None,
    gain: str | None,
    **options: Any,
) -> None:
    """What do so many hidden labels promise, or how many does a promise need?

    Give labels to get the promise of ten answers. Give a tolerance to get the labels, or both to
    get the answers. In a meter's folder, give nothing to see its plan.

    \b
    Examples:
      meter plan 500
      meter plan 1000 --steps 20 --confidence 95
      meter plan --steps 10 --tolerance 0.01 --delta 0.01
      meter plan --ask "n > 0.8 +/- 0.01" --steps 32 --delta 0.0001
      meter plan --rows 1000
      meter plan --ask keep --gain 5%
      meter plan --preset agent --toml > meter.toml
    """
    if as_toml and as_json:
        raise invalid("--toml", "with --json", "one of them")
    _check_alone(path)
    said: list[str] = []
    if hidden is not None:
        if options["labels"] is not None:
            raise invalid("labels", hidden, "given twice")
        options["labels"] = read_whole("labels", hidden)
    if rows is not None:
        if options["labels"] is not None or validation is not None:
            raise invalid("rows", rows, "without --labels and --validation: they are split")
        options["labels"], validation, train = split(rows)
        hide = f"hide {options['labels']:,}, validate on {validation:,} and train on {train:,}"
        said.append(f"Of {rows:,} labelled rows, {hide}.")
    if path is None and not retyped(options) and validation is None and _TOML.is_file():
        path = _TOML
    labels = options["labels"]
    few = path is None and not as_toml and labels_alone(options) and labels < FEWEST
    if options["ask"] == KEEP or gain is not None or few:
        others = {"spec": path, "toml": as_toml, "validation": validation if rows is None else None}
        plan_keep(options | others, gain, said, as_json=as_json)
        return
    found, answer = planned(path, options, for_meter=as_toml)
    found = with_validation(found, validation)
    if as_toml:
        meter = found.meter or meter_asked(options, found)
        click.echo("" if meter is None else meter.to_toml(), nl=False)
        return
    if validation is not None and found.meter is not None:
        said.append(validation_noise(validation, found.meter))
    # Asked for a tolerance as well, the plan also says whether the labels reach it.
    wanted: Plan | None = None
    ways: tuple[Way, ...] = ()
    gate: list[Reach] = []
    if answer == "tolerance" and found.meter is not None:
        if found.spec.meter.question.reads == "gap" and (path is not None or options["tolerance"]):
            wanted = required_labels(spec_from(path, labels, options))
        ways = other_ways(found, labels)
        gate = gate_beside(found.meter, labels)
    if as_json:
        echo_json(_plan_dict(found, wanted, ways, said, gate))
        return
    if answer == "tolerance" and (fewer := fewer_answers(found, labels, options["steps"])):
        said.insert(0, fewer)
    show_plan(found, answer, *said, *_of_ways(ways), *_of_gate(gate, found))
    if wanted is not None:
        click.echo(_compared(wanted, found.labels))
    _show_next(found, path, options)


def planned(
    path: Path | None, options: dict[str, Any], *, for_meter: bool = True
) -> tuple[Plan, str]:
    """Plan what options ask; return what was not given, too: size, steps or tolerance."""
    labels = options["labels"]
    others = {name: value for name, value in options.items() if name != "labels"}
    if others["ask"] == KEEP:
        raise invalid("ask", KEEP, "meter gate OLD NEW, on result files: no meter asks this yet")
    if (others["ask"] or "").strip() == GAP:
        del others["ask"]  # bands are what no other question asks for
    elif path is None and _alarm_first(options):
        others["ask"] = ALARM
    if path is None and (asked := planned_question(others, labels, for_meter=for_meter)):
        return asked
    spec = spec_from(path, labels, options)
    check_new_strata(spec)
    parse_loss(spec.meter.sample.loss)
    if labels is None:
        return required_labels(spec), "size"
    if spec.meter.renewal.rolls:
        raise invalid("labels", labels, "of a rolling test set, plan --rolling with --batch")
    steps = options["steps"]
    if steps is None and (path is not None or options["tolerance"] is not None):
        return supported_steps(spec, labels), "steps"
    if spec.meter.question.reads != "gap":
        raise invalid("labels", labels, "give two of steps, tolerance and labels, not all")
    own = path is not None or any(options[name] for name in ("signals", "edges"))
    return plan_labels(spec, labels, steps, keep_edges=own), "tolerance"


_OF_ANY = {"labels", "steps", "confidence", "delta", "tenants", "handover"}
_OF_ALARMS = {"g", "expects", "alarms"}


def _alarm_first(options: dict[str, Any]) -> bool:
    """Whether nothing that is typed is about bands or another question."""
    given = {name: options[name] for name in options if options[name] not in (None, (), False)}
    if not given.keys() <= _OF_ANY | _OF_ALARMS:
        return False
    if given.keys() & _OF_ALARMS:
        return True
    return starts_with_alarm(options["labels"], options["steps"], delta_of(given))


def _plan_dict(
    plan: Plan,
    wanted: Plan | None,
    ways: Sequence[Way],
    said: Sequence[str],
    gate: Sequence[Reach],
) -> dict[str, Any]:
    data = plan.to_dict()
    if ways:
        data["other_ways"] = [each.to_dict() for each in ways]
    if gate:
        data["keep"] = reach_json(gate)
    if said:
        data["sets"] = list(said)
    if wanted is not None:
        data["asked"] = {
            "tolerances": [*map(float, wanted.spec.meter.question.tolerances)],
            "labels": wanted.labels,
            "reached": wanted.labels <= plan.labels,
        }
    return data


def _of_ways(ways: Sequence[Way]) -> Iterator[str]:
    if ways:
        yield "\nOther ways, and what they add to the validation error:"
    for way in ways:
        if way.added:
            asked = f"{way.change} (--ask {way.ask})" if way.ask else way.change
            yield f"  {asked:<32}{way.added}"


def _of_gate(rows: Sequence[Reach], plan: Plan) -> Iterator[str]:
    if rows:
        heading, *lines = reach_lines(plan.labels, plan.spec.meter.delta, rows)
        yield f"\n{heading}"
        yield from lines


def _show_next(plan: Plan, path: Path | None, options: dict[str, Any]) -> None:
    """Say how to make the meter of a plan, if one asks this, and what would need fewer labels."""
    if path == _TOML:
        return
    again = f"--spec {shlex.quote(str(path))} " if path is not None else ""
    if (preset := click.get_current_context().meta.get("preset")) is not None:
        again = f"--preset {preset} "
    try:
        meter = plan.meter or meter_asked(options, plan)
        if meter is not None:
            check_planned(meter)
    except InvalidInput as error:
        click.echo(f"\nA meter needs more: {error}")
        return
    typed = {name: value for name, value in options.items() if not _of_preset(name)}
    click.echo(f"\nNext: meter init {again}{retyped(typed)}".rstrip())
    if plan.meter is None or preset or options["labels"] is not None:
        return
    if why_unexplained(plan.meter) is None:
        click.echo(f"What would need fewer labels: meter compare --why {again}{retyped(typed)}")


def _of_preset(name: str) -> bool:
    source = click.get_current_context().get_parameter_source(name)
    return source is ParameterSource.DEFAULT_MAP


def _compared(wanted: Plan, labels: int) -> str:
    """Say whether these labels reach the tolerance that was asked for."""
    from easeml_meter.promise.numbers.rounding import at_most

    reached = "is reached" if wanted.labels <= labels else "is not reached"
    meter = wanted.spec.meter
    distinct = {*meter.question.tolerances}
    tolerances = map(at_most, distinct if len(distinct) == 1 else meter.question.tolerances)
    return (
        f"\nThe tolerance you asked for, {', '.join(tolerances)}, {reached} with {labels:,} "
        f"{meter.sample.handed_in}: it takes {wanted.labels:,}."
    )


def spec_from(path: Path | None, labels: int | None, options: dict[str, Any]) -> MeterSpec:
    """Lay the options given over the file given, or over the defaults."""
    # A flag that is left out lets the file's word stand.
    given = {
        name: value
        for name, value in options.items()
        if value not in (None, ()) and value is not False and name not in ("labels", "ask")
    }
    if "confidence" in given:
        given["delta"] = delta_of(given)
        del given["confidence"]
    for name in ("tenants", "reverts"):
        if name in given:
            given[name] = _integers(name, given[name])
    tolerances, edges = (
        read_shares(name, given.pop(name)) if name in given else None
        for name in ("tolerance", "edges")
    )
    signals = given.pop("signals", None)
    if edges is not None and "drawn" in given:
        raise invalid("edges", edges, "the meter draws them: give --edges or --drawn, not both")
    if path is not None:
        if edges is not None:
            raise invalid("edges", edges, f"{path} has its own: change them there")
        spec = MeterSpec.read(path, from_tables)
        if signals not in (None, spec.meter.question.rungs) and spec.meter.question.numbered:
            raise invalid("signals", signals, f"{path} has {spec.meter.question.rungs} bands")
        if tolerances is not None and spec.meter.question.reads != "gap":
            raise invalid("tolerance", tolerances, f"{path} has its own: change it there")
        if tolerances is not None:
            if len(tolerances) not in (1, spec.meter.question.rungs):
                allowed = f"one number, or one for each of {spec.meter.question.rungs} bands"
                raise invalid("tolerance", tolerances, allowed)
            spec = spec.with_tolerances(tolerances * (spec.meter.question.rungs // len(tolerances)))
        unknown = sorted(set(given) - {each.name for each in dataclasses.fields(spec)})
        if unknown:
            option = unknown[0].replace("_", "-")
            raise invalid(option, given[unknown[0]], f"{path} says what is asked: change it there")
        return spec.replace(**given)
    if tolerances is None:
        if labels is None:
            raise invalid("labels", None, "say how many can stay hidden: meter plan --labels 500")
        tolerances = [0.1]  # only the ratios matter: the question asks for the scale
    # Where the question asks for the steps, the first number that its options allow.
    usual = 1 if labels is not None else DEFAULT_STEPS
    least = max([usual, *given.get("reverts", ())])
    given.setdefault("steps", sum(given.get("tenants", ())) or least)
    given.setdefault("delta", DEFAULT_DELTA)
    each = tolerances[0] if len(tolerances) == 1 else tolerances
    return MeterSpec.uniform(signals=signals, tolerance=each, edges=edges, **given)


def show_plan(plan: Plan, answer: str = "size", *lines: str) -> None:
    """Print a plan: what an answer will say, and `lines`; then the numbers and what they rest on.

    `answer` is what was not given: size, steps or tolerance.
    """
    from rich.console import Console
    from rich.padding import Padding
    from rich.table import Table

    from easeml_meter.promise.numbers.rounding import at_most

    question, budget = plan.question, plan.budget
    rows = {
        "size": f"{plan.size:,}",
        "steps": budget.answers,
        **question.facts,
        "delta": at_most(budget.failure),
        "failure probability": at_most(plan.failure_probability),
        **question.settings(plan),
    }
    if plan.rows is not None and plan.prevalence is not None:
        share = f"{100 * plan.prevalence:g} %"
        rows["rows to draw"] = f"{plan.rows:,}, of which {share} count"
    # Of the labels given, only whole strata are drawn.
    given = "used" if plan.meter is not None and plan.meter.stratified else "given"
    names = {"size": f"{plan.unit} {'needed' if answer == 'size' else given}"}
    if answer != "size":
        names[answer] = _ANSWERED[answer]
    if said := [each for each in (question.headline, question.below_headline, *lines) if each]:
        click.echo("\n".join([*said, ""]))
    table = Table(show_header=False, box=None, padding=(0, 2))
    for name, value in rows.items():
        table.add_row(names.get(name, name), value, style="bold green" if name == answer else None)
    console = Console(highlight=False)
    console.print(table)
    console.print(Padding(plan.promise, (1, 2)))
    for line in plan.notes:
        console.print(Padding(f"Note: {line}.", (0, 2, 1, 2)))
    console.print("  This rests on:")
    for line in plan.assumptions:
        console.print(Padding(f"- {line}", (0, 2)))


_ANSWERED = {"steps": "steps supported", "tolerance": "tolerance reached"}
