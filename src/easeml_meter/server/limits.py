"""Limits of how often, and how much, anyone may ask."""

from __future__ import annotations

import ipaddress
import threading
import time
from collections.abc import AsyncIterator, Callable
from typing import Annotated

from fastapi import Depends, Request

from easeml_meter.errors import TooMany
from easeml_meter.server.settings import Settings

SMALL_BODY = 1 << 20
"""Bytes of a body that a route does not read by itself."""
LARGEST = "meter.largest_body"
"""Where a request's scope says how many bytes its route takes."""
_BUCKETS = 10_000


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
        """Count one request; with a rate of 0 nothing is counted.

        Raises:
            TooMany: the bucket is empty.
        """
        if self._rate <= 0:
            return
        now = self._clock()
        with self._lock:
            # A bucket is known by the moment it will be full again, so a full one needs no entry.
            full_at = max(self._full_at.get(name, now), now) + 1 / self._rate
            wait = full_at - now - self._burst / self._rate
            if wait > 1e-9:
                raise TooMany("too many requests in too short a time: wait", wait)
            self._full_at[name] = full_at
            if len(self._full_at) > _BUCKETS:
                self._full_at = {name: at for name, at in self._full_at.items() if at > now}


class RateLimits:
    """The buckets of one app."""

    def __init__(self, settings: Settings, clock: Callable[[], float] = time.monotonic) -> None:
        self.users = Buckets(settings.requests_per_second, settings.burst, clock)
        logins, plans = settings.logins_per_minute, settings.plans_per_minute
        self.logins = Buckets(logins / 60, logins, clock)
        self.plans = Buckets(plans / 60, plans, clock)
        # A form asks at every change, for what is quickly answered.
        self.planner = Buckets(10 * plans / 60, 10 * plans, clock)


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
    """Refuse a login if too many came from its address."""
    request.app.state.limits.logins.take(address_of(request))


async def count_plan(request: Request) -> None:
    """Refuse an anonymous plan if too many came from its address."""
    request.app.state.limits.plans.take(address_of(request))


async def count_planner(request: Request) -> None:
    """Refuse a request of the planner's page if too many came from its address."""
    request.app.state.limits.planner.take(address_of(request))


LoginCounted = Annotated[None, Depends(count_login)]
PlanCounted = Annotated[None, Depends(count_plan)]
PlannerCounted = Annotated[None, Depends(count_planner)]


async def streamed(request: Request, largest: int) -> AsyncIterator[bytes]:
    """Read a large body piece by piece; 413 if it is longer than `largest` bytes."""
    request.scope[LARGEST] = largest
    async for piece in request.stream():
        yield piece
