"""Work that waits for the same thing is done together: one transaction, one wait for the disk."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Item = TypeVar("Item")
Result = TypeVar("Result")

PATIENCE = 0.01
"""Seconds that whoever leads waits at most for others to come."""


@dataclass
class _Waiting(Generic[Item, Result]):
    item: Item
    ready: threading.Lock = field(default_factory=threading.Lock)
    leads: bool = False
    outcome: Result | BaseException | None = None


@dataclass
class _Queue(Generic[Item, Result]):
    led: bool = False
    """Somebody is at work."""
    waiting: list[_Waiting[Item, Result]] = field(default_factory=list)
    last: int = 1
    """How many were done together the last time."""
    gathered: threading.Event = field(default_factory=threading.Event)
    """As many as that wait again."""


class Together(Generic[Key, Item, Result]):
    """Gathers what threads want done while another one is at it, and does it all in one call.

    Whoever finds nobody at work begins. When it is done, the first of those who came meanwhile does
    what all of them want. Where many ask again and again, they come back soon after they were
    answered: so it waits a moment, until there are as many as the last time.
    `work` gives a result or an error for each item, in their order; what it raises is raised for
    all.
    """

    def __init__(
        self, work: Callable[[Key, list[Item]], list[Result | Exception]], most: int = 32
    ) -> None:
        self._work = work
        self._most = most
        self._lock = threading.Lock()
        self._queues: dict[Key, _Queue[Item, Result]] = {}

    def __call__(self, key: Key, item: Item) -> Result:
        """Have `item` done, alone or with others of the same key."""
        mine = _Waiting[Item, Result](item)
        with self._lock:
            queue = self._queues.setdefault(key, _Queue())
            if queue.led:
                mine.ready.acquire()
                queue.waiting.append(mine)
                if 1 + len(queue.waiting) >= queue.last:
                    queue.gathered.set()
            else:
                queue.led = mine.leads = True
        if not mine.leads:
            mine.ready.acquire()  # until it is done, or this one's turn to do it
        if mine.leads:
            self._lead(key, queue, mine)
        if isinstance(mine.outcome, BaseException):
            raise mine.outcome
        return mine.outcome  # type: ignore[return-value]

    def _lead(self, key: Key, queue: _Queue[Item, Result], mine: _Waiting[Item, Result]) -> None:
        if queue.last > 1:
            queue.gathered.wait(PATIENCE)
        with self._lock:
            batch = [mine, *queue.waiting[: self._most - 1]]
            del queue.waiting[: self._most - 1]
        try:
            outcomes: list[Result | BaseException] = [*self._work(key, [w.item for w in batch])]
        except BaseException as error:
            outcomes = [error] * len(batch)
        for waiting, outcome in zip(batch, outcomes, strict=True):
            waiting.outcome = outcome
            if waiting is not mine:
                waiting.ready.release()
        with self._lock:
            queue.last = len(batch)
            queue.gathered.clear()
            queue.led = bool(queue.waiting)
            if queue.waiting:
                following = queue.waiting.pop(0)
                following.leads = True
                following.ready.release()
