"""Limits on how often, and with how many bytes, anyone may ask."""

from __future__ import annotations

import asyncio
import fcntl
import ipaddress
import os
import pickle
import threading
import time
import traceback
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import IO, Annotated, TypeVar, cast

from anyio import CancelScope, CapacityLimiter, create_task_group, to_thread
from fastapi import Depends, Request
from fastapi.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import Scope

from easeml_meter.core.buckets import one_taken
from easeml_meter.errors import InvalidInput, MeterError, TooMany
from easeml_meter.server.settings import Settings
from easeml_meter.service.actor import ANYONE
from easeml_meter.service.guesses import count_sign_in
from easeml_meter.tables import apart

SMALL_BODY = 1 << 20
"""Most bytes of a body that a route does not read by itself."""
LARGEST = "meter.largest_body"
"""Where a request's scope says how many bytes its route takes."""
USER = "meter.user"
"""Where a request's scope says which user it came from."""
_BUCKETS = 10_000
"""Names that are remembered before the full buckets among them are forgotten: anybody can come from
a new address, and memory must not grow with them."""
PLAN_SECONDS, _PLAN_MEMORY = 0.5, 256 << 20
"""Processor time and bytes that one plan may take."""
MOST_WAITS = 50
"""Requests of one user that wait for a model at the same time, and streams of events."""

Result = TypeVar("Result")


class Buckets:
    """Token buckets, one for each name: `rate` requests a second, and `burst` at once."""

    def __init__(
        self, rate: float, burst: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._rate = rate
        self._burst = max(1.0, burst)
        self._clock = clock
        self._full_at: dict[str, float] = {}
        self._lock = threading.Lock()

    def take(self, name: str) -> None:
        """Count one request; with a rate of 0 nothing is counted."""
        if self._rate <= 0:
            return
        now = self._clock()
        with self._lock:
            before = self._full_at.get(name)
            self._full_at[name] = one_taken(before, now, self._rate, self._burst)
            # A bucket that is full again needs no entry.
            if len(self._full_at) > _BUCKETS:
                self._full_at = {name: at for name, at in self._full_at.items() if at > now}


class HeldBytes:
    """Bytes of bodies that are in memory: each user's, and the total.

    Unfinished requests hold them for as long as they last, so their number is no limit. Whoever
    holds nothing may always send one body, however large.
    """

    def __init__(self, settings: Settings) -> None:
        self._most = settings.held_bytes
        self._most_of_one = settings.held_bytes_per_user
        self._of: Counter[str] = Counter()

    def take(self, name: str, count: int) -> None:
        """Count bytes for a user or address."""
        # An HTTP error, as what reads a body takes every other one for a fault of the body's.
        if self._of[name] and self._of[name] + count > self._most_of_one:
            raise HTTPException(429, "too many bytes of yours are under way: wait for an answer")
        if (held := self._of.total()) and held + count > self._most:
            raise HTTPException(503, "too many bytes are under way at this server: try again")
        self._of[name] += count

    def give_back(self, name: str, count: int) -> None:
        """Stop counting bytes."""
        self._of -= Counter({name: count})  # which forgets a name without any


class Body:
    """The body of a request as it arrives, within the limits of its route and of memory."""

    def __init__(self, scope: Scope, held: HeldBytes) -> None:
        self._scope = scope
        self._held = held
        self._name: str | None = None
        self._announced = 0
        self._arrived = 0
        self._counted = 0

    def grow(self, count: int) -> None:
        """Count bytes that arrived, or the announced length where the route knows the user.

        If a stranger's announcement counted, it could leave nothing to the others.
        """
        self._arrived += count
        largest = self._scope.get(LARGEST)
        if self._name is None:
            client = self._scope.get("client")
            self._name = self._scope.get(USER) or network_of(client[0] if client else "")
            self._announced = _announced(self._scope)
        size = max(self._arrived, self._announced)
        if size > (largest or SMALL_BODY):
            raise HTTPException(413, f"more than {largest or SMALL_BODY} bytes")
        # An announced length counts only on routes that have checked who sends it.
        more = (self._arrived if largest is None else size) - self._counted
        if more > 0:
            self._held.take(self._name, more)
            self._counted += more

    def end(self) -> None:
        """Stop counting all of it."""
        if self._name is not None:
            self._held.give_back(self._name, self._counted)


def _announced(scope: Scope) -> int:
    text = Headers(scope=scope).get("content-length", "")
    return int(text) if text.isascii() and text.isdigit() else 0


class Waits:
    """Requests that wait for a model, of each user: all of them read the books again and again."""

    def __init__(self) -> None:
        self._of: Counter[str] = Counter()

    def full(self, user: str) -> bool:
        """Whether a user has as many as anybody may have."""
        return self._of[user] >= MOST_WAITS

    @contextmanager
    def counted(self, user: str) -> Iterator[None]:
        """Count one for as long as it lasts."""
        if self.full(user):
            raise TooMany(f"{MOST_WAITS} requests of yours wait already: end one of them")
        self._of[user] += 1
        try:
            yield
        finally:
            self._of -= Counter({user: 1})  # which forgets a name without any


class Apart:
    """Runs slow work of one kind in threads of its own: others never wait for a thread."""

    def __init__(self, at_once: int = 4) -> None:
        self._turns = CapacityLimiter(at_once)

    async def __call__(self, work: Callable[[], Result]) -> Result:
        """Return the result of `work`, when it has had its turn."""
        return await to_thread.run_sync(work, limiter=self._turns)


async def planned(request: Request, work: Callable[..., Result], *given: object) -> Result:
    """Have a stranger's plan made by a child that has half a second, and ends with its client."""
    reader, said = asyncio.StreamReader(), b""
    async with request.app.state.planning, create_task_group() as both:
        both.start_soon(_until_left, request, both.cancel_scope)
        with apart.forked(_plan, work, given, memory=_PLAN_MEMORY, seconds=PLAN_SECONDS) as stream:
            loop, protocol = asyncio.get_running_loop(), asyncio.StreamReaderProtocol(reader)
            with closing((await loop.connect_read_pipe(lambda: protocol, stream))[0]):
                said = await reader.read()
        both.cancel_scope.cancel()
    if not said:  # it was ended
        raise InvalidInput(
            f"plan: more than {PLAN_SECONDS} s of work for this server: ask for fewer teams, bands "
            "or steps, or plan on your own machine (meter plan)"
        )
    found = pickle.loads(said)  # noqa: S301 - from code of ours that was given text
    if isinstance(found, Exception):
        raise found
    return cast("Result", found)


def _plan(stream: IO[bytes], work: Callable[..., object], given: Sequence[object]) -> None:
    # The kernel's default for this signal, sent when nobody is left who reads, ends the process.
    fcntl.fcntl(stream, fcntl.F_SETOWN, os.getpid())
    flags = fcntl.fcntl(stream, fcntl.F_GETFL)
    fcntl.fcntl(stream, fcntl.F_SETFL, flags | os.O_ASYNC)
    try:
        found = work(*given)
    except MeterError as error:
        found = error
    except Exception as error:
        found = RuntimeError("the planner failed:\n" + "".join(traceback.format_exception(error)))
    fcntl.fcntl(stream, fcntl.F_SETFL, flags)
    pickle.dump(found, stream)


async def _until_left(request: Request, scope: CancelScope) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
    scope.cancel()


class RateLimits:
    """The buckets of one app."""

    def __init__(self, settings: Settings, clock: Callable[[], float] = time.monotonic) -> None:
        self.users = Buckets(settings.requests_per_second, settings.burst, clock)
        self.logins_per_minute = logins = settings.logins_per_minute
        plans = settings.plans_per_minute
        self.logins = Buckets(logins / 60, logins, clock)
        self.plans = Buckets(plans / 60, plans, clock)
        # A form asks at every change, for what is quickly answered.
        self.planner = Buckets(10 * plans / 60, 10 * plans, clock)
        self.waits = Waits()


def address_of(request: Request) -> str:
    """Return the address that an anonymous request is counted for, or its network of IPv6.

    One subscriber has a whole network of IPv6 addresses, so single ones would limit nobody.
    """
    return network_of(request.client.host if request.client else "")


def network_of(host: str) -> str:
    """Return the address of a host, or its network of IPv6, in one spelling."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is None:
        return str(ipaddress.ip_network((int(address), 64), strict=False))
    return str(address)


async def count_login(request: Request) -> None:
    """Refuse a login if too many came from its address, to all servers together."""
    limits, address = request.app.state.limits, address_of(request)
    # What one server alone refuses costs the database nothing.
    limits.logins.take(address)
    if most := limits.logins_per_minute:
        await run_in_threadpool(count_sign_in, ANYONE, request.app.state.site, address, most)


async def count_plan(request: Request) -> None:
    """Refuse an anonymous plan if too many came from its address."""
    request.app.state.limits.plans.take(address_of(request))


async def count_planner(request: Request) -> None:
    """Refuse a request of the planner's page if too many came from its address."""
    request.app.state.limits.planner.take(address_of(request))


LoginCounted = Annotated[None, Depends(count_login)]
PlanCounted = Annotated[None, Depends(count_plan)]
PlannerCounted = Annotated[None, Depends(count_planner)]


async def streamed(request: Request, largest: int) -> AsyncGenerator[bytes, None]:
    """Read a large body piece by piece; 413 if it is longer than `largest` bytes."""
    request.scope[LARGEST] = largest
    async for piece in request.stream():
        yield piece
