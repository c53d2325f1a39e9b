"""The audit: what was disclosed, in a hash chain; who may see it, and what each role reads of it.

Of answers, developers read those of their own tenant, labelers all, admins only that some were
given. The chain is verified against the books and the journals.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from easeml_meter.core.history import Delivered, Folded, MeterState, delivered, fold
from easeml_meter.core.lifecycle import Phase
from easeml_meter.core.model import DRAWS, AuditLink, Entry, Event, TestSet
from easeml_meter.core.people import Role
from easeml_meter.core.views import Audit
from easeml_meter.errors import InvalidInput
from easeml_meter.promise.questions import is_band
from easeml_meter.service.actor import Actor, Permission, needs
from easeml_meter.service.place import TEST_SETS, Workspace
from easeml_meter.storage.books import Books
from easeml_meter.storage.books.audit import broken_link
from easeml_meter.storage.journal import SUFFIX, Journal
from easeml_meter.vault.draws import read_draws

Told = tuple[int, int, int]
"""An answer: number of the test set, tenant, step."""


@needs(Permission.AUDIT)
def newest_link(_actor: Actor, space: Workspace) -> int:
    """Return the number of the newest link: it grows with all that is disclosed or changed."""
    with space.reading() as books:
        return books.audit.newest(space.meter or space.state(books).meter.id)


@needs(Permission.AUDIT)
def verify(actor: Actor, space: Workspace) -> Audit:
    """Verify the chain, the books and the journals against each other."""
    # The journals first: an answer is committed before its line is written, so whatever they hold
    # by now is in the books that are read next, also while answers are given.
    journals = _journals(space)
    with space.reading() as books:
        state = space.state(books)
        links = books.audit.all(state.meter.id)
        entered = _entered(books, state)
        wrong = list(_wrong_accounts(books, state))
    told = set(entered)
    problems = [*_broken(links), *wrong, *_illegible(links)]
    # What cannot be read was named above; everything else is still compared.
    links = [link for link in links if _legible(link)]
    problems += _edited(state, entered, links)
    problems += _wrong_draws(state, entered, links)
    problems += _unknown_answers(journals, state.generations, entered)
    listed = {each for link in links for each in _answers_in(link)}
    problems += _put_back(links)
    if unlisted := told - listed:
        problems.append(f"{len(unlisted)} answers were entered without an audit link")
    if unentered := listed - told:
        problems.append(f"{len(unentered)} audited answers are missing from the books")
    return Audit(_readable(actor, links), tuple(problems), tuple(_restorations(links)))


def _entered(books: Books, state: MeterState) -> dict[Told, Entry]:
    return {
        (test_set.number, entry.tenant, entry.step): entry
        for test_set in state.generations
        for entry in books.entries.all(state.meter.id, test_set.number)
    }


def _edited(
    state: MeterState, entered: dict[Told, Entry], links: Sequence[AuditLink]
) -> Iterator[str]:
    """Replay the chain, and compare what it says of settings, test sets and answers."""
    phases: dict[int, Phase] = {}
    sizes: dict[int, int | None] = {}
    for link in links:
        details = link.details
        if link.event == Event.CREATED and details.get("settings") != state.meter.settings:
            yield "the settings are not those the meter was made with: the books were changed"
        elif link.event in _PHASES:
            phases[details["generation"]] = _PHASES[Event(link.event)]
            if link.event == Event.TEST_SET_ADDED:
                sizes[details["generation"]] = details.get("rows")
        elif link.event == Event.TOLD:
            number = details["generation"], details["tenant"], details["step"]
            if number in entered and not _agrees(entered[number], details):
                yield (
                    f"test set {number[0]}, team {number[1]}, step {number[2]}: the books show "
                    "another answer than the chain: they were changed by hand"
                )
    for test_set in state.generations:
        if phases.get(test_set.number) is not test_set.phase:
            yield f"test set {test_set.number} is {test_set.phase}, but the chain says otherwise"
        if test_set.rows != sizes.get(test_set.number):
            yield f"test set {test_set.number} has another number of rows than the chain says"


_PHASES = {
    Event.REQUESTED: Phase.REQUESTED,
    Event.TEST_SET_ADDED: Phase.ACTIVE,
    Event.SPENT: Phase.SPENT,
    Event.RELEASED: Phase.RELEASED,
    Event.ARCHIVED: Phase.ARCHIVED,
}


def _agrees(entry: Entry, link: Mapping[str, Any]) -> bool:
    return all(link.get(name) in (None, getattr(entry, name)) for name in _WITNESSED)


_WITNESSED = ("answer", "model", "submission", "first_edge", "old", "note", "link")
"""What links and journals say of an answer, besides which one it is; links say nothing of notes."""


def _wrong_accounts(books: Books, state: MeterState) -> Iterator[str]:
    """Compare each stored account with the fold over all entries, which it only copies."""
    for test_set in state.generations:
        accounts = books.accounts.all(state.meter.id, test_set.number)
        try:
            on = delivered(state.spec, test_set) if accounts else None
        except InvalidInput:
            yield f"test set {test_set.number} has too few rows for the settings"
            continue
        for tenant, stored in accounts.items():
            entries = books.entries.all(state.meter.id, test_set.number, tenant)
            if on is not None and stored != _folded(on, entries, tenant):
                yield (
                    f"test set {test_set.number}: the stored account of team {tenant} is not "
                    "what its entries come to: the books were changed by hand"
                )


def _folded(on: Delivered, entries: Sequence[Entry], tenant: int) -> Folded | None:
    """Fold entries, if they are answers that this meter can give."""
    try:
        return fold(on, entries, tenant)
    except InvalidInput:
        return None


def _wrong_draws(
    state: MeterState, entered: dict[Told, Entry], links: Sequence[AuditLink]
) -> Iterator[str]:
    """Draw the edges of released test sets again, with the secret that was fixed beforehand."""
    apart = state.spec.meter.question.draws
    committed: dict[int, str] = {}
    for link in links if apart is not None else ():
        if link.event == Event.TEST_SET_ADDED:
            committed[link.details["generation"]] = link.details.get(DRAWS, "")
        if apart is None or link.event != Event.RELEASED:
            continue
        number, draws = link.details["generation"], read_draws(link.details.get(DRAWS))
        if draws is None or draws.commitment != committed.get(number):
            yield (
                f"test set {number}: the published secret is not the one that its edges had to be "
                "drawn with"
            )
            continue
        for (generation, tenant, step), entry in entered.items():
            band_told = generation == number and is_band(entry.answer)
            if band_told and entry.first_edge != str(draws.first_edge(entry, apart)):
                yield (
                    f"test set {number}, team {tenant}, step {step}: the edges are not those that "
                    "the published secret draws"
                )


def _broken(links: list[AuditLink]) -> Iterator[str]:
    number = broken_link(links)
    if number is not None:
        yield f"audit link {number} does not match: the books were changed by hand"


def _illegible(links: list[AuditLink]) -> Iterator[str]:
    """Name links that cannot be replayed: only a change by hand leaves out what an event says."""
    for link in links:
        if not _legible(link):
            yield f"audit link {link.number} ({link.event}) was emptied or changed by hand"


def _legible(link: AuditLink) -> bool:
    said = _SAID.get(link.event, {})
    return all(isinstance(link.details.get(name), kind) for name, kind in said.items())


def _journals(space: Workspace) -> dict[str, list[Entry]]:
    """Return the answers in all journals, by the fingerprints of their test sets."""
    names = [name for name in space.files.names(TEST_SETS) if name.endswith(SUFFIX)]
    return {
        name.removesuffix(SUFFIX): Journal(space.files, f"{TEST_SETS}/{name}").read()
        for name in names
    }


def _unknown_answers(
    journals: Mapping[str, Sequence[Entry]],
    test_sets: Sequence[TestSet],
    entered: dict[Told, Entry],
) -> Iterator[str]:
    """Compare with the journals, which survive a database that was deleted or put back."""
    known = {each.fingerprint: each.number for each in test_sets}
    for fingerprint, journal in journals.items():
        number = known.get(fingerprint)
        if number is None:
            yield (
                f"a test set that these books do not know has answered {len(journal)} "
                "submissions: the books were replaced"
            )
            continue
        others = [
            each
            for each in journal
            if (known_entry := entered.get((number, each.tenant, each.step)))
            and not _agrees(known_entry, asdict(each))
        ]
        if others:
            yield (
                f"test set {number}: {len(others)} answers in the books are not those of the "
                "journal: the books were changed by hand"
            )
        missing = [each for each in journal if (number, each.tenant, each.step) not in entered]
        if missing:
            yield (
                f"test set {number} has given {len(missing)} answers that these "
                "books do not know: an older copy was put back"
            )


def _put_back(links: Iterable[AuditLink]) -> Iterator[str]:
    """Yield where an older copy of the books took their place, and no restore says so."""
    for link in links:
        if link.event == Event.BOOKS_BEHIND and not link.details.get("restoring"):
            count = len(link.details["tenant_and_step"])
            yield f"{link.at}: {count} answers were missing and came from the journal"


def _restorations(links: Iterable[AuditLink]) -> Iterator[str]:
    """Yield when the books came from a backup; of a meter without answers nothing is to be said."""
    back = 0
    for link in links:
        details = link.details
        if link.event == Event.BOOKS_BEHIND and details.get("restoring"):
            back += len(details["tenant_and_step"])
        elif link.event == Event.RESTORED:
            at, made = (
                str(each)[:16].replace("T", " ") for each in (link.at, details["backup_at"])
            )
            said = "no answer is missing"
            if not details["witnessed"]:
                said = "no journal was here: answers given in between are unknown"
            elif back:
                said = f"{back} answer{'s' * (back > 1)} came back from the journal"
            if details["answers_now"] or not details["witnessed"]:
                yield f"restored on {at} from the backup of {made}; {said}"
            back = 0


def _answers_in(link: AuditLink) -> list[Told]:
    details = link.details
    if link.event == Event.TOLD:
        return [(details["generation"], details["tenant"], details["step"])]
    if link.event == Event.BOOKS_BEHIND:
        return [(details["generation"], *each) for each in details["tenant_and_step"]]
    return []


def _readable(actor: Actor, links: list[AuditLink]) -> tuple[AuditLink, ...]:
    if any(role in (Role.LABELER, Role.OWNER) for role, _ in actor.seats):
        return tuple(links)
    own = {tenant for role, tenant in actor.seats if role is Role.DEVELOPER}
    hidden = {link.number for link in links if not _shown_to(own, link)}
    if not hidden:
        return tuple(links)
    # Each digest covers the link before: any one of them would let what is hidden be guessed.
    return tuple(
        replace(
            link,
            digest="",
            previous="",
            details={} if link.number in hidden else link.details,
        )
        for link in links
    )


def _shown_to(own: set[int], link: AuditLink) -> bool:
    """Whether developers of these tenants may read a link: their own answers and hand-overs."""
    if link.event in _HAND_OVERS:
        return bool({link.details["giver"], link.details["receiver"]} & own)
    # Only a model that passed is promoted.
    if link.event in _PROMOTIONS:
        return link.details["tenant"] in own
    return {tenant for _, tenant, _ in _answers_in(link)} <= own


_HAND_OVERS = (
    Event.HAND_OVER_REQUESTED,
    Event.HAND_OVER_AGREED,
    Event.HAND_OVER_DECLINED,
    Event.HANDED_OVER,
    Event.HAND_OVER_MISSING,
)
_PROMOTIONS = (Event.PROMOTED, Event.PROMOTION_MISSING)
_SAID: dict[str, dict[str, type]] = {
    **{each: {"generation": int} for each in _PHASES},
    Event.BATCH_RELEASED: {"generation": int, "rows": int},
    Event.TOPPED_UP: {"generation": int, "rows": int},
    Event.TOLD: {"generation": int, "tenant": int, "step": int},
    **{each: {"generation": int, "tenant": int, "step": int} for each in _PROMOTIONS},
    Event.BOOKS_BEHIND: {"generation": int, "tenant_and_step": list},
    Event.RESTORED: {"backup_at": str, "answers_now": int, "witnessed": bool},
    **{each: {"giver": int, "receiver": int} for each in _HAND_OVERS},
}
"""What the audit reads of the links of each event."""
