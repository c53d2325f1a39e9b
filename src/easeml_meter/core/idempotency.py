"""Requests that carry an Idempotency-Key, as values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class KeyedRequest:
    """A request that came with a key, and its answer as soon as there is one."""

    user: str
    key: str
    request: str
    """Digest of method, path, query and body: what the key stands for."""
    created_at: str
    status: int | None = None
    """HTTP status of the answer; None: under way."""
    body: Any = None
