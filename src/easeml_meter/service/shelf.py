"""Backups that are made on a schedule: each is verified before an older one is dropped."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from pathlib import Path

from easeml_meter.errors import DamagedBackup, MeterError
from easeml_meter.service.actor import Actor, Permission, needs
from easeml_meter.service.backup import Contents, Place, shelve, thin
from easeml_meter.service.restore import check_backup
from easeml_meter.storage.files import Files
from easeml_meter.storage.shelf import Shelf

NOTE = "server.backup"
"""When the newest backup was made that could be restored, beside the files that servers share."""


@needs(Permission.OPERATE)
def shelve_verified(
    actor: Actor,
    place: Place,
    source: Path | str,
    *,
    meter: str | None = None,
    key: Path | None = None,
    keep: int | None = None,
) -> Contents:
    """Add a backup to a shelf and restore it elsewhere; with `keep`, drop the oldest ones then.

    When a whole site was backed up, its time is noted for the site's servers to show.

    Raises:
        MeterError: it cannot be restored, or a meter in it is not sound, or lacks a file; it was
            taken back, and nothing was dropped.
    """
    shelf = Shelf.at(source)

    def verified(afresh: Collection[str] = ()) -> Contents:
        made = shelve(actor, place, shelf, meter=meter, key=key, afresh=afresh)
        try:
            check_backup(actor, place.identity, source, name=made.name)
        except BaseException:
            # It must not be the newest, which a restore would choose.
            shelf.take_back(made.name)
            raise
        return made

    # Before anything is dropped: the older ones may be all that can be restored.
    try:
        contents = verified()
    except DamagedBackup as first:
        try:
            # Labels that were handed in meanwhile may have moved from one file to another. And what
            # an earlier backup left there may have gone bad: good bytes take its place.
            contents = verified(first.digests)
        except DamagedBackup as error:
            raise _refused(source, error) from error
    if keep is not None:
        thin(actor, shelf, keep, contents.name)
    if contents.whole and place.files is not None:
        place.files.put(NOTE, contents.at.encode())
    return contents


def _refused(source: Path | str, error: DamagedBackup) -> MeterError:
    to_do = "mount the files, or remove damaged ones and bring them back with meter restore"
    if error.digests:
        to_do = "what is written there does not come back the same: back up to another place"
    return MeterError(
        f"{source}: none was added, and no earlier one was dropped: {error.found}: {to_do}"
    )


def verified_at(files: Files) -> datetime | None:
    """Return when the newest verified backup was made; None: not known, or the files are away."""
    try:
        return datetime.fromisoformat(files.read(NOTE).decode())
    except (OSError, MeterError, ValueError):
        return None
