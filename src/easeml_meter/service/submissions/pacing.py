"""The pace of a token: at most so many answers of a meter in any 24 hours.

Answers are counted from the entries, under the meter's lock: so the pace holds over restarts, and
for any number of servers. It depends on what was submitted with the token, and on nothing else.
What repeats an answer is free, and no answer of its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from easeml_meter.core.model import stamp
from easeml_meter.core.submissions import Ticket
from easeml_meter.errors import TooSoon
from easeml_meter.service.place import Clock
from easeml_meter.storage.books import Books

DAY = timedelta(days=1)
_MINUTE = timedelta(minutes=1)
_NEVER = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True)
class Paces:
    """What tokens have had of one meter within a day, as one transaction sees it."""

    now: datetime
    told: dict[str, list[str]]
    """By token, when each of its answers was told, the oldest first."""
    waiting: dict[str, int]
    """By token, its models in the queue: each of them may become an answer."""

    @classmethod
    def read(
        cls,
        books: Books,
        meter: str,
        tokens: Iterable[str],
        clock: Clock,
        tickets: Iterable[Ticket] | None = None,
    ) -> Paces:
        """Read what the books say about tokens that have a pace."""
        told: dict[str, list[str]] = {token: [] for token in tokens}
        if not told:
            return cls(_NEVER, {}, {})
        now = clock()
        for token, told_at in books.entries.told_to(meter, list(told), stamp(now - DAY)):
            told[token].append(told_at)
        waiting = dict.fromkeys(told, 0)
        for ticket in books.submissions.unfinished() if tickets is None else tickets:
            if ticket.meter == meter and ticket.token in waiting:
                waiting[ticket.token] += 1
        return cls(now, told, waiting)

    def check(self, token: str, most: int) -> None:
        """Refuse one more answer to a token that has had as many as it gets in a day.

        Raises:
            TooSoon: it has; the line says when the next one is possible.
        """
        told, waiting = self.told[token], self.waiting[token]
        surplus = len(told) + waiting - most
        if surplus < 0:
            return
        line = f"this token gets {_answers(most)} in 24 hours at this meter"
        if waiting >= most:
            raise TooSoon(
                f"{line}, and models of it that wait will use them: wait until they are answered",
                DAY.total_seconds(),
            )
        free = datetime.fromisoformat(told[surplus]) + DAY
        rounded = free.astimezone(UTC) + _MINUTE - timedelta(microseconds=1)
        when = f"{rounded:%Y-%m-%d %H:%M} UTC"
        wait = (free - self.now).total_seconds()
        raise TooSoon(f"{line}, and has had them: the next is possible from {when} on", wait)


def _answers(number: int) -> str:
    return "1 answer" if number == 1 else f"{number:,} answers"
