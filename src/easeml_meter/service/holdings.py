"""The files that the books of a meter name: which they are, and whether each is there and whole.

Books without them are sound and worth little: nothing can be measured or released any more.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import chain

from easeml_meter.core.history import MeterState
from easeml_meter.core.lifecycle import Phase
from easeml_meter.core.model import Event, TestSet
from easeml_meter.errors import MeterError, VaultError
from easeml_meter.service.actor import Actor, Permission, needs
from easeml_meter.service.place import ORDERS, TEST_SETS, Site, Workspace
from easeml_meter.service.submissions.measuring import open_sealed
from easeml_meter.service.submissions.waiting import order_files
from easeml_meter.service.testsets.release import TEST_SET, released_folder
from easeml_meter.service.testsets.windows import batch_files
from easeml_meter.storage.books import Books
from easeml_meter.tables.files import file_digest
from easeml_meter.vault.keys import check_wrapped

_SEALED, _WRAPPED = ".sealed", ".age"

Check = Callable[[str], str | None]
"""Reads the file of a name, and says what is wrong with it, if anything is."""


def named_files(books: Books, state: MeterState) -> set[str]:
    """Return the files that the books name; folders, which end in a slash, go as a whole."""
    meter, rows = state.meter.id, state.generations
    named = {f"{TEST_SETS}/", f"{ORDERS}/"} | books.copies.files(meter)
    named |= set(batch_files(state))
    # Parts that were merged into a test set are gone.
    waiting = [row for row in rows if row.rows is None]
    named |= {part.blob for row in waiting for part in books.parts.all(row)}
    released = [row.number for row in rows if row.phase is Phase.RELEASED]
    return named | {f"{released_folder(number)}/" for number in released}


@needs(Permission.OPERATE)
def faults(_: Actor, space: Workspace) -> list[str]:
    """Read every file that the books name; say of each what is wrong with it, if anything is.

    What is encrypted must open. Of test sets that were archived, or released and lie there in the
    clear, sealed files and kept submissions may be gone: nothing is measured on them any more.

    Raises:
        NotFound: there is no such meter.
    """
    files = space.files
    with space.reading() as books:
        checks, needed = _checks(space, books, space.state(books))
    for folder in (TEST_SETS, ORDERS):
        # The books do not name the notices to labelers.
        lying = [f"{folder}/{name}" for name in files.names(folder) if name.endswith(_WRAPPED)]
        checks = dict.fromkeys(lying, partial(_check_wrapped, space)) | checks
    there = {name for name in checks if files.exists(name)}
    # Whoever is told of one file only is told of the worst.
    lost = sorted(needed - there, key=lambda name: (not name.endswith(_SEALED), name))
    missing = [f"{name} is missing" for name in lost]
    found = (checks[name](name) for name in sorted(there))
    return missing + [each for each in found if each is not None]


def _checks(space: Workspace, books: Books, state: MeterState) -> tuple[dict[str, Check], set[str]]:
    """Return how each file is checked that the books name, and which of them must be there."""
    meter = state.meter.id
    checks: dict[str, Check] = {}
    needed: set[str] = set()
    # A new key changes the end of a sealed file, and with it the digest of all of it.
    same_key = not books.audit.of(meter, Event.KEY_CHANGED)
    for row in state.generations:
        kept = {entry.blob for entry in books.entries.all(meter, row.number) if entry.blob}
        wrapped = kept.union(order_files(books, row))
        own: dict[str, Check] = dict.fromkeys(wrapped, partial(_check_wrapped, space))
        if row.blob:
            known = (row.manifest or {}).get("sha256") if same_key else None
            own[row.blob] = partial(_check_sealed, space, row, known)
        elif row.rows is None:
            parts = [part.blob for part in books.parts.all(row)]
            own |= dict.fromkeys(parts, partial(_check_sealed, space, row, None))
        checks |= own
        if not _is_over(space, state, row):
            needed |= own.keys()
    for each in books.validation.all(meter):
        checks[each.blob] = partial(_check_plain, space, each.digest)
        needed.add(each.blob)
    return checks, needed.union(batch_files(state))


def _is_over(space: Workspace, state: MeterState, test_set: TestSet) -> bool:
    """Whether nothing needs what is sealed of a test set any more."""
    if test_set.phase is Phase.ARCHIVED:
        return True
    # The next rows join those of a window, or of a set that is topped up, also after its release.
    joined = state.spec.window is not None or state.spec.top_up is not None
    plain = f"{released_folder(test_set.number)}/{TEST_SET}"
    return test_set.phase is Phase.RELEASED and not joined and space.files.exists(plain)


def _check_sealed(space: Workspace, test_set: TestSet, known: str | None, name: str) -> str | None:
    try:
        with open_sealed(space, test_set, space.files.location(name)) as opened:
            found = opened.verify_bytes()
    except VaultError:
        return f"{name} is damaged: it does not open"
    if known in (None, found):
        return None
    return f"{name} is not the one that the books name: it has another SHA-256"


def _check_wrapped(space: Workspace, name: str) -> str | None:
    try:
        with space.files.local(name) as path:
            check_wrapped(path, space.identity)
    except VaultError:
        return f"{name} is damaged: it does not open"
    return None


def _check_plain(space: Workspace, digest: str, name: str) -> str | None:
    with space.files.local(name) as path:
        found = file_digest(path)
    return None if found == digest else f"{name} is damaged: it has another SHA-256"


@needs(Permission.OPERATE)
def check_mounted(_: Actor, site: Site) -> None:
    """Refuse to work beside a folder that has nothing of what the books name.

    All versions wrote test sets and validation sets before the books named them. One that is there
    is enough: if some are lost, the other meters go on.

    Raises:
        MeterError: none is there; a share is not mounted, or the setting names another place.
    """
    with site.reading() as books:
        named = (
            f"meters/{row.id}/{name}"
            for row in books.meters.all()
            for name in _handed_in(site.space(row.id).state(books))
        )
        first = next(named, None)
        if first is None or any(map(site.files.exists, chain([first], named))):
            return
    raise MeterError(
        f"{site.files.location('').rstrip('/')}: none of the files is there that the books name "
        f"(such as {first}): mount their folder, correct the setting files, or bring them back "
        "with meter restore"
    )


def _handed_in(state: MeterState) -> list[str]:
    """Return the files of test sets, and of the validation set in use."""
    sets = [row.blob for row in state.generations if row.blob and row.phase is not Phase.ARCHIVED]
    return [*sets, *([state.validation.blob] if state.validation else [])]
