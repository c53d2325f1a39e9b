"""Labels that a browser encrypted to the server's key: sealed again in memory, and taken in."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from easeml_meter.errors import InvalidInput, MeterError
from easeml_meter.service import intake, parts
from easeml_meter.service.workspace import Workspace
from easeml_meter.storage.schema import GenerationRow
from easeml_meter.vault.keys import unwrap

LARGEST = 64 << 20
"""Bytes of a file that is sent this way: it is in memory as a whole, here and in the browser."""


def add_labels(
    space: Workspace,
    encrypted: bytes,
    *,
    kind: str,
    label: str,
    id_column: str | None = None,
    user: str,
) -> GenerationRow:
    """Take in labelled rows as a sealed test set, or a part of one; `kind` is a file's ending."""
    with tempfile.TemporaryDirectory(prefix="easeml-meter-") as folder:
        link, sealed = Path(folder) / f"labels.{kind}", Path(folder) / "labels.sealed"
        try:
            with _in_memory(unwrap(encrypted, space.identity, "the file")) as place:
                link.symlink_to(place)
                intake.seal_for(space, link, sealed, label=label, id_column=id_column)
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
