"""Requests for labels: a fresh test set is requested when the last one is spent or retired."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

from easeml_meter.core.history import MeterState
from easeml_meter.core.lifecycle import Phase, advance
from easeml_meter.core.model import Event, LabelRequest, Part, TestSet, stamp
from easeml_meter.core.people import Role
from easeml_meter.core.questions.planning import labels_needed
from easeml_meter.errors import MeterError, WrongPhase, invalid
from easeml_meter.service.actor import Actor, Permission, needs
from easeml_meter.service.journal import histories_of
from easeml_meter.service.place import Workspace
from easeml_meter.spec import MeterSpec
from easeml_meter.storage.books import Books

LONGEST_REASON = 500


@needs(Permission.SEE_METER)
def list_test_sets(_: Actor, space: Workspace) -> tuple[TestSet, ...]:
    """Return all test sets, requested or delivered, the oldest first."""
    return space.read_state().generations


@needs(Permission.SEE_METER)
def show_test_set(_: Actor, space: Workspace, number: int) -> TestSet:
    """Return a test set.

    Raises:
        NotFound: there is none of that number.
    """
    return space.read_state().numbered(number)


@needs(Permission.SEE_REQUESTS)
def list_requests(_: Actor, space: Workspace) -> list[LabelRequest]:
    """Return the requests that are open."""
    with space.reading() as books:
        state = space.state(books)
        over = _is_over(books, state)
    if over:
        with space.writing() as books:
            settled(space, books, space.state(books))
    with space.reading() as books:
        test_sets = space.state(books).generations
        return [as_request(space, books, each) for each in test_sets if each.needs_labels]


@needs(Permission.SEE_REQUESTS)
def describe_request(
    _: Actor, space: Workspace, number: int, *, reason: str | None, deadline: str | None
) -> LabelRequest:
    """Say why labels are needed, and until when; what is None is taken back.

    Raises:
        InvalidInput: the reason is not one short line, or the deadline not a moment with a zone.
        NotFound: there is no test set of that number.
        WrongPhase: its labels have already arrived.
    """
    if reason and (len(reason) > LONGEST_REASON or not reason.isprintable()):
        raise invalid("reason", reason[:40], f"one line of at most {LONGEST_REASON} characters")
    reason, deadline = reason or None, _moment(deadline) if deadline else None
    with space.writing() as books:
        found = replace(open_request(space, books, number), reason=reason, deadline=deadline)
        books.testsets.update(found)
        details = {"generation": number, "reason": reason, "deadline": deadline}
        books.audit.append(found.meter, space.now(), Event.REQUEST_DESCRIBED, details)
        return as_request(space, books, found)


def _moment(text: str) -> str:
    """Read a deadline; without a zone it would be another moment for every labeler."""
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is not None:
            return stamp(moment.astimezone(UTC))
    except (ValueError, OverflowError):
        pass
    raise invalid("deadline", text[:40], "a moment such as 2026-03-31T18:00:00+00:00")


def as_request(space: Workspace, books: Books, test_set: TestSet) -> LabelRequest:
    """Return the request for a test set as it stands."""
    parts, spec = books.parts.all(test_set), space.state(books).spec
    return LabelRequest(
        test_set, (space.identity.recipient,), tuple(parts), strata_needed(spec, test_set)
    )


def strata_needed(spec: MeterSpec, test_set: TestSet) -> tuple[tuple[str, int], ...]:
    """Return how many rows each stratum of a test set has to have, if it has any."""
    parts = spec.meter.sample.parts
    return () if parts is None else tuple(parts.rows(test_set.labels_needed).items())


def open_request(space: Workspace, books: Books, number: int) -> TestSet:
    """Return a test set that labels are still needed for."""
    found = space.state(books).numbered(number)
    if not found.needs_labels:
        raise WrongPhase(f"test set {number} is {found.phase}: its labels have already arrived")
    return found


def refuse_changed(
    actor: Actor, books: Books, test_set: TestSet, known: Sequence[Part] | None
) -> None:
    """Refuse what was made of, or compared with, other parts than there are now; None: any.

    Nor may labels come from somebody whose seat was exchanged while they were being read: when
    seats are given, labels that are still to come are not looked at.
    """
    if known is not None and books.parts.all(test_set) != list(known):
        raise MeterError("another part was added or withdrawn meanwhile: try again")
    givers = {actor.user, *(part.added_by for part in known or ())}
    seats = books.seats.at(test_set.meter)
    if any(each.user in givers and each.role is not Role.LABELER for each in seats):
        line = "labels of somebody who develops here, or runs models"
        raise MeterError(f"{line}: ask an admin to take that seat away first")


@needs(Permission.RETIRE)
def retire_test_set(actor: Actor, space: Workspace, number: int | None = None) -> TestSet:
    """Retire the active test set before it is spent, and request the next one.

    Its answers stay, and so does their promise. `number` makes sure that it is the one meant, which
    may have been retired before.

    Raises:
        NotFound: there is no test set of that number.
        WrongPhase: it is not active.
    """
    with space.writing() as books:
        state = space.state(books)
        test_set = state.generations[-1] if number is None else state.numbered(number)
        if number is not None and _retired_before(books, test_set):
            return test_set
        if test_set.phase is not Phase.ACTIVE:
            raise WrongPhase(
                f"test set {test_set.number} is {test_set.phase}: only an active one is retired"
            )
        answers = histories_of(books, state, test_set).answers
        now = space.now()
        details = {"generation": test_set.number, **actor.by_user}
        books.audit.append(test_set.meter, now, Event.RETIRED, details)
        retire(space, books, state, test_set)
        retired = space.state(books).numbered(test_set.number)
    # Once released, its labels are known: an older database put back must not let it answer again.
    space.journal(test_set).retire(now, answers)
    return retired


def _retired_before(books: Books, test_set: TestSet) -> bool:
    links = books.audit.of(test_set.meter, Event.RETIRED)
    return any(link.details["generation"] == test_set.number for link in links)


def settled(space: Workspace, books: Books, state: MeterState) -> MeterState:
    """Return the state, after closing the active test set if no tenant has an answer left.

    Before hand-overs closed what they had spent, a meter could be left with such a test set:
    nothing to answer, nothing to release, nothing requested.
    """
    if not _is_over(books, state):
        return state
    retire(space, books, state, state.generations[-1])
    return space.state(books)


def _is_over(books: Books, state: MeterState) -> bool:
    latest = state.generations[-1]
    return latest.phase is Phase.ACTIVE and histories_of(books, state, latest).all_spent


def retire(space: Workspace, books: Books, state: MeterState, test_set: TestSet) -> None:
    """Close a test set that has said all it can, and ask the labelers for the next one."""
    now = space.now()
    phase = advance(test_set.phase, Phase.SPENT)
    books.testsets.update(replace(test_set, phase=phase, changed_at=now))
    books.audit.append(test_set.meter, now, Event.SPENT, {"generation": test_set.number})
    number, here = test_set.number + 1, test_set.rows or 0
    request(books, state.spec, test_set.meter, number, now, here=here)


def request(
    books: Books,
    spec: MeterSpec,
    meter: str,
    number: int,
    now: str,
    *,
    here: int = 0,
) -> None:
    """Ask the labelers for a test set of exactly the planned size, or for what tops one up."""
    labels = labels_needed(spec, number, here)
    books.testsets.add(TestSet(meter, number, Phase.REQUESTED, labels, now))
    details = {"generation": number, "labels": labels}
    books.audit.append(meter, now, Event.REQUESTED, details)
