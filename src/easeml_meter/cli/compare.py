"""`meter compare`: all meters side by side; and where the labels of one go."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from easeml_meter.cli.common import PATH, chart_option, echo_json, json_option, save_chart
from easeml_meter.cli.plan import spec_from
from easeml_meter.cli.questions import meter_options, retyped
from easeml_meter.core.questions.asking import OF_METERS
from easeml_meter.core.questions.labels import plan_labels
from easeml_meter.errors import invalid

if TYPE_CHECKING:
    from easeml_meter.core.questions.comparison import Form, MeterPrices, Setting
    from easeml_meter.core.questions.reasons import Reasons

_TOML = Path("meter.toml")
_COMPARED = {
    *("labels", "steps", "signals", "edges", "tolerance", "delta", "confidence", "ceiling")
}


@click.command()
@meter_options
@click.option("--price", type=float, help="Price of one label, to show what they cost.")
@chart_option
@click.option(
    "--why", is_flag=True, help="Where the labels of one meter go, and what would spare some."
)
@click.option(
    "--spec",
    "path",
    type=PATH,
    help="With --why: a meter.toml. Default: the one in this folder, if neither steps nor "
    "tolerance are given.",
)
@json_option
def compare(*, why: bool, path: Path | None, as_json: bool, **options: Any) -> None:
    """Compare one meter's forms, and all meters: what each needs, and what it asks of you.

    Uniform meters use a single tolerance for all bands. Nonuniform ones use 1, 2, .. m times it,
    band by band, as in the paper's evaluation. With --labels, the forms are compared by what they
    promise on average of a model that does not overfit.

    \b
    Examples:
      meter compare --labels 1000
      meter compare --steps 20 --tolerance 0.05
      meter compare --why --steps 10 --tolerance 0.01
      meter compare --why --spec meter.toml
    """
    if why:
        _explain(path, options, as_json=as_json)
        return
    if path is not None:
        raise invalid("spec", str(path), "only with --why")
    if options["tolerance"] is None and options["labels"] is None:
        raise invalid("labels", None, "give --labels or --tolerance, or --why for a meter.toml")
    for name in sorted({each.name for each in OF_METERS} - _COMPARED):
        if options[name] not in (None, False):
            raise invalid(name.replace("_", "-"), options[name], "only with --why")
    _compare(options, as_json=as_json)


def _explain(path: Path | None, options: dict[str, Any], *, as_json: bool) -> None:
    from easeml_meter.core.questions.reasons import reasons

    for name in ("labels", "price", "chart"):
        if (value := options.pop(name)) is not None:
            raise invalid(name, value, "not with --why")
    given = bool(retyped(options))
    if path is None and not given and _TOML.is_file():
        path = _TOML
    found = reasons(spec_from(path, None, options))
    if as_json:
        echo_json(found.to_dict())
    else:
        _show_reasons(found)


def _compare(options: dict[str, Any], *, as_json: bool) -> None:
    from easeml_meter.core.questions import comparison
    from easeml_meter.report.labels import labels_svg

    steps, price, chart = options["steps"], options["price"], options["chart"]
    if price is not None and not (math.isfinite(price) and price >= 0):
        raise invalid("price", price, "an amount of money, 0 or more")
    ceiling = 0.1 if options["ceiling"] is None else options["ceiling"]
    described = {each.name: options[each.name] for each in OF_METERS} | {"ceiling": None}
    spec = spec_from(None, options["labels"], described)
    labels, given = options["labels"], [*map(float, spec.meter.question.tolerances)]
    if options["tolerance"] is None or "," not in options["tolerance"]:
        given = [given[0] * (k + 1) for k in range(spec.meter.question.rungs)]
    if labels is not None:
        if chart is not None or options["tolerance"] is not None:
            raise invalid("labels", labels, "without --chart and --tolerance")
        spec = plan_labels(spec, labels, steps).spec
        forms = comparison.compare_forms(spec, ceiling, labels)
        if as_json:
            recommended = forms.recommended.name
            echo_json({"forms": [each.to_dict() for each in forms], "recommended": recommended})
        else:
            _show_forms(forms, price, labels)
        return
    steps = int(spec.meter.budget.steps)
    setting = comparison.Setting(
        signals=spec.meter.question.rungs,
        tolerances=tuple(given),
        delta=float(spec.meter.delta),
        ceiling=ceiling,
        edges=tuple(map(float, spec.meter.question.ends[1:-1])),
    )
    forms = comparison.compare_forms(
        spec.with_tolerances(given[:1] * spec.meter.question.rungs), setting.ceiling
    )
    rows = comparison.compare(setting, steps)
    if chart is not None:
        grid = sorted({max(1, round(steps * 10 ** (i / 12))) for i in range(-12, 13)})
        drawn = labels_svg(grid, comparison.labels_by_steps(setting, grid), steps)
        save_chart(chart, "Labels against answers", drawn)
    if as_json:
        prices = [{} if price is None else {"cost": each.plan.labels * price} for each in forms]
        data = {
            "forms": [each.to_dict() | cost for each, cost in zip(forms, prices, strict=True)],
            "recommended": forms.recommended.name,
            "meters": [_comparison_dict(row, price) for row in rows],
        }
        echo_json(data)
    else:
        _show_forms(forms, price)
        _show_comparison(rows, setting, price)
        if chart is not None:
            click.echo(f"chart written to {chart}")


def _show_forms(forms: tuple[Form, ...], price: float | None, labels: int | None = None) -> None:
    from rich.console import Console
    from rich.table import Table

    from easeml_meter.core.questions.comparison import recommended
    from easeml_meter.promise.numbers.rounding import at_most

    console = Console(highlight=False)
    plan = next(form.plan for form in forms if form.name == "consistent")
    meter = plan.spec.meter
    have = "" if labels is None else f"{labels:,} labels, "
    console.print(
        f"{have}{meter.budget.steps:,} steps, tolerance {at_most(meter.question.tolerances[0])}, "
        f"delta {float(meter.delta):g}, bands: {plan.question.facts['bands']}\n",
        soft_wrap=True,
    )
    best = recommended(forms)
    table = Table(box=None, pad_edge=False, padding=(0, 1), header_style="bold underline")
    table.add_column("one meter, its forms", no_wrap=True)
    cost = ["cost"] if price is not None else []
    for heading in ["labels" if labels is None else "tolerance", *cost, "points"]:
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("what it asks of you")
    for form in forms:
        reached = form.plan.spec.meter.question.tolerances
        first = f"{form.plan.labels:,}" if labels is None else at_most(reached[0])
        paid = [] if price is None else [f"{form.plan.labels * price:,.2f}"]
        points = f"+ {form.plan.question.promised_points}"
        style = "bold green" if form is best else None
        table.add_row(form.name, first, *paid, points, form.asks, style=style)
    console.print(table)
    console.print("points: what an answer adds to the validation error, where nothing overfits")
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
    baseline = next(row for row in rows if row.consistent.spec.meter.renewal.anew)
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
        real = not row.consistent.spec.meter.only_planned
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


def _show_reasons(found: Reasons) -> None:
    from rich.console import Console
    from rich.table import Table

    meter, console = found.plan.spec.meter, Console(highlight=False)
    steps = "1 answer" if meter.budget.steps == 1 else f"{meter.budget.steps:,} answers"
    needed = f"[bold]{found.plan.labels:,} {meter.sample.handed_in}[/bold] for {steps}. "
    if not found.adaptivity:
        console.print(
            f"{needed}That is the price of tolerance, delta and steps: it would be the same if "
            "nobody acted on an answer."
        )
    else:
        console.print(
            f"{needed}If nobody acted on an answer, {found.unadapted:,} would do: "
            "that is the price of tolerance, delta and steps. "
            f"The other {found.adaptivity:,} are needed because people do, which makes their next "
            "model depend on the hidden labels."
        )
    if not found.knobs:
        console.print("\nNo setting was found that would spare some.")
        return
    console.print("\nWhat would spare some:")
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold underline")
    for heading, side in (("change", "left"), ("labels", "right"), ("of now", "right")):
        table.add_column(heading, justify=side, no_wrap=True)  # type: ignore[arg-type]
    table.add_column("what it costs")
    for knob in found.knobs:
        share = f"{knob.plan.labels / found.plan.labels:.0%}"
        table.add_row(knob.change, f"{knob.plan.labels:,}", share, knob.costs)
    console.print(table)
    console.print("\nNext: [bold]meter compare[/bold] shows the forms of a meter side by side.")
