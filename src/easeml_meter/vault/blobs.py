"""Keep what must stay hidden until release: predictions on sealed rows, and small payloads."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from easeml_meter.tables.table import Table
from easeml_meter.vault.containers import Container, binding, write_container
from easeml_meter.vault.files import new_file
from easeml_meter.vault.keys import Identity, unwrap, wrap


def keep_table(
    table: Table, destination: Path, *, bound_to: Sequence[str | int], recipients: Sequence[str]
) -> str:
    """Encrypt a table into a new file, streaming, bound to what it belongs to; return its SHA-256.

    `bound_to` names, say, meter, generation and submission; the file opens for no other.
    """
    with new_file(destination) as stream:
        digest, _ = write_container(
            stream,
            table.schema,
            table.batches(),
            bound_to=binding("table", *bound_to),
            recipients=recipients,
        )
    return digest


def open_kept_table(path: Path, identity: Identity, *, bound_to: Sequence[str | int]) -> Container:
    """Open what `keep_table` wrote: `batches` streams it, `verify` checks all of it."""
    return Container(path, identity, binding("table", *bound_to), "the kept table")


def encrypt_bytes(data: bytes, recipients: Sequence[str]) -> bytes:
    """Encrypt a small payload so that each of `recipients` can open it."""
    return wrap(data, recipients)


def decrypt_bytes(blob: bytes, identity: Identity) -> bytes:
    """Open what `encrypt_bytes` made, or raise `VaultError`."""
    return unwrap(blob, identity)
