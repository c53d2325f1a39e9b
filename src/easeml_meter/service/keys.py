"""A new key takes the place of the one that everything is sealed to.

The key file opens everything at any moment, so that this can be interrupted anywhere and begun
again: first a new key that knows the former one is put in its place, then everything is sealed to
the new one, and in the end it forgets the former.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from easeml_meter.core.model import Event
from easeml_meter.errors import InvalidInput, VaultError
from easeml_meter.service.actor import Actor, Permission, needs
from easeml_meter.service.backup import Place, check_mounted
from easeml_meter.service.place import ORDERS, RECIPIENT, TEST_SETS, Site, Workspace
from easeml_meter.storage.books import Books
from easeml_meter.vault.containers import rewrap, secret_of
from easeml_meter.vault.keys import Identity, unwrap, wrap

_SEALED = ".sealed"
_WRAPPED = ".age"
_FOLDERS = (TEST_SETS, "parts", "predictions", ORDERS)
"""Folders of a meter with files that are sealed to the key."""


@dataclass(frozen=True)
class Rotated:
    """What became of a key."""

    recipient: str
    """The public half of the new one."""
    before: str
    """That of the former one."""
    former: Path
    """Where the former one is kept: backups made before need it."""
    files: int
    """Files that were sealed again; after an interruption, those that were left."""
    unopened: tuple[str, ...]
    """Files that neither key opens: they are damaged, and were so before."""


@needs(Permission.OPERATE)
def rotate_key(actor: Actor, place: Place, key: Path, site: Site | None = None) -> Rotated:
    """Let a new key take the place of the one in a file, for all that is sealed to it.

    No server may use the place meanwhile. `site` is the server's, where there is one. Done again
    after an interruption, it goes on; the chain of every meter says that its key was changed.

    Raises:
        InvalidInput: the key file cannot be read, or does not belong to this place.
        MeterError: the files of the site are away, or something could not be written; do it again.
    """
    if site is not None:
        # What is away would stay sealed to the former key, and nobody would know.
        check_mounted(actor, site)
    identity = Identity.read(key)
    if place.identity.recipient != identity.recipient:
        raise InvalidInput(f"{key}: it was changed meanwhile: try again")
    if identity.former is None:
        identity = identity.successor()
        # On disk, with the former key, before anything is sealed to the new one. In a folder,
        # others may be writing: under the lock they find another key than before, and are refused.
        with place.store.writing():
            identity.replace(key)
    former = identity.former
    if former is None:
        raise ValueError("a successor knows its former key")
    if site is not None:
        site.files.put(RECIPIENT, f"{identity.recipient}\n".encode())
    with place.store.reading() as books:
        meters = [row.id for row in books.meters.all()]
    changed, unopened = 0, list[str]()
    for meter in meters:
        space = place.space(meter)
        for name in _sealed_files(space):
            try:
                changed += _reseal(space, name, identity)
            except VaultError:
                unopened.append(name)
        with place.store.writing(meter) as books:
            _note(space, books, meter, identity.recipient, former.recipient)
    kept = key.with_name(f"{key.name}.{former.recipient[:12]}")
    if not kept.exists():
        former.write(kept)
    # Last: until here, both keys open what an interruption would leave behind.
    identity.alone().replace(key)
    return Rotated(identity.recipient, former.recipient, kept, changed, tuple(unopened))


def _sealed_files(space: Workspace) -> Iterator[str]:
    for folder in _FOLDERS:
        for name in space.files.names(folder):
            if name.endswith((_SEALED, _WRAPPED)):
                yield f"{folder}/{name}"


def _reseal(space: Workspace, name: str, identity: Identity) -> bool:
    """Seal a file to the new key alone; return whether that was left to do."""
    files, alone = space.files, identity.alone()
    if name.endswith(_SEALED):
        with suppress(VaultError):
            secret_of(files.location(name), alone, name)
            return False
        with files.local(name) as source, files.writing(name) as path, path.open("wb") as stream:
            rewrap(source, identity, identity.recipient, stream)
        return True
    content = files.read(name)
    if (fresh := _rewrapped(content, identity)) is None:
        return False
    files.put(name, fresh)
    return True


def _rewrapped(content: bytes, identity: Identity) -> bytes | None:
    """Return what is wrapped, for the new key alone; None if it is already."""
    with suppress(VaultError):
        unwrap(content, identity.alone())
        return None
    return wrap(unwrap(content, identity), [identity.recipient])


def _note(space: Workspace, books: Books, meter: str, recipient: str, before: str) -> None:
    """Enter the change into the chain, once.

    The chain has the digests of what labelers were told, as it was sealed: here are the new ones.
    """
    links = [link for link in books.audit.all(meter) if link.event == Event.KEY_CHANGED]
    if links and links[-1].details["recipient"] == recipient:
        return
    told = [each for each in space.files.names(TEST_SETS) if each.endswith(_WRAPPED)]
    contents = (space.files.read(f"{TEST_SETS}/{name}") for name in told)
    digests = sorted(hashlib.sha256(content).hexdigest() for content in contents)
    details = {"recipient": recipient, "before": before, "digests": digests}
    books.audit.append(meter, space.now(), Event.KEY_CHANGED, details)
