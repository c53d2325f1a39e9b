"""The queue: models wait for a worker, in the order of their team; begun too often, one is over.

One that was begun too often is refused, or "no reading" if it has run on hidden rows.
Predictions are answered at once.

A submission is described by what stands in the books: a row of `submissions` while it waits, the
ledger's entry once it was answered. Predictions never wait, so they have an entry and no row.
"""

from __future__ import annotations

import hashlib
import secrets
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Unpack

from easeml_meter.core.history import shown_step
from easeml_meter.core.lifecycle import Phase
from easeml_meter.core.model import Entry, stamp
from easeml_meter.core.submissions import (
    BYTES,
    LINK,
    NOTE,
    TOKEN,
    TURN,
    WAITS,
    Receipt,
    SubmissionState,
    Ticket,
    next_turn,
)
from easeml_meter.core.views import Signal
from easeml_meter.errors import (
    Denied,
    FilesUnusable,
    MeterError,
    NotFound,
    Spent,
    StorageError,
    TooMany,
    Unreachable,
)
from easeml_meter.scoring.ids import BY_IDS, RowMatching
from easeml_meter.service.actor import SYSTEM, Actor, Permission, needs
from easeml_meter.service.history import show_session
from easeml_meter.service.jobs import Work
from easeml_meter.service.place import Site, Workspace
from easeml_meter.service.submissions.answering import (
    Advice,
    Said,
    Submission,
    answer,
    answered_before,
    submission_of,
)
from easeml_meter.service.submissions.deciding import Paces, Standing
from easeml_meter.service.submissions.kinds import (
    MODELS,
    NO_TITLES,
    Model,
    PredictionFiles,
    check_models,
    made_of_hidden,
    unpack,
)
from easeml_meter.service.submissions.measuring import USUAL, Conditions, Measured
from easeml_meter.storage import jobs
from easeml_meter.storage.books import Books
from easeml_meter.storage.jobs import Job, Queue

MOST_WAITING = 20
"""Models of one tenant that may wait at a time."""
_WAIT = 60
"""Seconds after which a client tries again when too many wait."""
MOST_ATTEMPTS = 5
"""Attempts before we give up on a submission that keeps crashing us."""

FAILED = {"error": "internal", "message": "the server failed at it: tell its admin"}


Accepted = tuple[Receipt, Signal | None]
"""What became of a submission; the signal for those who may see it."""


@needs(Permission.SUBMIT)
def accept(
    actor: Actor,
    space: Workspace,
    model: str,
    body: bytes,
    *,
    matching: RowMatching = BY_IDS,
    titles: Mapping[str, str] = NO_TITLES,
    **said: Unpack[Said],
) -> Accepted:
    """Take a submission: answer predictions, queue a model.

    `titles`: what its sender calls the files. The same bytes of a model that waits for the same
    team are that one.

    Its format is checked first. What is refused here or later for its format costs nothing; what a
    runner made of hidden rows is not refused for it.

    Raises:
        Denied: the actor may not submit for this tenant.
        InvalidInput: the submission cannot be measured.
        TooLarge: there is no room to keep it.
        Spent: the test set has no answer left for the tenant.
        TooSoon: the actor's token has had its answers of a day.
        WrongPhase: there is no test set or no validation set yet, or `seen` are not in use.
    """
    submitted = unpack(body, matching, space.limits, titles)
    if isinstance(submitted, PredictionFiles):
        return _accepted(actor, space, answer(actor, space, submitted, model, **said))
    given = submission_of(actor, submitted, model, **said)
    advice = Advice.read(actor, space, given)
    name = advice.draft.entry.submission
    with space.reading() as books:
        waiting = _known(books.submissions.unfinished(), space, given, name)
    if waiting is not None:
        return waiting.receipt, None
    if (found := advice.answered(space)) is not None:
        return _accepted(actor, space, found)
    check_models(advice.state.spec, onnx=submitted.kind == "onnx", sent=True)
    return _enqueue(space, given, submitted, name).receipt, None


@needs(Permission.SUBMIT)
def charged(actor: Actor, space: Workspace) -> bool:
    """Whether what the actor hands in is made of hidden rows, and so charged even if broken."""
    sees_inputs = actor.may(Permission.SEE_TEST_INPUTS)
    return made_of_hidden(space, space.read_state().spec, sees_inputs=sees_inputs)


def _accepted(actor: Actor, space: Workspace, signal: Signal) -> Accepted:
    receipt = _receipt_of(space.meter or "", signal, signal.step)
    return receipt, signal if _sees_signals(actor) else None


def _known(
    waiting: Sequence[Ticket], space: Workspace, given: Submission, name: str
) -> Ticket | None:
    """Return the model of the same bytes that waits for the same team, if there is one."""
    own = (each for each in waiting if (each.meter, each.tenant) == (space.meter, given.tenant))
    return next((each for each in own if each.options.get(BYTES) == name), None)


def _enqueue(space: Workspace, given: Submission, submitted: Model, name: str) -> Ticket:
    noted = {
        "once": "true" if given.once else "",
        TOKEN: given.token,
        BYTES: name,
        NOTE: given.note,
        LINK: given.link,
    }
    content = submitted.content()
    space.check_room(len(content))
    identifier, now = secrets.token_hex(16), space.now()
    ticket = Ticket(
        id=identifier,
        meter=space.meter or "",
        tenant=given.tenant,
        user=given.user,
        model=given.model,
        kind=submitted.kind,
        blob=space.files.put(f"submissions/{identifier}", content),
        options={name: value for name, value in noted.items() if value},
        state=SubmissionState.QUEUED,
        problem=None,
        generation=None,
        step=None,
        attempts=0,
        created_at=now,
        changed_at=now,
    )
    try:
        with space.writing() as books:
            waiting = books.submissions.unfinished()
            before = _known(waiting, space, given, name)
            if before is None:
                ticket = _entered(space, books, ticket, given, waiting)
    except StorageError:
        # It may be queued all the same, and a worker then needs its file. One that nobody needs
        # only takes room.
        raise
    except MeterError:
        space.files.remove(ticket.blob)
        raise
    if before is not None:
        space.files.remove(ticket.blob)
    return before or ticket


def _entered(
    space: Workspace, books: Books, ticket: Ticket, given: Submission, waiting: Sequence[Ticket]
) -> Ticket:
    """Queue a model, if its team and its token may have one more."""
    own = [each for each in waiting if _lock(each) == _lock(ticket)]
    if len(own) >= MOST_WAITING:
        line = f"{len(own)} models of this team wait already"
        raise TooMany(f"{line}: submit again when one is answered", _WAIT)
    # The one check of a model's pace: from here on it counts, as one that waits and then
    # as an answer, so that those after it are refused.
    if given.pace is not None and not answered_before(books, space, given):
        paces = Paces.read(books, ticket.meter, [given.token], space.clock, waiting)
        paces.check(given.token, given.pace)
    turn = next_turn(waiting, ticket.meter, ticket.tenant)
    ticket = replace(ticket, options=ticket.options | {TURN: str(turn)})
    books.submissions.add(ticket)
    jobs.enqueue(books, _job(ticket))
    return ticket


def answering(conditions: Conditions = USUAL) -> Work:
    """Return the task that answers queued models, measured as `conditions` say."""
    return Work(
        Queue.SUBMISSIONS,
        waiting=_waiting,
        run=lambda site, identifier: work(SYSTEM, site, identifier, conditions),
        put_back=_put_back,
    )


def _waiting(books: Books) -> list[Job]:
    by_turn = sorted(books.submissions.unfinished(), key=lambda each: each.turn)
    return [_job(ticket) for ticket in by_turn]


def _job(ticket: Ticket) -> Job:
    # The steps of a tenant keep their order: a model is answered after those handed in before.
    return Job(Queue.SUBMISSIONS, ticket.id, lock=_lock(ticket), turn=ticket.turn)


def _lock(ticket: Ticket) -> str:
    return f"{ticket.meter}/{ticket.tenant}"


@needs(Permission.OPERATE)
def work(actor: Actor, site: Site, identifier: str, usual: Conditions = USUAL) -> None:
    """Answer a queued submission; done twice, or after it was cancelled, it does nothing.

    It can be interrupted at any point and done again: the ledger charges the same bytes once.

    Raises:
        Denied: the actor is not the server itself.
        StorageError: the database is away; it waits again.
        FilesUnusable: its files are; it waits again.
    """
    ticket = _begin(site, identifier)
    if ticket is None:
        return
    space = site.space(ticket.meter)
    try:
        submitted = MODELS[ticket.kind].read(space.files.read(ticket.blob))
        conditions = replace(
            usual,
            hopeless=ticket.attempts > MOST_ATTEMPTS,
            reached=ticket.reached,
            reach=lambda on: _reach(on, identifier),
        )
        sender = replace(actor, tenant=ticket.tenant, user=ticket.user, token=ticket.token)
        signal = answer(
            sender,
            space,
            submitted,
            ticket.model,
            conditions,
            once="once" in ticket.options,
            note=ticket.options.get(NOTE, ""),
            link=ticket.options.get(LINK, ""),
        )
    except Exception as error:
        if not _refused(space, ticket, error):
            _put_back(site, identifier)
            raise
    else:
        with space.writing() as books:
            found = books.submissions.get(identifier) or ticket
            done = replace(found, state=SubmissionState.DONE)
            done = replace(done, generation=signal.generation, step=signal.step)
            books.submissions.change(replace(done, changed_at=space.now()))
    space.files.remove(ticket.blob)


def _begin(site: Site, identifier: str) -> Ticket | None:
    """Return a submission that is begun now; None if it is over, or was begun too often."""
    space = _space_of(site, identifier)
    if space is None:
        return None
    with space.writing() as books:
        ticket = books.submissions.get(identifier)
        if ticket is None or ticket.receipt.final:
            return None
        begun = replace(ticket, state=SubmissionState.RUNNING, attempts=ticket.attempts + 1)
        # It fails without hidden rows, so it tells nothing of them.
        hopeless = begun.attempts > MOST_ATTEMPTS and begun.reached is None
        if hopeless:
            begun = replace(begun, state=SubmissionState.REFUSED, problem=FAILED)
        now = space.clock()
        # Counted before anything is run: an attempt that kills the process counts, too.
        books.submissions.change(replace(begun, changed_at=stamp(now)))
        if not ticket.attempts:
            waited = (now - datetime.fromisoformat(ticket.created_at)).total_seconds()
            books.counts.add_wait(bisect_left(WAITS, waited), max(0.0, waited))
    if hopeless:
        space.files.remove(begun.blob)
        return None
    return begun


def _space_of(site: Site, identifier: str) -> Workspace | None:
    """Return the meter of a submission, if there is one.

    Whoever changes a submission holds its meter's lock and reads it again: the mark that it runs on
    hidden rows is written under that lock, and must not be overwritten.
    """
    with site.reading() as books:
        ticket = books.submissions.get(identifier)
    return None if ticket is None else site.space(ticket.meter)


def _reach(on: Measured, identifier: str) -> None:
    """Write down that a submission runs on hidden rows from now on, if there is an answer for it.

    Raises:
        Spent: others have used up the answers since it was begun; no hidden row was touched.
        MeterError: another worker, which took this one for dead, has ended it, or the last answer
            is set aside for another model.
    """
    with on.space.writing() as books:
        ticket = books.submissions.get(identifier)
        if ticket is not None and ticket.receipt.final:
            raise MeterError("another worker has ended the submission: nothing is left to do")
        state = on.space.state(books)
        standing = Standing.of(books, state, on.generation)
        if ticket is None:
            raise standing.spent()
        standing.check_reach(ticket.tenant, reached=ticket.reached is not None)
        if ticket.reached is None:
            if state.numbered(on.generation.number).phase is not Phase.ACTIVE:
                raise standing.spent()
            standing.check_telling(ticket.tenant)
        reaching = ticket.reaching(on.generation.number, on.validation.number)
        books.submissions.change(replace(reaching, changed_at=on.space.now()))


def _refused(space: Workspace, ticket: Ticket, error: Exception) -> bool:
    """Refuse a submission that failed, unless it is to be tried again; return whether it is over.

    What went wrong after hidden rows were touched may depend on them, so it is not told: the model
    runs again until the tries are used up, and then the answer is "no reading".
    """
    again = ticket.attempts <= MOST_ATTEMPTS
    # Without a database or files nothing was decided, however often it was tried.
    if isinstance(error, StorageError | FilesUnusable):
        return False
    if again and (isinstance(error, Unreachable) or not isinstance(error, MeterError)):
        return False
    problem = FAILED
    if isinstance(error, MeterError):
        problem = {"error": error.word, "message": str(error)}
    with space.writing() as books:
        found = books.submissions.get(ticket.id)
        if found is None or found.receipt.final:
            return True
        if again and found.reached is not None and not isinstance(error, Spent):
            return False
        refused = replace(found, state=SubmissionState.REFUSED, problem=problem)
        books.submissions.change(replace(refused, changed_at=space.now()))
    return True


def _put_back(site: Site, identifier: str) -> None:
    """Show that a submission waits again, if it is not finished.

    One that reached hidden rows is shown as running all the time: how often its worker died there
    must not be seen.
    """
    space = _space_of(site, identifier)
    if space is None:
        return
    with space.writing() as books:
        ticket = books.submissions.get(identifier)
        if ticket is not None and ticket.reached is None:
            queued = replace(ticket, state=SubmissionState.QUEUED, changed_at=space.now())
            books.submissions.change(queued)


@needs(Permission.SUBMIT)
def cancel(actor: Actor, space: Workspace, identifier: str) -> None:
    """Take a submission back before it was begun: it costs nothing.

    Raises:
        Denied: the actor may not submit for this tenant.
        NotFound: the tenant has no such submission.
        MeterError: it was begun.
    """
    receipt(actor, space, identifier)  # whether there is one
    with space.writing() as books:
        ticket = _ticket(books, actor, space, identifier)
        # Once it was begun it may have run on hidden rows, and whoever watched the worker may have
        # learned from it. Taken back, that would have been free.
        if ticket is None or ticket.state is not SubmissionState.QUEUED or ticket.attempts > 0:
            raise MeterError("the submission was begun: it can no longer be cancelled")
        books.submissions.remove(identifier)
    space.files.remove(ticket.blob)


@needs(Permission.SEE_SIGNALS, Permission.SUBMIT)
def receipts(actor: Actor, space: Workspace) -> list[Receipt]:
    """Return a tenant's submissions, the newest first.

    Raises:
        Denied: the actor may neither submit for this tenant nor see its signals.
    """
    with space.reading() as books:
        tickets = books.submissions.of(space.meter or "", actor.acting_for)
        told = list(_answered(books, actor, space))
    known = {(ticket.generation, ticket.step) for ticket in tickets}
    found = [each for each in told if (each.generation, each.step) not in known]
    found += [ticket.receipt for ticket in tickets]
    return sorted(found, key=lambda receipt: (receipt.created_at, receipt.id), reverse=True)


@needs(Permission.SEE_SIGNALS, Permission.SUBMIT)
def unanswered(actor: Actor, space: Workspace) -> list[Receipt]:
    """Return a tenant's submissions that wait, run or were refused, the newest first.

    The answers are not read, however many there are.

    Raises:
        Denied: the actor may neither submit for this tenant nor see its signals.
    """
    with space.reading() as books:
        tickets = books.submissions.of(space.meter or "", actor.acting_for)
    found = [each.receipt for each in tickets if each.state is not SubmissionState.DONE]
    return sorted(found, key=lambda receipt: (receipt.created_at, receipt.id), reverse=True)


@needs(Permission.SEE_SIGNALS, Permission.SUBMIT)
def receipt(actor: Actor, space: Workspace, identifier: str) -> Receipt:
    """Return a submission of the actor's tenant.

    Raises:
        Denied: the actor may neither submit for this tenant nor see its signals.
        NotFound: the tenant has no such submission.
    """
    with space.reading() as books:
        ticket = _ticket(books, actor, space, identifier)
        if ticket is not None:
            return ticket.receipt
        for found in _answered(books, actor, space):
            if found.id == identifier:
                return found
    raise NotFound(f"submission {identifier[:32]!r}: none of yours with that id")


@needs(Permission.SEE_SIGNALS, Permission.SUBMIT)
def signal_for(actor: Actor, space: Workspace, receipt: Receipt) -> Signal | None:
    """Return the signal that a submission was answered with, if the actor may see it.

    Raises:
        Denied: the actor may neither submit for this tenant nor see its signals.
    """
    if receipt.state is not SubmissionState.DONE or not _sees_signals(actor):
        return None
    view = show_session(actor, space, receipt.generation)
    return next(signal for signal in view.signals if signal.step == receipt.step)


def _sees_signals(actor: Actor) -> bool:
    """Whether the actor sees the signals of the tenant it acts for; runners do not."""
    try:
        actor.granted(Permission.SEE_SIGNALS)
    except Denied:
        return False
    return True


def _answered(books: Books, actor: Actor, space: Workspace) -> Iterator[Receipt]:
    state = space.state(books)
    for test_set in state.generations:
        for entry in books.entries.all(test_set.meter, test_set.number, actor.tenant):
            yield _receipt_of(test_set.meter, entry, shown_step(state.spec, entry))


def _ticket(books: Books, actor: Actor, space: Workspace, identifier: str) -> Ticket | None:
    found = books.submissions.get(identifier)
    if found is None or (found.meter, found.tenant) != (space.meter, actor.tenant):
        return None
    return found


def _receipt_of(meter: str, told: Entry | Signal, step: int) -> Receipt:
    """Return the receipt of predictions that were answered; `step` is the one that people see.

    They never had a row in the queue. Their id is a hash of their place in the ledger, so that it
    can be found again from the entry alone and repeating a submission gives the same receipt.
    """
    told_at = stamp(told.told_at) if isinstance(told, Signal) else told.told_at
    place = f"{meter}/{told.generation}/{told.tenant}/{step}"
    return Receipt(
        id=hashlib.sha256(place.encode()).hexdigest()[:32],
        state=SubmissionState.DONE,
        kind="predictions",
        model=told.model,
        tenant=told.tenant,
        generation=told.generation,
        step=step,
        created_at=told_at,
    )
