"""`meter lab coverage`, `meter lab limit` and `meter lab misuse`: the promise, attacked."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from easeml_meter.cli import plan as planning
from easeml_meter.cli.common import (
    PATH,
    Command,
    chart_option,
    echo_json,
    json_option,
    print_rich,
    save_chart,
)
from easeml_meter.cli.questions import meter_asked
from easeml_meter.errors import invalid

if TYPE_CHECKING:
    from easeml_meter.lab.simulation.coverage import Advance, Coverage, Limit
    from easeml_meter.promise.meter import Meter

_NOT_OF_THE_METER = {"hidden", "labels", "validation", "rows", "path", "as_json", "as_toml"}
_NOT_OF_THE_METER |= {"gain"}
_world_option = click.option("--world", help="coins, correlated or graded. Default: by the loss.")


def _meter_options(command: Command) -> Command:
    wanted = [each for each in planning.plan.params if each.name not in _NOT_OF_THE_METER]
    for option in reversed(wanted):
        command = _again(option)(command)
    published = "The paper's own counting and Hoeffding's bound."
    command = click.option("--published", is_flag=True, help=published)(command)
    return click.option("--spec", "path", type=PATH, help="The meter, as a meter.toml.")(command)


def _again(option: click.Parameter) -> Callable[[Command], Command]:
    def add(command: Command) -> Command:
        # What click.option does after it has built the option.
        command.__dict__.setdefault("__click_params__", []).append(option)
        return command

    return add


def _run_options(runs: int) -> Callable[[Command], Command]:
    def add(command: Command) -> Command:
        for option in (
            click.option("--jobs", type=int, help="Processes. Default: one for each processor."),
            click.option("--seed", type=int, default=7, help="Seed. Default: 7."),
            click.option("--runs", type=int, default=runs, help=f"Sessions. Default: {runs:,}."),
        ):
            command = option(command)
        return command

    return add


def _planned(path: Path | None, options: dict[str, Any]) -> tuple[Meter, int]:
    """Return the meter that is asked for, and the size that is planned for it."""
    from easeml_meter.promise import compare, solve

    asked = None if path is not None else meter_asked(options)
    spec = planning.spec_from(path, None, options) if asked is None else asked
    meter = spec.meter
    return meter, compare.published(meter) if options["published"] else solve.labels(meter)


@contextmanager
def _bars() -> Iterator[Callable[[str, int], Advance]]:
    """Show progress on stderr, to people only."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    console = Console(stderr=True)
    shown = sys.stderr.isatty()
    with Progress(
        *columns, TimeRemainingColumn(), console=console, transient=True, disable=not shown
    ) as progress:

        def start(name: str, total: int) -> Advance:
            for task in progress.task_ids:
                progress.remove_task(task)
            bar = progress.add_task(name, total=total)
            return lambda done: progress.advance(bar, done)

        yield start


@click.command()
@json_option
@click.option("--resume", type=PATH, help="File to store results in.")
@_run_options(10_000)
@_world_option
@click.option("--share", type=float, help="Predictions redrawn per step, in the correlated world.")
@click.option("--true-loss", type=float, help="Of all models. Default: the hardest to measure.")
@click.option("--labels", type=int, help="Size of the test set. Default: as planned.")
@click.option(
    "--developer", help="Who submits. Default: threshold, or who plays against the question."
)
@_meter_options
def coverage(
    as_json: bool, path: Path | None, runs: int, jobs: int | None, resume: Path | None, **rest: Any
) -> None:
    """How often does the promise fail against a developer?

    Plays seeded sessions by the meter's real rules, on simulated test sets of the planned size. A
    session fails if the test loss of some answered model is further from its true loss than
    promised, or if a model passes that must not.

    \b
    The verdict follows from the exact (Clopper-Pearson) interval of 99.8 %:
      promise broken   the interval lies above delta
      promise holds    it does not, and it lies below twice delta
      not decided      neither: more runs are needed
    """
    from easeml_meter.lab.simulation import coverage as lab

    names = ("developer", "labels", "seed", "world", "true_loss", "share")
    about = {name: rest.pop(name) for name in names}
    _check(runs, jobs, resume)
    meter, planned = _planned(path, rest)
    experiment = lab.experiment(meter, planned=planned, **about)
    with lab.workers(_jobs(jobs, runs)) as pool, _bars() as bar:
        advance = bar(experiment.developer, runs)
        found = lab.coverage(experiment, runs, pool=pool, resume=resume, advance=advance)
    if as_json:
        echo_json(found.to_json())
    else:
        _show_coverage(found)


def _check(runs: int, jobs: int | None, resume: Path | None = None) -> None:
    """Refuse what makes no sense before anything is planned."""
    from easeml_meter.lab.simulation.coverage import check_whole

    check_whole("runs", runs, at_least=1)
    if jobs is not None:
        check_whole("jobs", jobs, at_least=1)
    if resume is not None and resume.is_dir():
        raise invalid("resume", str(resume), "a file, not a folder")


def _jobs(jobs: int | None, runs: int) -> int:
    """Return how many processes to start; for few sessions, starting more would cost time."""
    from easeml_meter.lab.simulation.coverage import processors

    if jobs is not None:
        return jobs
    return processors() if runs > 1000 else 1


def _show_coverage(found: Coverage) -> None:
    from rich.table import Table

    setting, (lower, upper) = found.experiment, found.interval
    developer, meter = setting.opponent, setting.meter
    size = "as planned" if setting.planned == setting.labels else f"{setting.planned:,} planned"
    rows = [
        ("verdict", found.verdict),
        ("failure rate", f"{found.rate:.6g} ({found.failures:,} of {found.runs:,} sessions)"),
        ("99.8 % interval", f"{lower:.6g} to {upper:.6g}"),
        ("delta", f"{float(meter.delta_of_stage):g}"),
        (meter.unit, f"{setting.labels:,} ({size})"),
        ("developer", f"{developer.name}: {developer.about}"),
    ]
    broken = developer.breaks(meter)
    if broken is not None:
        rows.append(("invalid use", broken))
    colour = {"promise holds": "bold green", "promise broken": "bold red"}
    table = Table(show_header=False, box=None, padding=(0, 2))
    for index, row in enumerate(rows):
        table.add_row(*row, style=colour.get(found.verdict, "bold yellow") if index == 0 else None)
    print_rich(table)


@click.command()
@json_option
@_run_options(2_000)
@_world_option
@click.option("--developer", "developers", multiple=True, help="Repeatable. Default: all.")
@_meter_options
def limit(
    as_json: bool,
    path: Path | None,
    runs: int,
    jobs: int | None,
    developers: tuple[str, ...],
    **rest: Any,
) -> None:
    """How many labels does the best known attack make necessary?

    Searches for the smallest test set on which the best attack stays below delta. The plan is a
    proof against all attacks; the ratio shows how far it is from what is known to be necessary.
    """
    from easeml_meter.lab.simulation.coverage import find_limit, workers

    _check(runs, jobs)
    about = {name: rest.pop(name) for name in ("seed", "world")}
    meter, planned = _planned(path, rest)
    with workers(_jobs(jobs, runs)) as pool, _bars() as bar:
        found = find_limit(
            meter,
            developers,
            planned=planned,
            runs=runs,
            pool=pool,
            advance=lambda name: bar(name, runs),
            **about,
        )
    if as_json:
        echo_json(found.to_json())
    else:
        _show_limit(found)


def _show_limit(found: Limit) -> None:
    from rich.table import Table

    unit = found.meter.unit
    rows = [
        (f"{unit} planned", f"{found.planned:,}"),
        ("limit", f"{found.labels:,}"),
        ("planned / limit", f"{found.ratio:.2f}"),
        ("delta", f"{float(found.meter.delta_of_stage):g}"),
    ]
    for name, attack in (("above delta", found.too_few), ("not above delta", found.enough)):
        if attack is not None:
            setting = attack.experiment
            text = f"{setting.developer} at {setting.labels:,} {unit}: {attack.rate:.6g}"
            rows.append((name, text))
    table = Table(show_header=False, box=None, padding=(0, 2))
    for index, row in enumerate(rows):
        table.add_row(*row, style="bold green" if index == 1 else None)
    print_rich(table)


@click.command()
@json_option
@chart_option
@_run_options(250)
def misuse(as_json: bool, runs: int, jobs: int | None, chart: Path | None, seed: int) -> None:
    """What happens when people break the assumption that a count rests on?

    Two counts of the paper rest on an assumption about people: teams stay isolated, and reverts
    are fixed in advance. Here, developers pass on checkpoints and revert after bad answers. With
    --chart, also plays on larger test sets, up to the size that needs no assumption.
    """
    from easeml_meter import charts
    from easeml_meter.lab.simulation import misuse as lab
    from easeml_meter.lab.simulation.coverage import workers

    _check(runs, jobs)
    with workers(_jobs(jobs, runs if chart is None else 10 * runs)) as pool, _bars() as bar:
        curves = [
            (
                each,
                lab.curve(
                    each,
                    [each.planned] if chart is None else each.sizes(),
                    runs,
                    seed=seed,
                    pool=pool,
                    advance=lambda name: bar(name, runs),
                ),
            )
            for each in lab.MISUSES
        ]
    if chart is not None:
        save_chart(chart, "Misuse", charts.svg(lab.chart(curves)))
    found = [
        (each, next(point for point in points if point.experiment.labels == each.planned))
        for each, points in curves
    ]
    if as_json:
        echo_json([{"misuse": each.name, **outcome.to_json()} for each, outcome in found])
        return
    for each, outcome in found:
        click.echo(f"{each.name}:")
        _show_coverage(outcome)
        click.echo(f"  without the assumption, the plan needs {each.needed:,} labels\n")
