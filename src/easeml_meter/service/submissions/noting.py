"""Notes on submissions: a few words and a link, to a commit or a run, beside an answer.

A note is a link of the audit chain and nothing else. The newest one of a submission is shown; those
before it stay in the chain.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from easeml_meter.core.history import MeterState, entered_step, shown_step
from easeml_meter.core.model import AuditLink, Entry, Event, TestSet
from easeml_meter.core.people import Role
from easeml_meter.core.submissions import Note
from easeml_meter.core.views import Signal
from easeml_meter.errors import InvalidInput, NotFound, invalid
from easeml_meter.service.actor import Actor, Permission, needs
from easeml_meter.service.place import Workspace
from easeml_meter.storage.books import Books

MOST_NOTES = 10
"""Notes on one submission, ever: none of them leaves the chain, which everyone reads whole."""


@needs(Permission.NOTE)
def note(
    actor: Actor,
    space: Workspace,
    submission: int | str,
    *,
    text: str = "",
    link: str = "",
    generation: int | None = None,
) -> Entry:
    """Note something on a submission of the actor's team, by its step or the name of its model.

    Runners, who see no answers, write on what they have submitted themselves. Without a text and a
    link, the note is taken away. Without a `generation`, it is about the current test set; a step
    of a rolling one says its window itself. The step of what is returned is the one people see.

    Raises:
        InvalidInput: the text is too long, the link is none, or there are too many notes.
        NotFound: there is no such submission.
    """
    said = Note(0, 0, text.strip(), link.strip(), "")  # refused before anybody has to wait
    with space.writing() as books:
        state = space.state(books)
        test_set = _meant(state, submission, generation)
        if isinstance(submission, int):
            submission = entered_step(state.spec, test_set.number, submission)
        entry = _entry(actor, books, test_set, state.tenant(actor.acting_for), submission)
        place = {"generation": entry.generation, "tenant": entry.tenant, "step": entry.step}
        before = [
            each
            for each in books.audit.of(test_set.meter, Event.NOTED)
            if place.items() <= each.details.items()
        ]
        if before and (before[-1].details["text"], before[-1].details["link"]) == (
            said.text,
            said.link,
        ):
            return replace(entry, step=shown_step(state.spec, entry))
        if len(before) >= MOST_NOTES:
            raise invalid("note", said.text[:40], f"a submission has at most {MOST_NOTES} notes")
        details = {**place, "text": said.text, "link": said.link, **actor.by_user}
        books.audit.append(test_set.meter, space.now(), Event.NOTED, details)
        return replace(entry, step=shown_step(state.spec, entry))


def _meant(state: MeterState, submission: int | str, generation: int | None) -> TestSet:
    if generation is None and state.spec.window is not None and isinstance(submission, int):
        generation = 1 + (submission - 1) // state.spec.submissions
    return state.current if generation is None else state.numbered(generation)


def _entry(
    actor: Actor, books: Books, test_set: TestSet, tenant: int, submission: int | str
) -> Entry:
    meter, number = test_set.meter, test_set.number
    if isinstance(submission, int):
        at_step = books.entries.at(meter, number, tenant, submission)
        known = [] if at_step is None else [at_step]
    else:
        known = books.entries.of_models(meter, number, [tenant], [submission])
    seeing = any(role is not Role.RUNNER and own in (0, tenant) for role, own in actor.seats)
    found = [each for each in known if seeing or each.user == actor.user]
    if not found:
        whose = "no submission" if seeing else "no submission of yours"
        raise NotFound(
            f"submission {str(submission)[:40]!r}: test set {number} has answered {whose} of this "
            "step or name"
        )
    return found[-1]


def notes_on(
    links: Sequence[AuditLink], signals: Sequence[Signal], tenant: int
) -> tuple[Note, ...]:
    """Return the newest note on each of a tenant's answers, of all that were ever written."""
    shown = {
        (each.generation, entered_step(each.spec, each.generation, each.step)): each.step
        for each in signals
    }
    found: dict[tuple[int, int], Note] = {}
    for link in links:
        said = link.details
        place = (said.get("generation"), said.get("step"))
        if said.get("tenant") == tenant and place in shown:
            # What was changed by hand is for the audit to tell, and for no page to link to.
            with suppress(InvalidInput, KeyError, AttributeError, TypeError):
                note = Note(place[0], shown[place], said["text"], said["link"], link.at)
                found[place] = note
    return tuple(note for _, note in sorted(found.items()) if note.text or note.link)
