"""`meter plan` and `meter compare`."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from easeml_meter.cli.common import chart_option, save_chart
from easeml_meter.cli.questions import delta_of, plan_question, question_options
from easeml_meter.errors import invalid
from easeml_meter.spec import METERS, Bound, Count, Gap, MeterSpec, Protocol

if TYPE_CHECKING:
    from easeml_meter.stats.comparison import Comparison, Setting
    from easeml_meter.stats.planning import Plan


def _numbers(option: str, text: str) -> list[float]:
    """Read one number or a comma list."""
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise invalid(option, text, "a number, or numbers with commas between them") from None


def _integers(option: str, text: str | None) -> tuple[int, ...]:
    if text is None:
        return ()
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise invalid(option, text, "whole numbers with commas between them") from None


@click.command()
@click.option("--steps", type=int, help="Number of promised answers, T.")
@click.option(
    "--signals", type=int, help="Number of bands, m. Default: 5, or one for each tolerance."
)
@click.option("--edges", help="Inner edges of the bands, such as 0.02,0.05. Default: equal bands.")
@click.option(
    "--drawn", type=float, help="Draw the edges of every answer at random, this far apart."
)
@click.option("--tolerance", help="One number, or a comma-separated list with one for each band.")
@click.option("--delta", type=float, help="Probability that the promise may fail. Default: 0.01.")
@click.option("--confidence", type=float, help="Given instead of delta: 1 - delta.")
@click.option(
    "--protocol", type=click.Choice([str(name) for name in Protocol]), help="Default: regular."
)
@click.option(
    "--bound",
    type=click.Choice([str(name) for name in Bound]),
    help="Tail bound. Default: the tightest that is valid for the loss.",
)
@click.option("--loss", help='Loss of each example. Default: "0-1". Others use the convex bound.')
@click.option("--published", is_flag=True, help="The paper's own counting and Hoeffding's bound.")
@click.option(
    "--count",
    type=click.Choice([str(name) for name in Count]),
    help="Which histories of answers are counted.",
)
@click.option("--tenants", help="Steps of each isolated team, such as 5,5.")
@click.option("--handover", is_flag=True, help="Teams start from each other's checkpoints.")
@click.option("--reverts", help="Steps to undo, fixed in advance, such as 1,2,3.")
@click.option("--masked-reverts", type=int, help="Steps the meter may undo unreported.")
@click.option("--mask-above", type=int, help="Bands above this one are masked.")
@click.option("--memory", type=int, help="Models depend on at most this many of the last answers.")
@click.option("--resets", type=int, help="How often an incremental meter's maximum may restart.")
@click.option("--ceiling", type=float, help='Answer "above the ceiling" for larger test losses.')
@click.option("--above", type=int, help="With drawn edges: answers above the ceiling, such as 3.")
@click.option("--elastic", is_flag=True, help="Continue while the answers are predictable.")
@question_options
@click.option("--labels", type=int, help="Labels you have: how many steps, or which tolerance?")
@click.option("--spec", "path", type=click.Path(path_type=Path), help="Start from a meter.toml.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def plan(as_json: bool, labels: int | None, path: Path | None, **options: Any) -> None:
    """How many labels does the hidden test set need?

    Give steps and tolerance to get the labels. Give labels and tolerance to get the steps. Give
    labels and steps to get the tolerance that can be promised.

    \b
    Examples:
      meter plan --steps 10 --signals 5 --tolerance 0.01 --delta 0.01
      meter plan --labels 50000 --tolerance 0.01
      meter plan --labels 50000 --steps 20
      meter plan --question "n > 0.8 +/- 0.01" --steps 32 --delta 0.0001
    """
    if path is None and plan_question(options, labels, as_json=as_json):
        return
    from easeml_meter.scoring.losses import parse_loss
    from easeml_meter.stats.planning import reachable_tolerance, required_labels, supported_steps

    asked_steps = options["steps"] is not None
    spec = _spec_from(path, labels, options)
    parse_loss(spec.loss)
    if labels is None:
        answer = required_labels(spec)
    elif asked_steps:
        answer = reachable_tolerance(spec, labels)
    else:
        answer = supported_steps(spec, labels)
    # Asked for a tolerance as well, the plan also says whether the labels reach it.
    wanted = None
    if labels is not None and asked_steps and (path is not None or options["tolerance"]):
        wanted = required_labels(spec)
    if as_json:
        data = answer.to_dict()
        if labels is not None and wanted is not None:
            data["asked"] = {
                "tolerances": list(spec.tolerances),
                "labels": wanted.labels,
                "reached": wanted.labels <= labels,
            }
        click.echo(json.dumps(data, indent=2))
    else:
        show_plan(answer, labels_given=labels is not None, steps_given=asked_steps)
        if labels is not None and wanted is not None:
            click.echo(_compared(wanted, labels))


def _compared(wanted: Plan, labels: int) -> str:
    """Say whether these labels reach the tolerance that was asked for."""
    reached = "is reached" if wanted.labels <= labels else "is not reached"
    return (
        f"\nThe tolerance you asked for, {_tolerances(wanted.spec)}, {reached} with {labels:,} "
        f"labels: it takes {wanted.labels:,}."
    )


def _tolerances(spec: MeterSpec) -> str:
    """Name the tolerance of all bands, or that of each."""
    from easeml_meter.stats.rounding import at_most

    distinct = sorted(set(spec.tolerances))
    return ", ".join(at_most(eps) for eps in (distinct if len(distinct) == 1 else spec.tolerances))


def _spec_from(path: Path | None, labels: int | None, options: dict[str, Any]) -> MeterSpec:
    """Lay the options given over the file given, or over the defaults."""
    given = {name: value for name, value in options.items() if value is not None}
    for flag in ("published", "handover", "elastic"):  # left out, the file's word stands
        if not given[flag]:
            del given[flag]
    if "confidence" in given:
        given["delta"] = delta_of(given)
        del given["confidence"]
    for name in ("tenants", "reverts"):
        if name in given:
            given[name] = _integers(name, given[name])
    tolerances = _numbers("tolerance", given.pop("tolerance")) if "tolerance" in given else None
    edges = _numbers("edges", given.pop("edges")) if "edges" in given else None
    signals = given.pop("signals", None)
    if edges is not None and "drawn" in given:
        raise invalid("edges", edges, "the meter draws them: give --edges or --drawn, not both")
    if path is not None:
        if edges is not None:
            raise invalid("edges", edges, f"{path} has its own: change them there")
        spec = MeterSpec.read(path)
        if signals not in (None, spec.signals) and spec.drawn is None:
            raise invalid("signals", signals, f"{path} has {spec.signals} bands")
        if tolerances is not None:
            spec = spec.with_tolerances(_one_each(tolerances, spec.signals))
        return spec.replace(**given)
    if "steps" not in given:
        if labels is None:
            raise invalid("steps", None, "give --steps, or --labels to ask for them")
        # The question asks for them; the first number of steps that its options allow.
        least = [1, given.get("masked_reverts", 0) + 1, *given.get("reverts", ())]
        given["steps"] = sum(given.get("tenants", ())) or max(least)
    elif labels is not None and tolerances is None:
        tolerances = [0.1]  # only the ratios matter: the question asks for the scale
    if tolerances is None:
        raise invalid("tolerance", None, "give --tolerance, such as 0.01")
    if signals is None and edges is not None:
        signals = len(edges) + 1
    if signals is None:
        signals = 5 if len(tolerances) == 1 else len(tolerances)
    given.setdefault("delta", 0.01)
    each = tolerances[0] if len(tolerances) == 1 else tolerances
    return MeterSpec.uniform(signals=signals, tolerance=each, edges=edges, **given)


def _bands(spec: MeterSpec) -> str:
    """Say how many bands there are, and where they begin unless they are equally wide."""
    if spec.drawn is not None:
        return f"edges drawn for every answer, {spec.drawn:g} apart"
    inner = [band.lower for band in spec.bands[1:]]
    if inner == [k / spec.signals for k in range(1, spec.signals)]:
        return str(spec.signals)
    return f"{spec.signals}, with edges at " + ", ".join(f"{edge:g}" for edge in inner)


def _one_each(tolerances: list[float], signals: int) -> list[float]:
    if len(tolerances) not in (1, signals):
        raise invalid("tolerance", tolerances, f"one number, or one for each of {signals} bands")
    return tolerances * signals if len(tolerances) == 1 else tolerances


def show_plan(plan: Plan, *, labels_given: bool, steps_given: bool) -> None:
    """Print a plan: the answer first, then what is promised and what that rests on."""
    from rich.console import Console
    from rich.padding import Padding
    from rich.table import Table

    from easeml_meter.stats.rounding import at_most, session_delta

    spec = plan.spec
    console = Console(highlight=False)
    failure = at_most(plan.failure_probability)
    if spec.elastic:
        failure += " in the promised steps"
    rows = [
        ("labels needed" if not labels_given else "labels given", f"{plan.labels:,}"),
        ("steps supported" if labels_given and not steps_given else "steps", f"{spec.steps:,}"),
        ("tolerance reached" if labels_given and steps_given else "tolerance", _tolerances(spec)),
        ("bands", _bands(spec)),
        ("delta", at_most(session_delta(spec))),
        ("failure probability", failure),
        ("protocol", str(spec.protocol)),
        *([("gap", "signed: test loss minus validation loss")] if spec.gap is Gap.SIGNED else []),
        ("bound", f"{spec.tail}, {plan.counting} ({_count(plan.log_models)} of them)"),
    ]
    if plan.elastic is not None:
        both = "{labels:,} labels, {plain_labels:,} for the plain meter".format_map(plan.elastic)
        rows.append(("elastic", both))
    if spec.ceiling is not None:
        most = "" if spec.above is None else f", at most {spec.above} answers above it"
        rows.append(("ceiling", f"{spec.ceiling:g}{most}"))
    answer = 0 if not labels_given else 2 if steps_given else 1
    table = Table(show_header=False, box=None, padding=(0, 2))
    for index, (name, value) in enumerate(rows):
        style = "bold green" if index == answer else None
        table.add_row(name, value, style=style)
    console.print(table)
    console.print(Padding(plan.promise, (1, 2)))
    console.print("  This rests on:")
    for line in plan.assumptions:
        console.print(Padding(f"- {line}", (0, 2)))


def _count(log: float) -> str:
    """Write a number given by its logarithm."""
    if log < math.log(1e15):
        return f"{round(math.exp(log)):,}"
    return f"about 10^{log / math.log(10):,.0f}"


@click.command()
@click.option("--steps", type=int, required=True, help="Number of promised answers, T.")
@click.option("--signals", type=int, help="Number of bands, m. Default: 5.")
@click.option("--tolerance", required=True, help="One number (k times it for band k), or a list.")
@click.option("--delta", type=float, default=0.01, help="Probability that the promise may fail.")
@click.option("--ceiling", type=float, default=0.1, help="Ceiling of that column. Default: 0.1.")
@click.option("--price", type=float, help="Price of one label, to show what they cost.")
@chart_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def compare(steps: int, price: float | None, chart: Path | None, **options: Any) -> None:
    """Compare all meters: as published, tightened, with a ceiling; the ideal and the baseline.

    Uniform meters use a single tolerance for all bands. Nonuniform ones use 1, 2, .. m times it,
    band by band, as in the paper's evaluation.
    """
    from easeml_meter.report.labels import labels_svg
    from easeml_meter.stats import comparison

    if price is not None and not (math.isfinite(price) and price >= 0):
        raise invalid("price", price, "an amount of money, 0 or more")
    tolerances = _numbers("tolerance", options["tolerance"])
    signals = options["signals"]
    if len(tolerances) == 1:
        tolerances = [tolerances[0] * (k + 1) for k in range(5 if signals is None else signals)]
    elif signals not in (None, len(tolerances)):
        raise invalid("signals", signals, f"{len(tolerances)} tolerances were given")
    if not tolerances:
        raise invalid("signals", signals, "a whole number, 1 or more")
    setting = comparison.Setting(
        signals=len(tolerances),
        tolerances=tuple(tolerances),
        delta=options["delta"],
        ceiling=options["ceiling"],
    )
    rows = comparison.compare(setting, steps)
    if chart is not None:
        grid = sorted({max(1, round(steps * 10 ** (i / 12))) for i in range(-12, 13)})
        drawn = labels_svg(grid, comparison.labels_by_steps(setting, grid), steps)
        save_chart(chart, "Labels against steps", drawn)
    if options["as_json"]:
        click.echo(json.dumps([_comparison_json(row, price) for row in rows], indent=2))
    else:
        _show_comparison(rows, setting, price)
        if chart is not None:
            click.echo(f"chart written to {chart}")


def _comparison_json(row: Comparison, price: float | None) -> dict[str, Any]:
    plans = {
        "published": row.published,
        "tightened": row.tightened,
        "with_ceiling": row.with_ceiling,
    }
    data: dict[str, Any] = {"meter": row.name, "rests_on_people": row.rests_on_people}
    for form, plan in plans.items():
        data[form] = None if plan is None else plan.to_dict()
        if plan is not None and price is not None:
            data[form]["cost"] = plan.labels * price
    return data


def _show_comparison(rows: tuple[Comparison, ...], setting: Setting, price: float | None) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    baseline = next(row for row in rows if row.tightened.spec.protocol is Protocol.RESAMPLING)
    reference = baseline.published or baseline.tightened
    spec = rows[0].tightened.spec
    table = Table(box=None, pad_edge=False, padding=(0, 1), header_style="bold underline")
    table.add_column("labels needed", no_wrap=True)
    ceiling = f"ceiling {setting.ceiling:g}"
    headings = ["published", "tightened", ceiling, "saving"]
    for heading in headings + (["cost"] if price is not None else []):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        cells = [
            f"{plan.labels:,}" if plan is not None else "-"
            for plan in (row.published, row.tightened, row.with_ceiling)
        ]
        cells.append(f"{reference.labels / row.tightened.labels:.1f}x")
        if price is not None:
            cells.append(f"{row.tightened.labels * price:,.2f}")
        real = row.tightened.spec.protocol in METERS
        name = row.name + (" *" if row.rests_on_people else "")
        table.add_row(name, *cells, style=None if real else "dim")
    console.print(
        f"{spec.steps:,} steps, {setting.signals} bands, tolerance {setting.tolerances[0]:g} "
        f"(nonuniform: up to {setting.tolerances[-1]:g}), delta {setting.delta:g}"
    )
    console.print(table)
    console.print("published: the paper's counting and Hoeffding's bound")
    console.print("tightened: consistent models and the exact binomial tail; the same promise")
    console.print(f'{ceiling}: larger test losses are only answered "above the ceiling"')
    console.print(
        "saving: published resampling / tightened" + (", cost: of tightened" if price else "")
    )
    console.print('* only if people behave as assumed: see "This rests on" in meter plan')
