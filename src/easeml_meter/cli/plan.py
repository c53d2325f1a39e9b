"""`meter plan`: how many labels a promise needs.

Stories that a plan can start from: `meter plan --preset NAME`; what is typed counts more.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from easeml_meter.cli.questions import (
    delta_of,
    meter_asked,
    numbers,
    planned_question,
    question_options,
)
from easeml_meter.errors import invalid
from easeml_meter.report.presets import PRESETS
from easeml_meter.spec import MeterSpec, Protocol

if TYPE_CHECKING:
    from easeml_meter.core.questions.planning import Plan


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


@click.command()
@click.option("--steps", type=int, help="Number of promised answers, T.")
@click.option("--signals", type=int, help="Number of equally wide bands, m.")
@click.option(
    "--edges",
    help="Inner edges of the bands. Default: 0.02,0.05,0.1,0.2, as far as two tolerances apart.",
)
@click.option(
    "--drawn", type=float, help="Draw the edges of every answer at random, this far apart."
)
@click.option("--tolerance", help="One number, or a comma-separated list with one for each band.")
@click.option("--delta", type=float, help="Probability that the promise may fail. Default: 0.01.")
@click.option("--confidence", type=float, help="Given instead of delta: 1 - delta.")
@click.option(
    "--protocol", type=click.Choice([str(name) for name in Protocol]), help="Default: regular."
)
@click.option("--loss", help='Loss of each example. Default: "0-1". Others use the convex bound.')
@click.option("--tenants", help="Steps of each isolated team, such as 5,5.")
@click.option("--handover", is_flag=True, help="Teams start from each other's checkpoints.")
@click.option("--reverts", help="Steps to undo, fixed in advance, such as 1,2,3.")
@click.option("--memory", type=int, help="Models depend on at most this many of the last answers.")
@click.option("--ceiling", type=float, help='Answer "above the ceiling" for larger test losses.')
@click.option("--top-up", type=int, help="Steps more, once fresh labels have joined the test set.")
@click.option(
    "--clusters", is_flag=True, help="Rows belong together: one example is a cluster of them."
)
@question_options
@click.option("--labels", type=int, help="Labels you have: how many steps, or which tolerance?")
@click.option("--spec", "path", type=click.Path(path_type=Path), help="Start from a meter.toml.")
@_preset_option
@click.option("--toml", "as_toml", is_flag=True, help="Print the meter.toml of the plan.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def plan(
    as_toml: bool, as_json: bool, labels: int | None, path: Path | None, **options: Any
) -> None:
    """How many labels does the hidden test set need?

    Give steps and tolerance to get the labels. Give labels and tolerance to get the steps. Give
    labels and steps to get the tolerance that can be promised.

    \b
    Examples:
      meter plan --steps 10 --tolerance 0.01 --delta 0.01
      meter plan --labels 50000 --tolerance 0.01
      meter plan --labels 50000 --steps 20
      meter plan --question "n > 0.8 +/- 0.01" --steps 32 --delta 0.0001
      meter plan --preset agent --toml > meter.toml
    """
    if as_toml and as_json:
        raise invalid("--toml", "with --json", "one of them")
    _check_alone(path)
    asked = planned_question(options, labels, for_meter=as_toml) if path is None else None
    if asked is not None:
        found, answer = asked
        if as_toml:
            click.echo(_toml_of(meter_asked(options, found)), nl=False)
            return
        _tell(found, answer, as_json=as_json)
        return
    spec = spec_from(path, labels, options)
    found, answer = _planned(spec, labels, options, named=path is not None)
    if as_toml:
        click.echo(_toml_of(found.meter), nl=False)
        return
    # Asked for a tolerance as well, the plan also says whether the labels reach it.
    wanted = None
    if answer == "tolerance" and (path is not None or options["tolerance"]):
        from easeml_meter.core.questions.planning import required_labels

        wanted = required_labels(spec)
    _tell(found, answer, wanted, as_json=as_json)


def _planned(
    spec: MeterSpec, labels: int | None, options: dict[str, Any], *, named: bool
) -> tuple[Plan, str]:
    """Plan a meter; return what was not given, too. `named`: its bands are those of a file."""
    from easeml_meter.core.questions.edges import reachable_with_default_bands
    from easeml_meter.core.questions.planning import (
        reachable_tolerance,
        required_labels,
        supported_steps,
    )
    from easeml_meter.scoring.losses import parse_loss
    from easeml_meter.spec.strata import check_new_strata

    check_new_strata(spec)
    parse_loss(spec.loss)
    if labels is None:
        return required_labels(spec), "size"
    if spec.window is not None:
        raise invalid("labels", labels, "of a rolling test set, plan --rolling with --batch")
    if options["steps"] is None:
        return supported_steps(spec, labels), "steps"
    if not spec.bands:
        raise invalid("labels", labels, "give two of steps, tolerance and labels, not all")
    own = named or any(options[name] for name in ("signals", "edges", "drawn"))
    if own or len(set(spec.tolerances)) > 1:
        return reachable_tolerance(spec, labels), "tolerance"
    return reachable_with_default_bands(spec, labels), "tolerance"


def _toml_of(meter: MeterSpec | None) -> str:
    return "" if meter is None else meter.to_toml()


def _tell(plan: Plan, answer: str, wanted: Plan | None = None, *, as_json: bool) -> None:
    """Print a plan; `wanted`: what the tolerance that was asked for takes."""
    if as_json:
        data = plan.to_dict()
        if wanted is not None:
            data["asked"] = {
                "tolerances": list(wanted.spec.tolerances),
                "labels": wanted.labels,
                "reached": wanted.labels <= plan.labels,
            }
        click.echo(json.dumps(data, indent=2))
        return
    show_plan(plan, answer)
    if wanted is not None:
        click.echo(_compared(wanted, plan.labels))
    if plan.meter is None:
        from easeml_meter.core.questions.ondemand import ONE_TEST_SET, OnDemand

        prints = "--toml, with the same options, prints a meter.toml for meter init"
        click.echo(f"\nNext: {ONE_TEST_SET if isinstance(plan.question, OnDemand) else prints}.")
        return
    from easeml_meter.core.questions.reasons import why_unexplained

    if why_unexplained(plan.meter) is None:
        click.echo("\nNext: meter init makes a meter; meter compare --why, with the same options,")
        click.echo("says what would need fewer labels.")
    else:
        click.echo("\nNext: meter init makes a meter.")


def _compared(wanted: Plan, labels: int) -> str:
    """Say whether these labels reach the tolerance that was asked for."""
    reached = "is reached" if wanted.labels <= labels else "is not reached"
    return (
        f"\nThe tolerance you asked for, {_tolerances(wanted.spec)}, {reached} with {labels:,} "
        f"{wanted.spec.unit}: it takes {wanted.labels:,}."
    )


def _tolerances(spec: MeterSpec) -> str:
    """Name the tolerance of all bands, or that of each."""
    from easeml_meter.stats.rounding import at_most

    distinct = sorted(set(spec.tolerances))
    return ", ".join(at_most(eps) for eps in (distinct if len(distinct) == 1 else spec.tolerances))


def spec_from(path: Path | None, labels: int | None, options: dict[str, Any]) -> MeterSpec:
    """Lay the options given over the file given, or over the defaults."""
    # A flag that is left out lets the file's word stand.
    given = {
        name: value
        for name, value in options.items()
        if value not in (None, ()) and value is not False
    }
    if "confidence" in given:
        given["delta"] = delta_of(given)
        del given["confidence"]
    for name in ("tenants", "reverts"):
        if name in given:
            given[name] = _integers(name, given[name])
    tolerances = numbers("tolerance", given.pop("tolerance")) if "tolerance" in given else None
    edges = numbers("edges", given.pop("edges")) if "edges" in given else None
    signals = given.pop("signals", None)
    if edges is not None and "drawn" in given:
        raise invalid("edges", edges, "the meter draws them: give --edges or --drawn, not both")
    if path is not None:
        if edges is not None:
            raise invalid("edges", edges, f"{path} has its own: change them there")
        spec = MeterSpec.read(path)
        if signals not in (None, spec.signals) and spec.drawn is None:
            raise invalid("signals", signals, f"{path} has {spec.signals} bands")
        if tolerances is not None and not spec.bands:
            raise invalid("tolerance", tolerances, f"{path} has its own: change it there")
        if tolerances is not None:
            spec = spec.with_tolerances(_one_each(tolerances, spec.signals))
        unknown = sorted(set(given) - {each.name for each in dataclasses.fields(spec)})
        if unknown:
            option = unknown[0].replace("_", "-")
            raise invalid(option, given[unknown[0]], f"{path} says what is asked: change it there")
        return spec.replace(**given)
    if "steps" not in given:
        if labels is None:
            example = "meter plan --steps 10 --tolerance 0.01"
            raise invalid("steps", None, f"say --steps, or --labels to ask for them: {example}")
        # The question asks for them; the first number of steps that its options allow.
        least = [1, *given.get("reverts", ())]
        given["steps"] = sum(given.get("tenants", ())) or max(least)
    elif labels is not None and tolerances is None:
        tolerances = [0.1]  # only the ratios matter: the question asks for the scale
    if tolerances is None:
        raise invalid("tolerance", None, "give --tolerance, such as 0.01")
    given.setdefault("delta", 0.01)
    each = tolerances[0] if len(tolerances) == 1 else tolerances
    return MeterSpec.uniform(signals=signals, tolerance=each, edges=edges, **given)


def _one_each(tolerances: list[float], signals: int) -> list[float]:
    if len(tolerances) not in (1, signals):
        raise invalid("tolerance", tolerances, f"one number, or one for each of {signals} bands")
    return tolerances * signals if len(tolerances) == 1 else tolerances


def show_plan(plan: Plan, answer: str = "size") -> None:
    """Print a plan: what it answers first, then what is promised and what that rests on.

    `answer` is what was not given: size, steps or tolerance.
    """
    from rich.console import Console
    from rich.padding import Padding
    from rich.table import Table

    from easeml_meter.core.questions.edges import with_another_edge
    from easeml_meter.stats.rounding import at_most

    question, budget = plan.question, plan.budget
    rows = {
        "size": f"{plan.size:,}",
        "steps": f"{budget.steps:,}",
        **question.facts,
        "delta": at_most(budget.failure),
        "failure probability": at_most(plan.failure_probability),
        **question.settings(plan),
    }
    if answer == "size" and plan.meter and (another := with_another_edge(plan.meter)) is not None:
        away, close = another
        apart = at_most(2 * plan.meter.tolerances[0])
        near = "" if away == close else f"; {close:,} less than {apart} from another"
        rows["with one more edge"] = f"{away:,} {plan.unit}{near}"
    if plan.rows is not None and plan.prevalence is not None:
        share = f"{100 * plan.prevalence:g} %"
        rows["rows to draw"] = f"{plan.rows:,}, of which {share} count"
    # Of the labels given, only whole strata are drawn.
    given = "used" if plan.meter is not None and plan.meter.stratified else "given"
    names = {"size": f"{plan.unit} {'needed' if answer == 'size' else given}"}
    if answer != "size":
        names[answer] = _ANSWERED[answer]
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
