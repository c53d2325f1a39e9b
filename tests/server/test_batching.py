"""Requests answered together: each gets what is its own, and nobody waits for nothing."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeVar

import pytest

from easeml_meter.server import batching
from easeml_meter.server.batching import MOST, Batches

Result = TypeVar("Result")

LONG = 30
"""Seconds after which a test that should have ended is given up."""


def run(main: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
    """Run in an event loop of one's own; what never ends fails."""

    async def limited() -> Result:
        return await asyncio.wait_for(main(), LONG)

    return asyncio.run(limited())


class Work:
    """Doubles numbers, notes what came together, and works only while it is let to.

    A negative number is refused, 666 ends all that came with it.
    """

    def __init__(self, *, held: bool = False, patience: bool = True) -> None:
        self.batches: list[tuple[str, list[int]]] = []
        self.most_at_once: dict[str, int] = {}
        self.go_on = threading.Event()
        if not held:
            self.go_on.set()
        self.told: list[int] = []
        self.gathered = Batches(self._do, patience=patience, sized=self.told.append)
        self._under_way: dict[str, int] = {}
        self._lock = threading.Lock()

    def _do(self, key: str, items: list[int]) -> list[int | Exception]:
        with self._lock:
            self.batches.append((key, items))
            self._under_way[key] = self._under_way.get(key, 0) + 1
            at_once = max(self.most_at_once.get(key, 0), self._under_way[key])
            self.most_at_once[key] = at_once
        if not key.startswith("free"):
            assert self.go_on.wait(LONG)
        with self._lock:
            self._under_way[key] -= 1
        if 666 in items:
            raise RuntimeError("all of them")
        return [ValueError(f"{item} is negative") if item < 0 else 2 * item for item in items]

    def ask(self, *items: int, key: str = "a") -> list[asyncio.Task[int]]:
        """Ask for each, all at the same time."""
        return [asyncio.create_task(self._asked(key, item)) for item in items]

    async def _asked(self, key: str, item: int) -> int:
        return await self.gathered(key, item)

    async def begun(self, batches: int) -> None:
        """Wait until so many batches are under way or done, and who asked now has queued."""
        while len(self.batches) < batches:
            await asyncio.sleep(0.001)
        for _ in range(5):
            await asyncio.sleep(0)

    def sizes(self) -> list[int]:
        return [len(items) for _, items in self.batches]


async def outcomes(asked: Sequence[Awaitable[int]]) -> list[object]:
    """Wait for all; an error is shown as its kind and text."""
    found = await asyncio.gather(*asked, return_exceptions=True)
    return [
        f"{type(each).__name__}: {each}" if isinstance(each, BaseException) else each
        for each in found
    ]


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test waits long for nothing, and none depends on how long."""
    monkeypatch.setattr(batching, "PATIENCE", 0.001)


def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let whoever waits for others wait for an hour."""
    monkeypatch.setattr(batching, "PATIENCE", 3600)


def test_who_comes_at_the_same_time_is_served_together_in_order() -> None:
    work = Work()

    async def main() -> list[object]:
        return await outcomes(work.ask(3, 1, 2))

    assert run(main) == [6, 2, 4]
    assert work.batches == [("a", [3, 1, 2])]
    assert work.told == [3]


def test_one_batch_at_a_time_and_the_next_is_all_that_came_meanwhile() -> None:
    work = Work(held=True)

    async def main() -> list[object]:
        asked = work.ask(0)
        await work.begun(1)
        for item in (1, 2, 3):
            asked += work.ask(item)
            await work.begun(1)
        assert work.batches == [("a", [0])]
        work.go_on.set()
        return await outcomes(asked)

    assert run(main) == [0, 2, 4, 6]
    assert work.batches == [("a", [0]), ("a", [1, 2, 3])]
    assert work.most_at_once == {"a": 1}


def test_many_rounds_of_many_callers() -> None:
    work = Work()

    async def caller(number: int) -> list[int]:
        return [await work.gathered(f"{number % 2}", 100 * number + i) for i in range(10)]

    async def main() -> list[list[int]]:
        return list(await asyncio.gather(*map(caller, range(8))))

    assert run(main) == [[2 * (100 * number + i) for i in range(10)] for number in range(8)]
    assert sum(work.sizes()) == 80
    for key, items in work.batches:
        assert {item // 100 % 2 for item in items} == {int(key)}
    assert work.most_at_once == {"0": 1, "1": 1}


def test_an_error_goes_to_whom_it_belongs() -> None:
    work = Work()

    async def main() -> list[object]:
        return await outcomes(work.ask(1, -2, 3, -4))

    assert run(main) == [2, "ValueError: -2 is negative", 6, "ValueError: -4 is negative"]
    assert work.sizes() == [4]


def test_what_the_work_raises_goes_to_all_that_came_together() -> None:
    work = Work(held=True)

    async def main() -> list[object]:
        asked = work.ask(5)
        await work.begun(1)
        asked += work.ask(1, 666, 3)
        await work.begun(1)
        work.go_on.set()
        found = await outcomes(asked)
        return [*found, *await outcomes(work.ask(7, 8))]

    failed = "RuntimeError: all of them"
    assert run(main) == [10, failed, failed, failed, 14, 16]


def test_another_key_is_not_held_up() -> None:
    work = Work(held=True)

    async def main() -> list[object]:
        held = work.ask(1, key="held")
        await work.begun(1)
        free = await outcomes(work.ask(2, 3, key="free"))
        assert not held[0].done()
        work.go_on.set()
        return [*free, *await outcomes(held)]

    assert run(main) == [4, 6, 2]
    assert work.batches == [("held", [1]), ("free", [2, 3])]


def test_whoever_goes_away_while_waiting_harms_nobody() -> None:
    work = Work(held=True)

    async def main() -> list[object]:
        first = work.ask(0)
        await work.begun(1)
        asked = work.ask(1, 2, 3)
        await work.begun(1)
        asked[1].cancel()
        await asyncio.sleep(0)
        work.go_on.set()
        found = await outcomes([*first, asked[0], asked[2]])
        assert asked[1].cancelled()
        return [*found, *await outcomes(work.ask(4))]

    assert run(main) == [0, 2, 6, 8]


def test_whoever_goes_away_while_being_served_harms_nobody() -> None:
    work = Work(held=True)

    async def main() -> list[object]:
        asked = work.ask(-1, 2, 3)  # also one that would be told an error
        await work.begun(1)
        asked[0].cancel()
        asked[1].cancel()
        await asyncio.sleep(0)
        work.go_on.set()
        found = await outcomes([asked[2]])
        return [*found, *await outcomes(work.ask(4))]

    assert run(main) == [6, 8]
    assert work.batches[0] == ("a", [-1, 2, 3])


def test_no_more_than_so_many_at_once() -> None:
    work = Work()
    many = 2 * MOST + 6

    async def main() -> list[object]:
        return await outcomes(work.ask(*range(many)))

    assert run(main) == [2 * item for item in range(many)]
    assert work.sizes() == [MOST, MOST, 6]


# --- Waiting for others ---


def test_who_comes_alone_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    patient(monkeypatch)
    work = Work()

    async def main() -> list[int]:
        return [await work.gathered("a", item) for item in range(5)]

    assert run(main) == [0, 2, 4, 6, 8]
    assert work.sizes() == [1] * 5


def test_the_last_of_as_many_ends_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those who come back one after the other are served together again."""
    patient(monkeypatch)
    work = Work()

    async def main() -> list[object]:
        await outcomes(work.ask(1, 2, 3))
        asked = work.ask(4)
        await work.begun(1)
        asked += work.ask(5)
        await work.begun(1)
        assert work.sizes() == [3]
        asked += work.ask(6)
        return await outcomes(asked)

    assert run(main) == [8, 10, 12]
    assert work.sizes() == [3, 3]


def test_after_a_wait_in_vain_nobody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    work = Work()

    async def main() -> list[int]:
        await outcomes(work.ask(1, 2, 3))
        await outcomes(work.ask(4))
        patient(monkeypatch)
        return [await work.gathered("a", item) for item in (5, 6)]

    assert run(main) == [10, 12]


def test_two_groups_that_take_turns_become_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each group fills a batch of its own size, so nothing else would ever bring them together."""
    patient(monkeypatch)
    work = Work(held=True)

    async def main() -> list[object]:
        first = work.ask(1, 2)
        await work.begun(1)
        second = work.ask(3, 4)
        await work.begun(1)
        work.go_on.set()
        found = await outcomes(first)
        await asyncio.sleep(0.01)
        assert work.sizes() == [2]  # the second group waits for the first to come back
        return found + await outcomes([*second, *work.ask(5, 6)])

    assert run(main) == [2, 4, 6, 8, 10, 12]
    assert work.sizes() == [2, 4]


def test_a_batch_waits_as_long_as_requests_keep_coming(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them together take longer to come than anybody would wait for one."""
    monkeypatch.setattr(batching, "PATIENCE", 0.2)
    work = Work()

    async def main() -> list[object]:
        await outcomes(work.ask(1, 2, 3, 4))
        asked = work.ask(5)
        for item in (6, 7, 8):
            await asyncio.sleep(0.12)
            asked += work.ask(item)
        return await outcomes(asked)

    assert run(main) == [10, 12, 14, 16]
    assert work.sizes() == [4, 4]


def test_without_patience_a_batch_is_what_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    patient(monkeypatch)
    work = Work(patience=False)

    async def main() -> list[object]:
        await outcomes(work.ask(1, 2, 3))
        return await outcomes(work.ask(4))

    assert run(main) == [8]
    assert work.sizes() == [3, 1]


# --- Event loops ---


def test_one_event_loop_after_another() -> None:
    work = Work()

    async def main() -> list[object]:
        return await outcomes(work.ask(1, 2))

    assert [run(main) for _ in range(3)] == [[2, 4]] * 3
    assert work.sizes() == [2] * 3


def test_two_event_loops_at_the_same_time_do_not_mix() -> None:
    work = Work(held=True)
    found: dict[int, list[object]] = {}

    def serve(number: int) -> None:
        async def main() -> list[object]:
            asked = work.ask(100 * number)
            await work.begun(2)  # both loops are at work, under the same key
            asked += work.ask(100 * number + 1, 100 * number + 2)
            await work.begun(2)
            work.go_on.set()
            return await outcomes(asked)

        found[number] = run(main)

    threads = [threading.Thread(target=serve, args=(number,)) for number in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONG)
    assert found == {1: [200, 202, 204], 2: [400, 402, 404]}
    for _, items in work.batches:
        assert len({item // 100 for item in items}) == 1


def test_the_end_of_the_loop_ends_those_who_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    patient(monkeypatch)
    work = Work()
    left: list[asyncio.Task[int]] = []

    async def main() -> None:
        await outcomes(work.ask(1, 2, 3))
        left.extend(work.ask(4))
        await work.begun(1)

    run(main)
    assert [each.cancelled() for each in left] == [True]
    assert work.sizes() == [3]


@pytest.mark.parametrize("given", [[], [StopIteration()], [1, 2]])
def test_work_that_misbehaves_leaves_nobody_waiting(given: list[int | Exception]) -> None:
    gathered: Batches[str, int, int] = Batches(lambda _, __: given)

    async def main() -> list[object]:
        return await outcomes([gathered("a", 1)])

    (found,) = run(main)
    assert str(found).startswith(("ValueError", "TypeError")) or found == 1


def test_a_refused_item_is_freed_while_its_error_is_kept() -> None:
    class Item:
        pass

    async def main() -> bool:
        gathered: Batches[str, Item, int] = Batches(lambda _, items: [ValueError() for _ in items])
        item = Item()
        known = weakref.ref(item)
        caught = None
        try:
            await gathered("a", item)
        except ValueError as error:
            caught = error
        del item
        while known() is not None:  # until the task that served it has ended, or `run` gives up
            await asyncio.sleep(0.01)
        return caught is not None

    gc.disable()
    try:
        assert run(main)
    finally:
        gc.enable()
