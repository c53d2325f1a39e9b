"""Labels that a browser encrypted to the server's key: sealed again in memory, and added."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from easeml_meter.core.model import TestSet
from easeml_meter.errors import InvalidInput, MeterError, VaultError
from easeml_meter.service.place import Workspace
from easeml_meter.service.testsets import delivery, parts, requests
from easeml_meter.vault.keys import unwrap
from easeml_meter.vault.sealing import SealedTestSet

LARGEST = 64 << 20
"""Bytes of a file that is sent this way: it is in memory as a whole, here and in the browser."""


@dataclass(frozen=True)
class Columns:
    """Names of the columns that are not inputs."""

    label: str = "label"
    id: str = ""


def columns_before(space: Workspace) -> Columns:
    """Name the columns as in the labels that came last; the next ones must be like them."""
    with space.reading() as books:
        generations = space.state(books).generations
        here = requests.parts_of(books, generations[-1])
    if here:
        last = here[-1]
        place = space.files.location(last.blob)
        # A part that does not open must not keep its labeler from the page to take it back.
        with (
            suppress(VaultError),
            SealedTestSet.open(
                place, space.identity, meter=last.meter, generation=last.generation
            ) as sealed,
        ):
            return Columns(sealed.manifest.label.name, sealed.manifest.id_column or "")
    delivered = [row.manifest for row in generations if row.manifest]
    if not delivered:
        return Columns()
    return Columns(delivered[-1]["label"]["name"], delivered[-1]["id_column"] or "")


def add_labels(
    space: Workspace,
    encrypted: bytes,
    *,
    kind: str,
    label: str,
    id_column: str | None = None,
    user: str,
) -> TestSet:
    """Take in labelled rows as a sealed test set, or a part of one; `kind` is a file's ending."""
    with tempfile.TemporaryDirectory(prefix="easeml-meter-") as folder:
        link, sealed = Path(folder) / f"labels.{kind}", Path(folder) / "labels.sealed"
        try:
            with _in_memory(unwrap(encrypted, space.identity, "the file")) as place:
                link.symlink_to(place)
                delivery.seal_for(space, link, sealed, label=label, id_column=id_column)
            return parts.add_test_set(space, sealed, user=user, part=False)
        except InvalidInput as error:
            raise InvalidInput(str(error).replace(f"{folder}/", "")) from None


@contextmanager
def _in_memory(content: bytes) -> Iterator[str]:
    """Give content a path, for readers of files, though it lies in this process's memory only."""
    if not hasattr(os, "memfd_create"):
        raise MeterError("this server takes no labels from a browser: seal them with meter seal")
    handle = os.memfd_create("labels")
    try:
        with open(handle, "wb", closefd=False) as file:
            file.write(content)
        yield f"/proc/self/fd/{handle}"
    finally:
        os.close(handle)
