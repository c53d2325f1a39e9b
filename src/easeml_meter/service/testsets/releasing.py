"""Releases at a server: at once, or by a worker where models have to run once more.

A model may run for minutes, and it is code of others: neither belongs into a request. What is
wrong with a release is told to whoever asks for it; only the measuring waits.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import replace

from easeml_meter.core.lifecycle import Phase
from easeml_meter.core.model import ReleaseRequest
from easeml_meter.core.submissions import next_turn
from easeml_meter.core.views import SessionView
from easeml_meter.errors import FilesUnusable, MeterError, NotFound, StorageError
from easeml_meter.service.actor import SYSTEM, Actor, Permission, needs
from easeml_meter.service.jobs import Work
from easeml_meter.service.place import Site, Workspace
from easeml_meter.service.submissions.kinds import model_kept
from easeml_meter.service.submissions.measuring import suffix_of
from easeml_meter.service.submissions.queue import FAILED, MOST_ATTEMPTS
from easeml_meter.service.testsets.release import choose, hand_out
from easeml_meter.storage import jobs
from easeml_meter.storage.books import Books
from easeml_meter.storage.jobs import Job, Queue

Draw = Callable[[SessionView], str]


@needs(Permission.RELEASE)
def request_release(
    actor: Actor, space: Workspace, number: int, *, draw: Draw
) -> ReleaseRequest | None:
    """Release the oldest spent test set now and return None, or queue it if it has models.

    Asked for again while it waits, it is the same request; after it was given up, a new one; and
    once it is released, nothing is left to do.

    Raises:
        NotFound: there is no test set of that number.
        WrongPhase: it cannot be released, for a reason that `release` names.
    """
    with space.reading() as books:
        if space.state(books).numbered(number).phase is Phase.RELEASED:
            return None
        before = books.releases.of(space.meter or "", number)
    if before is not None and before.problem is None:
        return before
    chosen = choose(actor, space, number)
    if not any(model_kept(suffix_of(entry.blob)) for entry in chosen.entries):
        hand_out(space, chosen, draw)
        return None
    meter = chosen.test_set.meter
    with space.writing() as books:
        # Another labeler may have asked while this one's request was examined.
        before = books.releases.of(meter, number)
        if before is not None and before.problem is None:
            return before
        made = ReleaseRequest(
            id=secrets.token_hex(16),
            meter=meter,
            generation=number,
            user=actor.user,
            # It takes turns with the teams, as if it were one more of them.
            turn=next_turn(books.submissions.unfinished(), meter, 0),
            attempts=0,
            problem=None,
            at=space.now(),
        )
        books.releases.put(made)
        jobs.enqueue(books, _job(made))
    return made


@needs(Permission.RELEASE)
def requested_release(_: Actor, space: Workspace, number: int) -> ReleaseRequest | None:
    """Return the request for a release that waits or was given up; None if it is released.

    Raises:
        NotFound: there is no test set of that number, or nobody asked for its release.
    """
    with space.reading() as books:
        test_set = space.state(books).numbered(number)
        if test_set.phase is Phase.RELEASED:
            return None
        if (found := books.releases.of(test_set.meter, number)) is not None:
            return found
    raise NotFound(f"test set {number} is {test_set.phase}: nobody has asked for its release")


def releasing(draw: Draw) -> Work:
    """Return the task that releases test sets with models, with a report drawn of each."""
    return Work(
        Queue.RELEASES,
        waiting=_waiting,
        run=lambda site, identifier: release_queued(SYSTEM, site, identifier, draw),
    )


def _waiting(books: Books) -> list[Job]:
    return [_job(request) for request in books.releases.waiting()]


def _job(request: ReleaseRequest) -> Job:
    return Job(Queue.RELEASES, request.id, turn=request.turn)


@needs(Permission.OPERATE)
def release_queued(actor: Actor, site: Site, identifier: str, draw: Draw) -> None:
    """Carry out a release that waits; done twice, or after it was given up, it does nothing.

    It can be interrupted at any point and done again: the phase changes last.

    Raises:
        Denied: the actor is not the server itself.
        StorageError: the database is away; it waits again.
        FilesUnusable: the files are; it waits again.
    """
    request = _begin(site, identifier)
    if request is None:
        return
    space = site.space(request.meter)
    try:
        if request.attempts > MOST_ATTEMPTS:
            raise _GivenUp
        sender = replace(actor, user=request.user)
        hand_out(space, choose(sender, space, request.generation), draw)
    except (StorageError, FilesUnusable):
        raise
    except _GivenUp:
        _end(site, request, FAILED)
    except MeterError as error:
        _end(site, request, {"error": error.word, "message": str(error)})
    else:
        _end(site, request, None)


class _GivenUp(Exception):
    """A release failed so often that another try would fail as well."""


def _begin(site: Site, identifier: str) -> ReleaseRequest | None:
    with site.writing() as books:
        request = books.releases.get(identifier)
        if request is None or request.problem is not None:
            return None
        # Counted before anything is run: an attempt that kills the process counts, too.
        begun = replace(request, attempts=request.attempts + 1)
        books.releases.change(begun)
    return begun


def _end(site: Site, request: ReleaseRequest, problem: dict[str, str] | None) -> None:
    """Write down why a release was given up; where the test set is released, nothing is left.

    A worker that was taken for dead may have released it meanwhile, or have died just after.
    """
    with site.writing() as books:
        test_set = site.space(request.meter).state(books).numbered(request.generation)
        if problem is None or test_set.phase is Phase.RELEASED:
            books.releases.remove(request.id)
        else:
            books.releases.change(replace(request, problem=problem))
