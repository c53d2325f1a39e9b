"""`meter plan` and `meter compare`."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from easeml_meter.cli.common import chart_option, save_chart
from easeml_meter.cli.presets import check_alone, preset_option
from easeml_meter.cli.questions import delta_of, plan_question, question_options, show_question
from easeml_meter.errors import invalid
from easeml_meter.spec import METERS, Bound, Count, Gap, MeterSpec, Protocol

if TYPE_CHECKING:
    from easeml_meter.core.questions.planning import MeterPlan
    from easeml_meter.stats.comparison import Form, MeterPrices, Setting
    from easeml_meter.stats.planning import Plan


def _numbers(option: str, text: str) -> list[float]:
    """Read one number or a comma list."""
    # Neither a tolerance nor an inner edge may be 0, so this is no list.
    if re.fullmatch(r"\s*0,\d+\s*", text):
        raise invalid(
            option, text, f"is that a decimal comma? Write {text.strip().replace(',', '.')}"
        )
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
@click.option(
    "--variance-ceiling", type=float, help='Answer "too spread" for losses that vary more.'
)
@click.option("--above", type=int, help="With drawn edges: answers above the ceiling, such as 3.")
@click.option("--sticky", is_flag=True, help="Incremental: tell once why there is no reading.")
@click.option("--top-up", type=int, help="Steps more, once fresh labels have joined the test set.")
@click.option("--elastic", is_flag=True, help="Continue while the answers are predictable.")
@click.option(
    "--clusters", is_flag=True, help="Rows belong together: one example is a cluster of them."
)
@question_options
@click.option("--labels", type=int, help="Labels you have: how many steps, or which tolerance?")
@click.option("--spec", "path", type=click.Path(path_type=Path), help="Start from a meter.toml.")
@click.option(
    "--page",
    type=click.Path(path_type=Path),
    is_eager=True,
    expose_value=False,
    callback=lambda context, _, path: _write_page(context, path),
    help="Write a page that plans in the browser, and nothing else.",
)
@preset_option
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
    check_alone(path)
    if path is None and plan_question(options, labels, as_json=as_json, as_toml=as_toml):
        return
    from easeml_meter.scoring.losses import parse_loss
    from easeml_meter.stats.bands import reachable_with_default_bands
    from easeml_meter.stats.planning import reachable_tolerance, required_labels, supported_steps

    asked_steps = options["steps"] is not None
    spec = spec_from(path, labels, options)
    parse_loss(spec.loss)
    if not spec.bands or spec.also or spec.window is not None:
        _plan_question_of(spec, labels, as_json=as_json, as_toml=as_toml)
        return
    if labels is None:
        answer = required_labels(spec)
    elif asked_steps:
        named = path is not None or any(options[name] for name in ("signals", "edges", "drawn"))
        by_default = not named and len(set(spec.tolerances)) == 1
        reached = reachable_with_default_bands if by_default else reachable_tolerance
        answer = reached(spec, labels)
    else:
        answer = supported_steps(spec, labels)
    if as_toml:
        click.echo(answer.spec.to_toml(), nl=False)
        return
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
        click.echo("\nNext: meter init makes a meter; meter why, with the same options, says what")
        click.echo("would need fewer labels.")


def _plan_question_of(spec: MeterSpec, labels: int | None, *, as_json: bool, as_toml: bool) -> None:
    """Plan a meter that asks no plain gap; with labels, for how many steps they are enough."""
    from easeml_meter.core.questions.planning import plan_of

    if spec.window is not None and labels is not None:
        raise invalid("labels", labels, "of a rolling test set, plan --rolling with --batch")
    plan = plan_of(spec, labels)
    if as_toml and labels is not None:
        raise invalid("--toml", "with --labels", "for a condition, --toml with --steps")
    if as_toml:
        click.echo(spec.to_toml(), nl=False)
    elif as_json:
        click.echo(json.dumps(plan.to_dict(), indent=2))
    else:
        show_plan(plan, labels_given=labels is not None, steps_given=False)


def _write_page(context: click.Context, path: Path | None) -> None:
    """Write the planner's page, if a file is named for it."""
    if path is None:
        return
    from easeml_meter.report.planner import planner_page

    try:
        path.write_text(planner_page(), encoding="utf-8")
    except OSError as error:
        raise invalid("page", str(path), f"cannot be written: {error.strerror or error}") from None
    click.echo(f"Next: open {path} in a browser, or host it anywhere: it loads nothing else.")
    context.exit()


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
        if tolerances is not None and (not spec.bands or spec.also):
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
        least = [1, given.get("masked_reverts", 0) + 1, *given.get("reverts", ())]
        given["steps"] = sum(given.get("tenants", ())) or max(least)
    elif labels is not None and tolerances is None:
        tolerances = [0.1]  # only the ratios matter: the question asks for the scale
    if tolerances is None:
        raise invalid("tolerance", None, "give --tolerance, such as 0.01")
    given.setdefault("delta", 0.01)
    each = tolerances[0] if len(tolerances) == 1 else tolerances
    return MeterSpec.uniform(signals=signals, tolerance=each, edges=edges, **given)


def _bands(spec: MeterSpec) -> str:
    """Say how many bands there are, and where they begin."""
    if spec.drawn is not None:
        return f"edges drawn for every answer, {spec.drawn:g} apart"
    if spec.signals == 1:
        return "1, from 0 to 1"
    word = "an edge" if spec.signals == 2 else "edges"
    return f"{spec.signals}, with {word} at " + ", ".join(f"{edge:g}" for edge in spec.edges)


def _one_each(tolerances: list[float], signals: int) -> list[float]:
    if len(tolerances) not in (1, signals):
        raise invalid("tolerance", tolerances, f"one number, or one for each of {signals} bands")
    return tolerances * signals if len(tolerances) == 1 else tolerances


def show_plan(plan: MeterPlan, *, labels_given: bool, steps_given: bool) -> None:
    """Print a plan: the answer first, then what is promised and what that rests on."""
    from rich.console import Console
    from rich.padding import Padding
    from rich.table import Table

    from easeml_meter.core.questions.planning import QuestionPlan
    from easeml_meter.stats.bands import with_another_edge
    from easeml_meter.stats.rounding import at_most, session_delta

    if isinstance(plan, QuestionPlan):
        show_question(plan, "steps" if labels_given else "size")
        return
    spec = plan.spec
    console = Console(highlight=False)
    failure = at_most(plan.failure_probability)
    if spec.elastic:
        failure += " in the promised steps"
    rows = [
        (f"{plan.unit} {'given' if labels_given else 'needed'}", f"{plan.size:,}"),
        ("steps supported" if labels_given and not steps_given else "steps", f"{spec.steps:,}"),
        ("tolerance reached" if labels_given and steps_given else "tolerance", _tolerances(spec)),
        ("bands", _bands(spec)),
        ("delta", at_most(session_delta(spec))),
        ("failure probability", failure),
        ("protocol", str(spec.protocol)),
        *([("gap", "signed: test loss minus validation loss")] if spec.gap is Gap.SIGNED else []),
        ("bound", f"{spec.tail}, {plan.counting} ({_count(plan.log_models)} of them)"),
    ]
    if not labels_given and (another := with_another_edge(spec)) is not None:
        away, close = another
        apart = at_most(2 * spec.tolerances[0])
        near = "" if away == close else f"; {close:,} less than {apart} from another"
        rows.append(("with one more edge", f"{away:,} {plan.unit}{near}"))
    if plan.top_up is not None:
        later = "{more_labels:,} {unit} more, {labels:,} in all, for {steps:,} steps more"
        rows.append(("top-up", later.format(**plan.top_up, unit=spec.unit)))
    if plan.elastic is not None:
        both = "{labels:,} {unit}, {plain_labels:,} for the plain meter"
        both = both.format(**plan.elastic, unit=spec.unit)
        rows.append(("elastic", both))
    if spec.rows is not None:
        rows.append(("rows to draw", f"{spec.rows:,}"))
    for name, size in spec.stratum_rows(plan.labels).items():
        rows.append((f"of them {name}", f"{size:,}"))
    if spec.judged:
        rows.append(("judge", f"errs on at most {spec.judge_error:g} of them"))
        rows.append(("pool", f"{spec.pool:,} rows more, without a label"))
    if spec.fixes_rows:
        rows.append(("tries at sealing", f"{spec.tries:,}"))
    if spec.floor is not None:
        rows.append(("floor", f"{spec.floor:g}"))
    elif spec.ceiling is not None:
        most = "" if spec.above is None else f", at most {spec.above} answers above it"
        rows.append(("ceiling", f"{spec.ceiling:g}{most}"))
    if spec.variance_ceiling is not None:
        rows.append(("variance ceiling", f"{spec.variance_ceiling:g}"))
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
@click.option("--signals", type=int, help="Number of equally wide bands, m.")
@click.option("--edges", help="Inner edges of the bands. Default: as meter plan.")
@click.option("--tolerance", required=True, help="One number (k times it for band k), or a list.")
@click.option("--delta", type=float, default=0.01, help="Probability that the promise may fail.")
@click.option("--ceiling", type=float, default=0.1, help="Ceiling of that column. Default: 0.1.")
@click.option("--price", type=float, help="Price of one label, to show what they cost.")
@chart_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def compare(steps: int, price: float | None, chart: Path | None, **options: Any) -> None:
    """Compare one meter's forms, and all meters: what each needs, and what it asks of you.

    Uniform meters use a single tolerance for all bands. Nonuniform ones use 1, 2, .. m times it,
    band by band, as in the paper's evaluation.
    """
    from easeml_meter.report.labels import labels_svg
    from easeml_meter.stats import comparison

    if price is not None and not (math.isfinite(price) and price >= 0):
        raise invalid("price", price, "an amount of money, 0 or more")
    given = _numbers("tolerance", options["tolerance"])
    spec = MeterSpec.uniform(
        signals=options["signals"],
        tolerance=given[0] if len(given) == 1 else given,
        edges=None if options["edges"] is None else _numbers("edges", options["edges"]),
        steps=steps,
        delta=options["delta"],
    )
    if len(given) == 1:
        given = [given[0] * (k + 1) for k in range(spec.signals)]
    setting = comparison.Setting(
        signals=spec.signals,
        tolerances=tuple(given),
        delta=spec.delta,
        ceiling=options["ceiling"],
        edges=spec.edges,
    )
    forms = comparison.compare_forms(
        spec.with_tolerances(given[:1] * spec.signals), setting.ceiling
    )
    rows = comparison.compare(setting, steps)
    if chart is not None:
        grid = sorted({max(1, round(steps * 10 ** (i / 12))) for i in range(-12, 13)})
        drawn = labels_svg(grid, comparison.labels_by_steps(setting, grid), steps)
        save_chart(chart, "Labels against answers", drawn)
    if options["as_json"]:
        data = {
            "forms": [_form_dict(form, price) for form in forms],
            "recommended": forms.recommended.name,
            "meters": [_comparison_dict(row, price) for row in rows],
        }
        click.echo(json.dumps(data, indent=2))
    else:
        _show_forms(forms, setting, price)
        _show_comparison(rows, setting, price)
        if chart is not None:
            click.echo(f"chart written to {chart}")


def _form_dict(form: Form, price: float | None) -> dict[str, Any]:
    cost = {} if price is None else {"cost": form.plan.labels * price}
    return {**form.to_dict(), **cost}


def _show_forms(forms: tuple[Form, ...], setting: Setting, price: float | None) -> None:
    from rich.console import Console
    from rich.table import Table

    from easeml_meter.stats.comparison import recommended

    console = Console(highlight=False)
    spec = forms[0].plan.spec
    console.print(
        f"{spec.steps:,} steps, tolerance {setting.tolerances[0]:g}, delta {setting.delta:g}, "
        f"bands: {_bands(spec)}\n",
        soft_wrap=True,
    )
    best = recommended(forms)
    table = Table(box=None, pad_edge=False, padding=(0, 1), header_style="bold underline")
    table.add_column("one meter, its forms", no_wrap=True)
    for heading in ["labels", *(["cost"] if price is not None else [])]:
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("what it asks of you")
    for form in forms:
        cost = [] if price is None else [f"{form.plan.labels * price:,.2f}"]
        style = "bold green" if form is best else None
        table.add_row(form.name, f"{form.plan.labels:,}", *cost, form.asks, style=style)
    console.print(table)
    console.print(f"\nRecommended: {best.name}, {best.plan.labels:,} labels\n")


def _comparison_dict(row: MeterPrices, price: float | None) -> dict[str, Any]:
    plans = {
        "published": row.published,
        "consistent": row.consistent,
        "with_ceiling": row.with_ceiling,
    }
    data: dict[str, Any] = {"meter": row.name, "rests_on_people": row.rests_on_people}
    for form, plan in plans.items():
        data[form] = None if plan is None else plan.to_dict()
        if plan is not None and price is not None:
            data[form]["cost"] = plan.labels * price
    return data


def _show_comparison(rows: tuple[MeterPrices, ...], setting: Setting, price: float | None) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    baseline = next(row for row in rows if row.consistent.spec.protocol is Protocol.RESAMPLING)
    reference = baseline.published or baseline.consistent
    table = Table(box=None, pad_edge=False, padding=(0, 1), header_style="bold underline")
    table.add_column("labels needed", no_wrap=True)
    ceiling = f"ceiling {setting.ceiling:g}"
    headings = ["published", "consistent", ceiling, "saving"]
    for heading in headings + (["cost"] if price is not None else []):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        cells = [
            f"{plan.labels:,}" if plan is not None else "-"
            for plan in (row.published, row.consistent, row.with_ceiling)
        ]
        cells.append(f"{reference.labels / row.consistent.labels:.1f}x")
        if price is not None:
            cells.append(f"{row.consistent.labels * price:,.2f}")
        real = row.consistent.spec.protocol in METERS
        name = row.name + (" *" if row.rests_on_people else "")
        table.add_row(name, *cells, style=None if real else "dim")
    console.print(table)
    console.print("published: the paper's counting and Hoeffding's bound")
    console.print("consistent: consistent models and the exact binomial tail; the same promise")
    console.print(f'{ceiling}: larger test losses are only answered "above the ceiling"')
    console.print(
        "saving: published resampling / consistent" + (", cost: of consistent" if price else "")
    )
    console.print('* only if people behave as assumed: see "This rests on" in meter plan')
