"""The test sets of a meter on one time line."""

from __future__ import annotations

from dataclasses import dataclass

from easeml_meter.server.web.history import Session

_SLIVER = 2.0
"""Percent of a time line that can be seen."""


@dataclass(frozen=True)
class TimelineSpan:
    """A test set on the time line of its meter: from its first answer to its last one."""

    session: Session
    start: float = 0.0
    length: float = 0.0
    """Where it begins and how long it is, in percent of the time line."""

    @property
    def days(self) -> str:
        """The days of its first answer and its last one; empty: it gave none."""
        signals = self.session.view.signals
        if not signals:
            return ""
        first, last = (f"{at.day} {at:%b %Y}" for at in (signals[0].told_at, signals[-1].told_at))
        return first if first == last else f"{first} to {last}"


def spans(sessions: list[Session]) -> dict[int, TimelineSpan]:
    """Lay test sets out on one time line, by their numbers."""
    told = [signal.told_at for each in sessions for signal in each.view.signals]
    if not told:
        return {each.view.generation: TimelineSpan(each) for each in sessions}
    whole = max((max(told) - min(told)).total_seconds(), 1.0)
    found = {}
    for each in sessions:
        times = [signal.told_at for signal in each.view.signals] or [min(told)]
        start = 100 * (times[0] - min(told)).total_seconds() / whole
        length = 100 * (times[-1] - times[0]).total_seconds() / whole
        # A single answer is a moment: it is drawn wide enough to be seen.
        wide = max(length, _SLIVER)
        found[each.view.generation] = TimelineSpan(
            each, round(min(start, 100 - wide), 2), round(wide, 2)
        )
    return found
