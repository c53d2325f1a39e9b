"""Rows that the version before wrote into backups, brought up as migration 0003 does databases."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from easeml_meter.storage import schema

RELEASED = "0002"
"""The schema of version 0.1.0, whose rows have to be raised."""
READABLE = (
    *(RELEASED, "0003", "0004", "0005", "0006", "0007", "0008", "0009", "0010", "0011", "0012"),
    *("0013", schema.HEAD),
)
"""Schemas whose rows can be restored."""

Row = dict[str, Any]

_TENANTS = {"entries": ("tenant",), "handovers": ("giver", "receiver")}
"""Columns that counted tenants from 0."""


def users_in(links: Iterable[Row]) -> dict[tuple[int, int, int], str]:
    """Return who submitted each step (test set, tenant, step), as audit links name them."""
    told = (link["details"] for link in links if link["event"] == "told")
    return {
        (each["generation"], each["tenant"], each["step"]): each.get("user", "") for each in told
    }


def raised(
    table: str, rows: Iterable[Row], users: dict[tuple[int, int, int], str]
) -> Iterator[Row]:
    """Bring rows of schema 0002 to this one."""
    for row in rows:
        found = row | {name: row[name] + 1 for name in _TENANTS.get(table, ())}
        if table == "entries":
            found["user"] = users.get((row["generation"], found["tenant"], row["step"]), "")
        yield found
