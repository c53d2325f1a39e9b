"""Work that waits for the same thing is done together: one transaction, one wait for the disk."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass
class _Waiting(Generic[Item, Result]):
    item: Item
    ready: threading.Lock = field(default_factory=threading.Lock)
    leads: bool = False
    outcome: Result | BaseException | None = None


class Together(Generic[Key, Item, Result]):
    """Gathers what threads want done while another one is at it, and does it all in one call.

    Whoever finds nobody at work begins, with its own item alone. When it is done, the first of
    those who came meanwhile does what all of them want. `work` gives a result or an error for each
    item, in their order; what it raises is raised for all.
    """

    def __init__(
        self, work: Callable[[Key, list[Item]], list[Result | Exception]], most: int = 32
    ) -> None:
        self._work = work
        self._most = most
        self._lock = threading.Lock()
        self._queues: dict[Key, list[_Waiting[Item, Result]]] = {}

    def __call__(self, key: Key, item: Item) -> Result:
        """Have `item` done, alone or with others of the same key."""
        mine = _Waiting[Item, Result](item)
        with self._lock:
            queue = self._queues.get(key)
            if queue is None:
                self._queues[key] = []
                mine.leads = True
            else:
                mine.ready.acquire()
                queue.append(mine)
        if not mine.leads:
            mine.ready.acquire()  # until it is done, or this one's turn to do it
        if mine.leads:
            self._lead(key, mine)
        if isinstance(mine.outcome, BaseException):
            raise mine.outcome
        return mine.outcome  # type: ignore[return-value]

    def _lead(self, key: Key, mine: _Waiting[Item, Result]) -> None:
        with self._lock:
            queue = self._queues[key]
            batch = [mine, *queue[: self._most - 1]]
            del queue[: self._most - 1]
        try:
            outcomes: list[Result | BaseException] = [*self._work(key, [w.item for w in batch])]
        except BaseException as error:
            outcomes = [error] * len(batch)
        for waiting, outcome in zip(batch, outcomes, strict=True):
            waiting.outcome = outcome
            if waiting is not mine:
                waiting.ready.release()
        with self._lock:
            if queue:
                following = queue.pop(0)
                following.leads = True
                following.ready.release()
            else:
                del self._queues[key]
