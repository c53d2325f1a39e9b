"""Requests that wait for the same thing are answered together, in one call.

One transaction, one wait for the disk and one thread then serve them all.
"""

from __future__ import annotations

import asyncio
from asyncio import AbstractEventLoop, Event, Future, Task
from collections.abc import Callable, Hashable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary

from fastapi.concurrency import run_in_threadpool

Key = TypeVar("Key", bound=Hashable)
Item = TypeVar("Item")
Result = TypeVar("Result")

PATIENCE = 0.003
"""Seconds to wait at most for others to come."""
MOST = 32
"""How many are served together; the others are next."""


@dataclass
class _Queue(Generic[Item, Result]):
    waiting: list[tuple[Item, Future[Result]]] = field(default_factory=list)
    enough: Event = field(default_factory=Event)
    last: int = 1
    """How many were served together the last time."""
    served: Task[None] | None = None
    """Whoever serves them now."""


class Gathering(Generic[Key, Item, Result]):
    """Serves what is asked for under one key: one batch at a time, of all that came meanwhile.

    Who asks again and again comes back soon after an answer. So a batch waits a moment, until there
    are as many as the last time; where requests come one by one, nothing waits. `work` gives a
    result or an error for each item, in their order; what it raises is raised for all.
    """

    def __init__(self, work: Callable[[Key, list[Item]], list[Result | Exception]]) -> None:
        self._work = work
        # Each event loop for itself: futures do not cross from one to another.
        self._queues: WeakKeyDictionary[AbstractEventLoop, dict[Key, _Queue[Item, Result]]]
        self._queues = WeakKeyDictionary()

    async def __call__(self, key: Key, item: Item) -> Result:
        """Have `item` served, alone or with others of the same key."""
        loop = asyncio.get_running_loop()
        queue = self._queues.setdefault(loop, {}).setdefault(key, _Queue())
        future: Future[Result] = loop.create_future()
        queue.waiting.append((item, future))
        if len(queue.waiting) >= queue.last:
            queue.enough.set()
        if queue.served is None:
            queue.served = loop.create_task(self._serve(key, queue))
        return await future

    async def _serve(self, key: Key, queue: _Queue[Item, Result]) -> None:
        try:
            while queue.waiting:
                if len(queue.waiting) < queue.last:
                    queue.enough.clear()
                    with suppress(TimeoutError):
                        await asyncio.wait_for(queue.enough.wait(), PATIENCE)
                batch = queue.waiting[:MOST]
                del queue.waiting[:MOST]
                queue.last = len(batch)
                await self._serve_batch(key, batch)
        finally:
            queue.served = None
            for _, future in queue.waiting:  # nobody is left to serve them: the server ends
                future.cancel()

    async def _serve_batch(self, key: Key, batch: list[tuple[Item, Future[Result]]]) -> None:
        try:
            outcomes = await run_in_threadpool(self._work, key, [item for item, _ in batch])
            for (_, future), outcome in zip(batch, outcomes, strict=True):
                if future.done():  # whoever asked has gone
                    continue
                if isinstance(outcome, Exception):
                    future.set_exception(outcome)
                else:
                    future.set_result(outcome)
        except Exception as error:
            for future in _unanswered(batch):
                future.set_exception(error)
        finally:
            for future in _unanswered(batch):  # the server ends
                future.cancel()


def _unanswered(batch: list[tuple[Item, Future[Result]]]) -> list[Future[Result]]:
    return [future for _, future in batch if not future.done()]
