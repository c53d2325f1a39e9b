"""An Idempotency-Key: when it brings back its answer, when it is refused, when it is too old."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from easeml_meter.errors import MeterError, UnderWay

KEPT = timedelta(days=1)
# Far longer than the slowest request, which would otherwise be carried out twice at the same time;
# yet short enough that a client whose server was killed can repeat its request the same day.
LOST = timedelta(minutes=10)
"""After this, a request still under way is taken for one that died with its server."""


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

    @property
    def place(self) -> Place:
        """Where it is known: keys belong to their user."""
        return self.user, self.key

    def answered(self, status: int, body: Any) -> KeyedRequest:
        """Return it with its answer."""
        return replace(self, status=status, body=body)

    def before(self, known: Mapping[Place, KeyedRequest]) -> KeyedRequest | None:
        """Return the same request as it was answered before; None if it is to be carried out.

        Raises:
            MeterError: its key came with another request.
            UnderWay: it is being carried out.
        """
        found = known.get(self.place)
        if found is None or found._stale(self.created_at):
            return None
        if found.request != self.request:
            raise MeterError("Idempotency-Key: it came with another request: use a new one")
        if found.status is None:
            raise UnderWay("Idempotency-Key: that request is still under way: wait")
        return found

    def _stale(self, now: str) -> bool:
        age = datetime.fromisoformat(now) - datetime.fromisoformat(self.created_at)
        return age > (LOST if self.status is None else KEPT)


Place = tuple[str, str]
"""A user and one of their keys."""
