"""Answer requests that arrive together in one call.

They then share one transaction, one wait for the disk and one thread.
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
"""Seconds without a further request after which a batch waits no longer for more."""
MOST = 32
"""Largest batch; the rest is the next one."""


@dataclass
class _Queue(Generic[Item, Result]):
    waiting: list[tuple[Item, Future[Result]]] = field(default_factory=list)
    enough: Event = field(default_factory=Event)
    expected: int = 1
    """How many requests the next batch waits for."""
    served: Task[None] | None = None
    """The task that serves this queue, while there is something to serve."""


class Batches(Generic[Key, Item, Result]):
    """Serves the requests under each key in batches, one batch of a key at a time.

    Clients that ask again and again come back soon after an answer. So a batch waits for those that
    were just answered to join those that came meanwhile, as long as requests keep coming; where
    they come one by one, none waits. Without `patience` a batch is what is there. `work` returns a
    result or an error for each item, in order; what it raises is raised for all of them. `sized` is
    told the size of every batch.
    """

    def __init__(
        self,
        work: Callable[[Key, list[Item]], list[Result | Exception]],
        *,
        patience: bool = True,
        sized: Callable[[int], object] = lambda _: None,
    ) -> None:
        self._work = work
        self._sized = sized
        self._patience = patience
        # One set of queues for each event loop: a future belongs to the loop that made it.
        self._queues: WeakKeyDictionary[AbstractEventLoop, dict[Key, _Queue[Item, Result]]]
        self._queues = WeakKeyDictionary()

    async def __call__(self, key: Key, item: Item) -> Result:
        """Return the result for `item`, served alone or with others of the same key."""
        loop = asyncio.get_running_loop()
        queue = self._queues.setdefault(loop, {}).setdefault(key, _Queue())
        future: Future[Result] = loop.create_future()
        queue.waiting.append((item, future))
        if len(queue.waiting) >= queue.expected:
            queue.enough.set()
        if queue.served is None:
            queue.served = loop.create_task(self._serve(key, queue))
        try:
            return await future
        finally:
            del future, item  # an error refers to this frame: so that the frame refers to no error

    async def _serve(self, key: Key, queue: _Queue[Item, Result]) -> None:
        try:
            while queue.waiting:
                await _gather(queue)
                # Requests that the loop has received already come along.
                await asyncio.sleep(0)
                batch = queue.waiting[:MOST]
                del queue.waiting[:MOST]
                self._sized(len(batch))
                await self._serve_batch(key, batch)
                # Two groups of clients that take turns would stay apart, at twice the work, if the
                # next batch did not wait for both.
                if self._patience:
                    queue.expected = min(len(batch) + len(queue.waiting), MOST)
        finally:
            queue.served = None
            for _, future in queue.waiting:  # nobody is left to serve them: the server stops
                future.cancel()

    async def _serve_batch(self, key: Key, batch: list[tuple[Item, Future[Result]]]) -> None:
        try:
            outcomes = await run_in_threadpool(self._work, key, [item for item, _ in batch])
            for (_, future), outcome in zip(batch, outcomes, strict=True):
                if future.done():  # the client has disconnected
                    continue
                if isinstance(outcome, Exception):
                    future.set_exception(outcome)
                else:
                    future.set_result(outcome)
        except Exception as error:
            for future in _unanswered(batch):
                future.set_exception(error)
        finally:
            for future in _unanswered(batch):  # the server stops
                future.cancel()


async def _gather(queue: _Queue[Item, Result]) -> None:
    """Wait until as many as expected are there, or nobody came for a while."""
    before = 0
    while before < len(queue.waiting) < queue.expected:
        before = len(queue.waiting)
        queue.enough.clear()
        with suppress(TimeoutError):
            await asyncio.wait_for(queue.enough.wait(), PATIENCE)


def _unanswered(batch: list[tuple[Item, Future[Result]]]) -> list[Future[Result]]:
    return [future for _, future in batch if not future.done()]
