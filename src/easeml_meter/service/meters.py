"""Meters: creating, showing, listing and archiving them."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, replace

from easeml_meter.checks import check_name, is_id
from easeml_meter.core.history import MeterState
from easeml_meter.core.lifecycle import Phase, advance
from easeml_meter.core.model import Event, MeterRecord, TestSet
from easeml_meter.core.questions.labels import from_tables
from easeml_meter.core.questions.planning import Plan, check_planned
from easeml_meter.errors import InvalidInput, MeterError, NotFound, WrongPhase, invalid
from easeml_meter.scoring.classes import Classes
from easeml_meter.scoring.losses import parse_loss
from easeml_meter.scoring.outputs import OF_CLASSES
from easeml_meter.service.actor import Actor, Permission, needs
from easeml_meter.service.place import Clock, Home, Site, Workspace, allowed_loss
from easeml_meter.service.testsets import requests
from easeml_meter.service.tokens import Caller
from easeml_meter.spec import Count, MeterSpec
from easeml_meter.spec.strata import check_new_strata
from easeml_meter.storage.books import Books
from easeml_meter.storage.files import unusable


def check_meter(
    spec: MeterSpec, name: str, *, allowed_losses: frozenset[str] | None = None
) -> None:
    """Refuse what cannot be a meter; where only some functions may be losses, any other one."""
    check_name("name", name)
    if spec.published or spec.count is not Count.CONSISTENT:
        name = "published" if spec.published else "count"
        raise InvalidInput(f"{name} is no setting: leave it out: meter compare shows it")
    if spec.topped_up:
        raise InvalidInput("'topped_up' is no setting: say top_up, the answers after labels joined")
    check_new_strata(spec)
    loss = allowed_loss(spec, allowed_losses)
    if spec.meter.sample.classes:  # two may be one, as 1 and "1" are
        loss.within(Classes.of(spec.meter.sample.classes).values)
    check_planned(spec)


def classes_open(spec: MeterSpec) -> bool:
    """Whether the validation set will say which classes there are, and so has to come first."""
    return not spec.meter.sample.classes and parse_loss(spec.meter.sample.loss).output in OF_CLASSES


@dataclass(frozen=True)
class MeterSummary:
    """What everyone with a seat may know of a meter; nothing of its answers."""

    meter: MeterRecord
    plan: Plan
    current: TestSet
    """The test set in use, or the one requested."""
    recipient: str
    """The public key that test sets are sealed to."""
    spec: MeterSpec
    tenants: int


@needs(Permission.MANAGE)
def create_meter(
    _: Actor, site: Site, spec: MeterSpec, name: str, identifier: str | None = None
) -> MeterRecord:
    """Create a meter at a site, and request its first test set.

    `identifier`: its id, drawn by whoever asks, so that asking once more makes no second meter.

    Raises:
        InvalidInput: no meter can be made of this specification, name or id.
    """
    check_meter(spec, name, allowed_losses=site.allowed_losses)
    if identifier is not None and not is_id(identifier):
        raise _no_id(identifier)
    with site.writing() as books:
        if identifier is None:
            return enter(books, spec, name, site.now())
        found = [each for each in books.meters.all() if each.id == identifier]
        if found and (found[0].name, found[0].settings) == (name, spec.to_mapping()):
            return found[0]
        # Nor an id with files of a meter that older books, put back, no longer know.
        if found or site.files.size(f"meters/{identifier}"):
            raise _no_id(identifier)
        return enter(books, spec, name, site.now(), identifier)


def _no_id(identifier: str) -> InvalidInput:
    """Refuse an id that is none and one that is taken alike: which ones there are is not told."""
    return invalid("id", identifier[:40], "32 hexadecimal digits, drawn at random: draw others")


@needs(Permission.MANAGE)
def may_archive(_: Actor, space: Workspace) -> bool:
    """Whether a meter can be archived: it has answered nothing, and nothing is under way."""
    with space.reading() as books:
        return _why_not(books, space.state(books)) == ""


@needs(Permission.MANAGE)
def archive_meter(actor: Actor, space: Workspace) -> MeterState:
    """Give a meter up for good: it takes no labels and gives no answers any more.

    An archived one stays as it is.

    The audit chain stays, and rows that were delivered stay its own: no other meter takes them. A
    submission that was being measured is still answered, because it has touched hidden rows.

    Raises:
        WrongPhase: it has answered a submission, or something is under way.
    """
    with space.writing() as books:
        state = space.state(books)
        if state.archived:
            return state
        if reason := _why_not(books, state):
            raise WrongPhase(reason)
        latest, now = state.generations[-1], space.now()
        phase = advance(latest.phase, Phase.ARCHIVED)
        books.testsets.update(replace(latest, phase=phase, changed_at=now))
        details = {"generation": latest.number, **actor.by_user}
        books.audit.append(latest.meter, now, Event.ARCHIVED, details)
        return space.state(books)


def _why_not(books: Books, state: MeterState) -> str:
    """Say why a meter cannot be archived; empty: it can."""
    if state.archived:
        return "this meter is archived already"
    meter = state.meter.id
    if any(books.entries.all(meter, each.number) for each in state.generations):
        return "this meter has answered a submission: retire its test set, but keep its books"
    # It may reach hidden rows at any moment, and would then have to be answered.
    if any(ticket.meter == meter for ticket in books.submissions.unfinished()):
        return "a model waits or runs: cancel it first, or wait for its answer"
    if state.generations[-1].phase is Phase.SPENT:
        return "its last test set is spent: release it"
    return ""


@needs(Permission.MANAGE)
def list_archived(_: Actor, site: Site) -> list[MeterRecord]:
    """Return the meters that were archived, the oldest first."""
    with site.reading() as books:
        archived = books.testsets.archived()
        return [meter for meter in books.meters.all() if meter.id in archived]


@needs(Permission.SEE_ACCOUNT)
def list_meters(_: Actor, site: Site, caller: Caller) -> list[tuple[MeterRecord, list[str]]]:
    """Return the meters at which the caller has a seat, with their roles; admins see all.

    Archived ones are left out.
    """
    with site.reading() as books:
        archived = books.testsets.archived()
        found = [meter for meter in books.meters.all() if meter.id not in archived]
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
    state, recipient = space.read_state(), space.identity.recipient
    return MeterSummary(
        state.meter, state.plan, state.current, recipient, state.spec, state.tenants
    )


@needs(Permission.SEE_METER)
def meter_state(_: Actor, space: Workspace) -> MeterState:
    """Return where a meter stands: its specification, test sets and validation set.

    Raises:
        NotFound: there is no such meter.
    """
    return space.read_state()


def create_in_folder(home: Home, spec: MeterSpec, name: str, clock: Clock) -> Workspace:
    """Create a meter in a folder, and request its first test set."""
    check_new(home, spec, name)
    home.prepare()
    if not home.settings.exists():
        spec.write(home.settings)
    space = home.workspace(clock)
    with space.writing() as books:
        # Again, under the lock: two commands may have found the folder empty at the same time.
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
    if described and MeterSpec.read(home.settings, from_tables) != spec:
        raise invalid("spec", str(home.settings), "it describes another meter: remove it")


def _taken(home: Home) -> InvalidInput:
    return InvalidInput(f"{home.folder}: already holds a meter: choose another folder")


def enter(
    books: Books, spec: MeterSpec, name: str, now: str, identifier: str | None = None
) -> MeterRecord:
    """Enter a new meter into the books, and ask for its first test set."""
    row = MeterRecord(identifier or secrets.token_hex(16), name, spec.to_mapping(), now)
    books.meters.add(row)
    books.audit.append(row.id, row.created_at, Event.CREATED, {"settings": row.settings})
    requests.request(books, spec, row.id, 1, row.created_at)
    return row
