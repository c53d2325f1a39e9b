"""`meter lab noise` and `meter lab gate`: what luck does to scores, and to who acts on them."""

from __future__ import annotations

from pathlib import Path

import click

from easeml_meter.checks import read_confidence
from easeml_meter.cli.common import PATH, chart_option, echo_json, json_option, save_chart
from easeml_meter.errors import InvalidInput, invalid
from easeml_meter.promise.gains import noise as count_flips
from easeml_meter.promise.gains import reaches
from easeml_meter.promise.numbers.rounding import as_written


@click.command()
@click.argument("runs", type=PATH, nargs=-1, required=True, metavar="RUN1 RUN2 ..")
@click.option("--id", metavar="COLUMN", help="Column of ids.")
@click.option("--score", metavar="COLUMN", help="Column that says what is right.")
@click.option("--labels", type=int, help="Cases of the gate. Default: as many as were run.")
@click.option("--steps", type=int, default=20, help="Answers of the gate. Default: 20.")
@click.option("--confidence", default="90", help="How sure all keeps are together. Default: 90.")
@json_option
def noise(
    *,
    runs: tuple[Path, ...],
    id: str | None,  # noqa: A002
    score: str | None,
    labels: int | None,
    steps: int,
    confidence: str,
    as_json: bool,
) -> None:
    """How much of a score is luck: one unchanged system, run twice or more.

    Result files as those of meter gate, with right and wrong cases. Run visible cases, never
    hidden ones: which of them flip would be one more answer.

    \b
    Example:
      meter lab noise monday.json tuesday.json --labels 300
    """
    from easeml_meter.client.results import Form, read_results
    from easeml_meter.report.gains import noise_json, noise_lines

    if len(runs) < 2:
        raise invalid("runs", len(runs), "two files or more, of one system that did not change")
    form = Form(id=id, score=score)
    read = [read_results(path, form, f"run {n}").cases for n, path in enumerate(runs, 1)]
    for number, cases in enumerate(read[1:], 2):
        if apart := len(read[0].keys() ^ cases.keys()):
            raise InvalidInput(f"runs 1 and {number}: {apart:,} cases are in one of them alone")
    found = count_flips([[cases[case] for case in read[0]] for cases in read])
    delta, size = as_written(read_confidence(confidence)), found.cases if labels is None else labels
    reaches(size, delta, steps)  # so few cases may show nothing
    if as_json:
        echo_json(noise_json(found, size, steps, delta))
    else:
        click.echo("\n".join(noise_lines(found, size, steps, delta)))


@click.command()
@click.option("--labels", type=int, multiple=True, default=(300,), help="Repeatable. Default: 300.")
@click.option("--steps", type=int, multiple=True, default=(20,), help="Repeatable. Default: 20.")
@click.option("--runs", type=int, default=2_000, help="Loops. Default: 2,000.")
@click.option("--seed", type=int, default=7, help="Seed. Default: 7.")
@chart_option
@json_option
def gate(
    *,
    labels: tuple[int, ...],
    steps: tuple[int, ...],
    runs: int,
    seed: int,
    chart: Path | None,
    as_json: bool,
) -> None:
    """How many useless edits do six rules keep, and how many real ones?

    Plays loops of edits that change the answers to a tenth of the cases: none is better, or one is
    by 2, 5 or 10 points and 2 % of the cases get worse. Then an attacker, who acts on every
    answer, tries to have a useless edit kept.

    \b
    Example:
      meter lab gate --labels 100 --labels 1000 --steps 50
    """
    from easeml_meter.lab.loops import World, side_by_side, table
    from easeml_meter.report.loops import Bars, loops_svg

    if chart is not None and len(labels) * len(steps) > 1:
        raise invalid("chart", str(chart), "with one number of --labels and one of --steps")
    found = {
        (cases, answers): side_by_side(World(cases, answers, runs, seed))
        for cases in labels
        for answers in steps
    }
    if chart is not None:
        ((cases, answers), rules), *_ = found.items()
        title = f"Loops of {answers:,} edits on {cases:,} cases"
        rows = [
            Bars(each.rule, (each.loops, each.attacked), (each.real[0.02], each.real[0.05]))
            for each in rules
        ]
        save_chart(chart, title, loops_svg(title, rows))
    if as_json:
        settings = ({"labels": cases, "steps": answers} for cases, answers in found)
        echo_json(
            [
                setting | {"runs": runs, "rules": [each.to_json() for each in rules]}
                for setting, rules in zip(settings, found.values(), strict=True)
            ]
        )
        return
    for (cases, answers), rules in found.items():
        click.echo(f"{cases:,} cases, {answers:,} answers, {runs:,} loops, in percent:")
        click.echo("\n".join([*table(rules), ""]))
    click.echo(
        "useless: of edits that do nothing, those kept. loops with: at least one of them. real: of "
        "edits with a gain.\nattacked: an attacker's useless edit is kept. Plain Bonferroni and "
        "meter gate promise 10 % at most."
    )
