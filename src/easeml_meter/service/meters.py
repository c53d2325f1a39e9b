"""Meters: what is checked and entered when one is created."""

from __future__ import annotations

import secrets
from dataclasses import dataclass

from easeml_meter.checks import check_name
from easeml_meter.core.history import MeterState
from easeml_meter.core.model import Event, MeterRecord, TestSet
from easeml_meter.core.questions.planning import MeterPlan, plan_of
from easeml_meter.errors import InvalidInput, MeterError, NotFound, invalid
from easeml_meter.service.actor import Actor, Permission, needs
from easeml_meter.service.place import Clock, Home, Site, Workspace, allowed_loss
from easeml_meter.service.testsets import requests
from easeml_meter.service.tokens import Caller
from easeml_meter.spec import METERS, MeterSpec
from easeml_meter.storage.books import Books
from easeml_meter.storage.files import unusable


def check_meter(
    spec: MeterSpec, name: str, *, allowed_losses: frozenset[str] | None = None
) -> None:
    """Refuse what cannot be a meter; where only some functions may be losses, any other one."""
    if spec.protocol not in METERS:
        raise invalid("protocol", str(spec.protocol), f"one of {', '.join(METERS)}")
    check_name("name", name)
    allowed_loss(spec, allowed_losses)
    plan = plan_of(spec)
    if spec.sized and spec.rows is None:
        needed = f"among them at least {plan.size:,} {plan.unit}"
        if spec.judged:
            needed = f"besides its pool: at least {plan.size:,} with a label"
        raise invalid("rows", None, f"say in meter.toml how many rows a test set has, {needed}")


@dataclass(frozen=True)
class MeterSummary:
    """What everyone with a seat may know of a meter; nothing of its answers."""

    meter: MeterRecord
    plan: MeterPlan
    current: TestSet
    """The test set in use, or the one requested."""
    recipient: str
    """The public key that test sets are sealed to."""
    tenants: int


@needs(Permission.MANAGE)
def create_meter(_: Actor, site: Site, spec: MeterSpec, name: str) -> MeterRecord:
    """Create a meter at a site, and request its first test set.

    Raises:
        InvalidInput: no meter can be made of this specification or name.
    """
    check_meter(spec, name, allowed_losses=site.allowed_losses)
    with site.writing() as books:
        return enter(books, spec, name, site.now())


@needs(Permission.SEE_ACCOUNT)
def list_meters(_: Actor, site: Site, caller: Caller) -> list[tuple[MeterRecord, list[str]]]:
    """Return the meters at which the caller has a seat, with their roles; admins see all."""
    with site.reading() as books:
        found = books.meters.all()
    roles = (
        (meter, sorted({str(seat.role) for seat in caller.seats(meter.id)})) for meter in found
    )
    return [(meter, own) for meter, own in roles if own]


@needs(Permission.SEE_ACCOUNT)
def find_meter(actor: Actor, site: Site, caller: Caller, name: str) -> str:
    """Return the id of the meter with a name, among those at which the caller has a seat.

    Raises:
        NotFound: there is none, exactly as for one at which the caller has no seat.
        MeterError: several have the name.
    """
    found = [meter.id for meter, _ in list_meters(actor, site, caller) if meter.name == name]
    if not found:
        raise NotFound(f"meter {name[:32]!r}: none of that name that you have a seat at")
    if len(found) > 1:
        raise MeterError(f"meter {name[:32]!r}: {len(found)} of yours have that name: use the id")
    return found[0]


@needs(Permission.SEE_METER)
def show_meter(_: Actor, space: Workspace) -> MeterSummary:
    """Return what a meter promises, and where its test set stands.

    Raises:
        NotFound: there is no such meter.
    """
    with space.reading() as books:
        state = space.state(books)
    recipient = space.identity.recipient
    return MeterSummary(state.meter, state.plan, state.current, recipient, state.tenants)


@needs(Permission.SEE_METER)
def meter_state(_: Actor, space: Workspace) -> MeterState:
    """Return where a meter stands: its specification, test sets and validation set.

    Raises:
        NotFound: there is no such meter.
    """
    with space.reading() as books:
        return space.state(books)


def create_in_folder(home: Home, spec: MeterSpec, name: str, clock: Clock) -> Workspace:
    """Create a meter in a folder, and request its first test set.

    Raises:
        InvalidInput: the folder holds a meter already, or no meter can be made of this.
    """
    check_new(home, spec, name)
    home.prepare()
    if not home.settings.exists():
        spec.write(home.settings)
    space = home.workspace(clock)
    with space.writing() as books:
        if books.meters.all():
            raise _taken(home)
        enter(books, spec, name, space.now())
    return space


def check_new(home: Home, spec: MeterSpec, name: str) -> None:
    """Refuse what `create_in_folder` would refuse, before anything is written."""
    check_meter(spec, name)
    try:
        used, described = home.database.exists(), home.settings.exists()
    except OSError as error:
        raise unusable(home.folder, error) from error
    if used:  # perhaps by a meter that was never finished
        with home.workspace().reading() as books:
            if books.meters.all():
                raise _taken(home)
    if described and MeterSpec.read(home.settings) != spec:
        raise invalid("spec", str(home.settings), "it describes another meter: remove it")


def _taken(home: Home) -> InvalidInput:
    return InvalidInput(f"{home.folder}: already holds a meter: choose another folder")


def enter(books: Books, spec: MeterSpec, name: str, now: str) -> MeterRecord:
    """Enter a new meter into the books, and ask for its first test set."""
    row = MeterRecord(secrets.token_hex(16), name, spec.to_mapping(), now)
    books.meters.add(row)
    books.audit.append(row.id, row.created_at, Event.CREATED, {"settings": row.settings})
    requests.request(books, spec, row.id, 1, row.created_at)
    return row
