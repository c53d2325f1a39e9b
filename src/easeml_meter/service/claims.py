"""At which meter a test set counts: on a server, rows given to a second meter are no fresh ones."""

from __future__ import annotations

from easeml_meter.errors import InvalidInput
from easeml_meter.service.workspace import Workspace
from easeml_meter.storage.schema import generations


def claim(space: Workspace, meter: str, fingerprint: str) -> None:
    """Note that a test set counts at a meter, or refuse because it counts at another one.

    The books know it, too; the note lies with the files, and stays if the books are lost.
    """
    if space.claims is None:
        return
    with space.reading() as books:
        owners = {
            row["meter"]
            for row in books.select(generations, generations.c.fingerprint == fingerprint)
        }
    noted = space.claims.exists(fingerprint)
    if noted:
        owners.add(space.claims.read(fingerprint).decode())
    if owners - {meter}:
        raise InvalidInput(
            "the same rows are or were the test set of another meter on this server, and their "
            "answers count there: give rows that were no test set before"
        )
    if not noted:
        space.claims.put(fingerprint, meter.encode())
