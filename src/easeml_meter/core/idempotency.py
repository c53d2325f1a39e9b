"""An Idempotency-Key: when it brings back its answer, when it is refused, when it is too old."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from easeml_meter.errors import MeterError, UnderWay

KEPT = timedelta(days=1)
# Whether a server has died is known, unless it is of an earlier version: those do not say who they
# are.
LOST = timedelta(minutes=10)
"""After this, a request under way at a server that is not known is taken for given up."""
NOBODY = 0
"""In the place of a server: nobody carries the request out any more, but something of it counts."""

_ANSWER_LOST = (
    "Idempotency-Key: that request was carried out, at least in part, but its answer was lost: "
    "look at what is there before you ask again, with a new key"
)


@dataclass(frozen=True, slots=True)
class KeyedRequest:
    """A request that came with a key, and its answer as soon as there is one."""

    user: str
    key: str
    request: str
    """Digest of method, path, query and body: what the key stands for."""
    created_at: str
    status: int | None = None
    """HTTP status of the answer; None: under way, and nothing is committed yet."""
    body: Any = None
    server: int | None = None
    """Number of the server that carries it out, or NOBODY.

    None: this is its answer; without a status, a server of an earlier version carries it out.
    """

    @property
    def place(self) -> Place:
        """Where it is known: keys belong to their user."""
        return self.user, self.key

    def answered(self, status: int, body: Any) -> KeyedRequest:
        """Return it with its answer."""
        return replace(self, status=status, body=body, server=None)

    def committed(self) -> KeyedRequest:
        """Return it as it is from its first commit on, until its answer is kept.

        Servers of earlier versions, which look at no server, read this as its answer.
        """
        error = MeterError(_ANSWER_LOST)
        return replace(self, status=error.status, body={"error": error.word, "message": str(error)})

    def before(
        self, known: Mapping[Place, KeyedRequest], servers: Collection[int] | None = None
    ) -> KeyedRequest | None:
        """Return the same request as it was answered before; None if it is to be carried out.

        `servers` are those that are alive; None: all of them.

        Raises:
            MeterError: its key came with another request, or its answer was lost.
            UnderWay: it is being carried out.
        """
        found = known.get(self.place)
        if found is None or found._free(self.created_at, servers):
            return None
        if found.request != self.request:
            raise MeterError("Idempotency-Key: it came with another request: use a new one")
        if found.status is None or found._carried_out_by(servers):
            raise UnderWay("Idempotency-Key: that request is still under way: wait")
        if found.server is not None:
            raise MeterError(_ANSWER_LOST)
        return found

    def _free(self, now: str, servers: Collection[int] | None) -> bool:
        age = datetime.fromisoformat(now) - datetime.fromisoformat(self.created_at)
        if self.status is not None:
            return age > KEPT
        if self.server is None:
            return age > LOST
        # However long it takes: what it has done would not count once its key is another's.
        return not self._carried_out_by(servers)

    def _carried_out_by(self, servers: Collection[int] | None) -> bool:
        """Whether a server that is alive carries it out; unknown for those that do not say."""
        if self.server is None or self.server == NOBODY:
            return False
        return servers is None or self.server in servers


Place = tuple[str, str]
"""A user and one of their keys."""
