"""`meter status`, `history`, `report`: what was answered; `meter audit`: that the chain holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from easeml_meter.cli.common import (
    PATH,
    MeterPlace,
    echo_json,
    json_option,
    next_step,
    open_meter,
    place_options,
    print_rich,
    role_here,
    tenant_option,
)
from easeml_meter.cli.verdicts import close, gate_options
from easeml_meter.errors import Denied, invalid
from easeml_meter.report.words import shown

if TYPE_CHECKING:
    from easeml_meter.core.views import SessionView
    from easeml_meter.meter import MeterVerbs


@click.command()
@click.option("--model", help="Exit with 6 unless this model passes, by its newest answer.")
@gate_options
@tenant_option
@place_options
@json_option
def status(
    model: str | None, tenant: int | None, place: MeterPlace, as_json: bool, **options: Any
) -> None:
    """Show the budget left, all answers so far, and what to do now.

    With --model: whether it passes, free and repeatable. Exit code 0: it does. 6: it does not. 4:
    nothing was answered yet. Where the answers are pass and fail, no other option is needed.
    """
    meter = open_meter(place)
    if model is not None:
        _passes(meter, model, tenant, options, as_json=as_json)
        return
    if given := next((name for name, value in options.items() if value is not None), None):
        raise invalid(given.replace("_", "-"), str(options[given]), "only with --model NAME")
    view = meter.status(tenant=tenant)
    if as_json:
        echo_json(view.to_dict())
        return
    from easeml_meter.report.terminal import session_terminal

    print_rich(session_terminal(view, role_here(place)))
    with suppress(Denied):  # labelers alone are told, and a folder refuses such rows
        for each in meter.notices() if place.server else ():
            here = each["generation"] == view.generation and each["validation_set"]
            if here and each["rows_shared"]:
                click.echo(f"note: {each['sentence']}")


def _passes(
    meter: MeterVerbs, model: str, tenant: int | None, options: Mapping[str, Any], *, as_json: bool
) -> None:
    """Exit by an answer that was given: however often a pipeline runs, nothing is charged."""
    from easeml_meter.core.gate import Gate

    verdict = meter.gate(model, Gate(options["fail_above"], options["most_loss"]), tenant=tenant)
    if as_json:
        echo_json(verdict.to_dict())
    close(verdict, options, shown=not as_json)


@click.command()
@tenant_option
@place_options
@json_option
def history(tenant: int | None, place: MeterPlace, as_json: bool) -> None:
    """Show all answers, test set by test set."""
    views = open_meter(place).history(tenant=tenant)
    if as_json:
        echo_json([view.to_dict() for view in views])
    elif not views:
        click.echo("no answers yet: no test set has been delivered")
    else:
        from easeml_meter.report.terminal import history_terminal

        print_rich(*(history_terminal(view) for view in _in_a_row(views)))


def _in_a_row(views: Sequence[SessionView]) -> list[SessionView]:
    """Put the windows of a rolling test set into one table; those released, into another."""
    if not views[0].spec.meter.renewal.rolls:
        return list(views)
    joined = []
    for _, group in groupby(views, lambda view: bool(view.retrospective)):
        windows = list(group)
        signals = tuple(signal for each in windows for signal in each.signals)
        truths = tuple(truth for each in windows for truth in each.retrospective)
        notes = tuple(note for each in windows for note in each.notes)
        joined.append(replace(windows[-1], signals=signals, retrospective=truths, notes=notes))
    return joined


_ENDINGS = {"html": ".html", "svg": ".svg", "badge": ".svg", "shields": ".json"}


@click.command()
@click.argument("file", type=PATH, required=False)
@click.option("--html", type=PATH, help="One self-contained page.")
@click.option("--svg", type=PATH, help="The meter, step by step.")
@click.option("--badge", type=PATH, help="The last answer as a badge (svg).")
@click.option("--shields", type=PATH, help="The badge for shields.io (JSON).")
@click.option("--generation", type=int, help="Number of the test set. Default: the active one.")
@tenant_option
@place_options
@json_option
def report(
    file: Path | None,
    place: MeterPlace,
    tenant: int | None,
    generation: int | None,
    as_json: bool,
    **outputs: Path | None,
) -> None:
    """Draw the answers of a test set: to FILE, or --html, --svg, --badge, --shields."""
    from easeml_meter.report.badges import badge_json, badge_svg
    from easeml_meter.report.meter import meter_svg
    from easeml_meter.report.page import html_page

    if file is not None:
        kind = next((kind for kind, each in _ENDINGS.items() if each == file.suffix.lower()), None)
        outputs |= {kind or "html": file}
    for kind, path in outputs.items():
        if path is not None and path.suffix.lower() != _ENDINGS[kind]:
            raise invalid(kind, str(path), f"a file name that ends in {_ENDINGS[kind]}")
    if not any(outputs.values()):
        needed = "give --html, --svg, --badge or --shields with a file name"
        raise invalid("report", "no output", needed)
    view = open_meter(place).status(generation=generation, tenant=tenant)
    drawn = {"html": html_page, "svg": meter_svg, "badge": badge_svg, "shields": badge_json}
    for kind, path in outputs.items():
        if path is not None:
            try:
                path.write_text(drawn[kind](view), encoding="utf-8")
            except OSError as error:
                raise invalid(kind, str(path), error.strerror or "cannot be written") from None
            if not as_json:
                click.echo(f"wrote {path}")
    if as_json:
        echo_json({kind: str(path) for kind, path in outputs.items() if path is not None})
    elif outputs["html"] is not None:
        click.echo(f"Next: open {outputs['html']} in a browser")
    else:
        next_step(place, "status", tenant=tenant)


@click.command()
@click.argument("first", type=int, required=False)
@click.argument("second", type=int, required=False)
@click.option("--better", is_flag=True, help="The examples that became better, not worse.")
@click.option("--page", type=click.IntRange(1, 1_000_000), default=1, help="Twenty examples each.")
@click.option("--generation", type=int, help="Number of the test set. Default: the last released.")
@tenant_option
@place_options
@json_option
def diff(
    first: int | None,
    second: int | None,
    *,
    better: bool,
    page: int,
    generation: int | None,
    tenant: int | None,
    place: MeterPlace,
    as_json: bool,
) -> None:
    """Compare two submissions, by steps FIRST and SECOND, on a released test set.

    Without steps: the first and the last. Says which examples went from right to wrong, or with
    --better from wrong to right. Before release there is nothing to compare: which examples
    changed would tell their labels.
    """
    meter = open_meter(place)
    found = meter.differences(
        first, second, generation=generation, better=better, page=page, tenant=tenant
    )
    if as_json:
        echo_json(found.to_json())
        return
    from easeml_meter.report.differences import differences_terminal

    print_rich(differences_terminal(meter.spec, found, better=better))
    again = f"diff {found.first.step} {found.second.step} --generation {found.generation}"
    more = f"{' --better' if better else ''} --page {page + 1}" if page < found.pages else ""
    if more:
        next_step(place, f"{again}{more}", tenant=tenant)
    elif found.better and not better:
        next_step(place, f"{again} --better", tenant=tenant)
    else:
        next_step(place, "history", tenant=tenant)


_KEEP = "keep the last digest of meter audit --json elsewhere: a rewritten chain does not have it"
_MEND = "ask who can write to the books what was done; meter restore brings a backup back"


def _details(details: dict[str, Any]) -> str:
    """Return the short details of an audit link; --json has them all, in full."""
    named = {"generation": "test set", "number": "validation set"}
    words = [
        f"{named.get(name, name)} {shown(str(value), 24)}"
        for name, value in details.items()
        if name not in ("digest", "submission") and isinstance(value, str | int)
    ]
    return f": {', '.join(words)}" if words else ""


@click.command()
@click.argument("ledger", type=PATH, required=False)
@click.option("--head", metavar="HEX", help="Find the line of a gate's ledger with this head.")
@place_options
@json_option
def audit(ledger: Path | None, head: str | None, place: MeterPlace, as_json: bool) -> None:
    """Verify the chain of all answers: of this meter, or of LEDGER, that of a gate.

    Exit code 1: something does not match.
    """
    own = place.folder / "gate.jsonl"
    if place.server is None and own.exists() and not (place.folder / ".meter").exists():
        ledger = ledger or own
    if ledger is not None:
        _audit_gate(ledger, head, as_json=as_json)
        return
    if head is not None:
        raise invalid("head", head[:40], "with the LEDGER of a gate")
    found = open_meter(place).audit()
    if as_json:
        links = [
            {
                "number": link.number,
                "at": link.at,
                "event": link.event,
                "details": link.details,
                "digest": link.digest,
            }
            for link in found.links
        ]
        said = {"problems": found.problems, "restored": found.restored}
        echo_json({"sound": found.sound, **said, "links": links})
    else:
        for link in found.links:
            click.echo(f"{link.number:4} {link.at[:19]} {link.event}{_details(link.details)}")
        for problem in found.problems:
            click.echo(f"problem: {problem}")
        for line in found.restored:
            click.echo(f"note: {line}")
        click.echo(f"the chain {found.state if found.problems else f'is {found.state}'}")
        click.echo(f"Next: {_MEND if found.problems else _KEEP}")
    if found.problems:
        raise click.exceptions.Exit(1)


def _audit_gate(path: Path, head: str | None, *, as_json: bool) -> None:
    from easeml_meter.client.gate import Gate
    from easeml_meter.client.ledger import BrokenLedger

    try:
        looks, problems = Gate(path).audit(head), []
    except BrokenLedger as broken:
        looks, problems = None, [str(broken)]
    if as_json:
        echo_json({"sound": not problems, "looks": looks, "problems": problems})
    else:
        click.echo(f"problem: {problems[0]}" if problems else f"the chain is sound: {looks} looks")
    if problems:
        raise click.exceptions.Exit(1)
