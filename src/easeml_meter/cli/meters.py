"""`meter init`, `meter meters` and `meter handover` (its cost, and the other team's answer)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from easeml_meter.checks import read_confidence
from easeml_meter.cli.common import (
    HONOUR,
    MeterPlace,
    account_options,
    at_terminal,
    confirm,
    connected,
    echo_either,
    echo_json,
    meter_options,
    next_step,
    open_meter,
    seal_step,
    validate_step,
)
from easeml_meter.cli.plan import plan_options, planned, show_plan
from easeml_meter.cli.questions import WHOLE, meter_asked, retyped
from easeml_meter.errors import InvalidInput, MeterError, invalid
from easeml_meter.service.meters import check_new, classes_open
from easeml_meter.service.place import Home
from easeml_meter.spec import DEFAULT_STEPS, MeterSpec

if TYPE_CHECKING:
    from easeml_meter.core.views import Consequence


@click.command()
@plan_options
@click.option("--name", help="Name of the meter. Default: the folder's; required on a server.")
@click.option("--yes", is_flag=True, help="Do not ask before committing to the plan.")
@meter_options
def init(
    *,
    path: Path | None,
    name: str | None,
    yes: bool,
    place: MeterPlace,
    as_json: bool,
    **options: Any,
) -> None:
    """Make a meter in a folder or on a server: of options as of meter plan, or of a meter.toml.

    Shows the plan before anything is written. Alone, it asks how many labels can stay hidden.

    \b
    Examples:
      meter init --labels 500
      meter init --steps 20 --tolerance 0.05 --confidence 95
    """
    from easeml_meter.core.questions.labels import from_tables
    from easeml_meter.core.questions.planning import plan_of
    from easeml_meter.meter import Meter
    from easeml_meter.service.meters import check_meter

    folder, typed = place.folder, bool(retyped(options))
    inputs = "public" if place.server is None else "hidden"
    if path is None and not typed and (folder / "meter.toml").is_file():
        path = folder / "meter.toml"
    answer = "size"
    if typed:
        found, answer = planned(path, options)
        asked = found.meter or meter_asked(options, found)
        if asked is None:
            raise AssertionError("a plan of no meter asks a question, of which one can be made")
        spec = asked if path is not None else asked.replace(inputs=inputs)
    elif path is not None:
        spec = MeterSpec.read(path, from_tables)
    elif at_terminal():
        spec = _ask().replace(inputs=inputs)
    else:
        raise InvalidInput(
            "labels: nothing given, say how many can stay hidden: meter init --labels 500"
        )
    if place.server is not None:
        name = name or place.meter or ""
        check_meter(spec, name)
    else:
        name = name or folder.resolve().name or "meter"
        # Before the plan is shown, and before anybody is asked to accept it.
        check_new(Home(folder), spec, name)
    plan = found if typed and found.meter else plan_of(spec)
    if not as_json:
        yours = "Inputs: yours, as all that is in this folder." if spec.meter.sample.public else ""
        show_plan(plan, answer, *([yours] if place.server is None else []))
    if at_terminal() and not (yes or typed) and not click.confirm("Make this meter?", default=True):
        raise MeterError("nothing was made: the plan was not accepted")
    if place.server is not None:
        _init_at(place.server, place, spec, name, as_json)
        return
    meter = Meter.create(folder, spec, name=name)
    if as_json:
        echo_json({"folder": str(folder), **meter.plan.to_dict()})
        return
    click.echo(f"meter made in {folder}: it needs {_needed(spec)}")
    click.echo(HONOUR)
    # Labels are checked against the classes, which the validation set names if the spec does not.
    next_step(place, validate_step(spec) if classes_open(spec) else seal_step(spec))


def _needed(spec: MeterSpec) -> str:
    """Say what is delivered first."""
    from easeml_meter.core.questions.planning import labels_needed

    return f"{labels_needed(spec, 1):,} {spec.meter.sample.handed_in}"


def _ask_classes(loss: str) -> tuple[str | int, ...]:
    """Ask for the classes, where the loss has some."""
    from easeml_meter.scoring.losses import parse_loss
    from easeml_meter.scoring.outputs import OF_CLASSES
    from easeml_meter.spec import classes_of

    if parse_loss(loss).output not in OF_CLASSES:
        return ()
    question = "Classes, with commas between them (none: those of the validation set)?"
    text = click.prompt(question, default="", show_default=False)
    return classes_of(text)


def _init_at(server: str, place: MeterPlace, spec: MeterSpec, name: str, as_json: bool) -> None:
    from easeml_meter.client import create_meter

    with create_meter(server, spec, name=name, ca=place.ca) as meter:
        plan = meter.plan
    if as_json:
        echo_json({"server": server, "meter": meter.id, **plan.to_dict()})
    else:
        click.echo(f"meter {name} made on {server}, its id is {meter.id}")
        click.echo(f"it needs {_needed(spec)}")
        next_step(replace(place, meter=name), "seat give NAME ROLE")


def _ask() -> MeterSpec:
    """Ask for a meter at the terminal."""
    from easeml_meter.core.questions.labels import plan_alarm, plan_labels, starts_with_alarm

    hidden = click.prompt("How many labelled examples can stay hidden?", type=WHOLE)
    steps = click.prompt("How many answers should they give?", default=DEFAULT_STEPS, type=WHOLE)
    sure = click.prompt("How sure should they be, in percent?", default="90")
    loss = click.prompt("Loss?", default="0-1")
    classes, delta = _ask_classes(loss), read_confidence(sure)
    if loss == "0-1" and starts_with_alarm(hidden, steps, delta):
        return plan_alarm(hidden, steps=steps, delta=delta, classes=classes).spec
    wish = MeterSpec.uniform(tolerance=0.1, delta=delta, loss=loss, classes=classes)
    return plan_labels(wish, hidden, None if steps == DEFAULT_STEPS else steps).spec


@click.command()
@click.option("--yes", is_flag=True, help="Do not ask; needed where nobody can be asked.")
@meter_options
def archive(yes: bool, place: MeterPlace, as_json: bool) -> None:
    """Give a meter up for good, before its first answer (admins).

    It takes no labels and gives no answers any more, and leaves the list of meters. Its audit trail
    stays. Rows that were delivered to it stay its own: no other meter takes them.
    """
    meter = open_meter(place)
    name = place.meter or str(place.folder)
    confirm(f"Archive the meter {name}? It cannot be brought back.", yes=yes)
    meter.archive()
    if as_json:
        echo_json({"meter": name, "phase": str(meter.generations[-1].phase)})
    else:
        click.echo(f"the meter {name} is archived: it takes no labels and gives no answers")


@click.command()
@account_options
def meters(place: MeterPlace, as_json: bool) -> None:
    """List your meters on a server; admins see all of them."""
    from easeml_meter.client import list_meters

    with connected(place) as connection:
        found = list_meters(connection)
    lines = [f"{each['name']} ({', '.join(each['roles'])}), id {each['id']}" for each in found]
    echo_either(as_json, found, *(lines or ["you have no seat at any meter"]))


@click.command()
@click.argument("giver", type=int, required=False)
@click.argument("receiver", type=int, required=False)
@click.option("--confirm", "answer", flag_value="confirm", help="Request it from the other team.")
@click.option("--accept", "answer", flag_value="accept", help="Agree to one that was requested.")
@click.option("--decline", "answer", flag_value="decline", help="Decline one, or withdraw it.")
@meter_options
def handover(
    giver: int | None, receiver: int | None, answer: str | None, place: MeterPlace, as_json: bool
) -> None:
    """Show what it costs if team GIVER hands a checkpoint to team RECEIVER, or request it.

    Once the other team has agreed, both depend on all answers that either got, and share what is
    left. In a folder, which has one owner, --confirm records it at once. Without teams, show the
    hand-overs that wait for a team to agree.
    """
    meter = open_meter(place)
    if giver is None and answer is None:
        _show(meter.handovers(), as_json)
        return
    if giver is None or receiver is None:
        raise invalid("handover", "no two teams", "give both, such as: meter handover 1 2")
    if answer in ("accept", "decline"):
        found = meter.answer_handover(giver, receiver, accept=answer == "accept")
    else:
        found = meter.hand_over(giver, receiver, confirm=answer == "confirm")
    if as_json:
        echo_json(found.to_json())
        return
    click.echo(found.sentence)
    if answer is None:
        click.echo("nothing was recorded: add --confirm")
    else:
        click.echo("declined" if answer == "decline" else _standing(found))


def _show(waiting: list[Consequence], as_json: bool) -> None:
    if as_json:
        echo_json([each.to_json() for each in waiting])
        return
    for each in waiting:
        click.echo(f"{each.giver} to {each.receiver}: {each.sentence}")
        click.echo(f"  {_standing(each)}")
    if not waiting:
        click.echo("no hand-over waits for a team to agree")


def _standing(found: Consequence) -> str:
    return "recorded" if found.recorded else found.standing.replace("`", "")
