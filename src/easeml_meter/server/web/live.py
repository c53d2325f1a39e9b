"""Open pages that follow a meter: one watcher of the books per process, however many pages.

A page is told only that there is a newer link in the audit chain; everyone who may follow the meter
may count its links anyway. It then asks for what is new, as its reader may see it. However many
pages are open, answering submissions comes first: pages are told one after another, and what is new
is drawn once for all readers of one kind.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import AsyncIterator, Hashable, Iterator
from contextlib import contextmanager
from typing import Annotated

from fastapi import APIRouter, Header, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import StreamingResponse

from easeml_meter.core.views import Consequence
from easeml_meter.errors import MeterError, NotFound
from easeml_meter.server.api.history import Generation
from easeml_meter.server.auth import actor_at
from easeml_meter.server.parameters import Id, Tenant
from easeml_meter.server.web.history import LookHere
from easeml_meter.server.web.meters import MeterPage
from easeml_meter.server.web.pages import VisitHere, fragment, maybe_signed_in
from easeml_meter.service.actor import SYSTEM, Permission
from easeml_meter.service.audit import newest_link
from easeml_meter.service.place import Site

_LOG = logging.getLogger(__name__)

router = APIRouter(include_in_schema=False)

_LOOK = 1.0
"""Seconds between two looks at the books."""
_SIGN_OF_LIFE = 15
"""Looks after which a page hears that the connection still stands."""
_LONGEST = 600
"""Looks after which a page has to ask again, and to show that it still may."""
_PACE, _PACE_WHEN_BUSY = 50, 5
"""Pages that are told in a second, at most; fewer while answers are given all the time."""
_KEPT = 50
"""Drawings of what is new that are kept, the newest ones."""

After = Annotated[int, Query(ge=0, le=10**12)]


class Live:
    """Looks at the books once a second while any page is open, and wakes the pages."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._open: dict[str, int] = defaultdict(int)
        self._newest: dict[str, int] = {}
        self._looked = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._changing = self._busy = False
        self._turns, self._last_turn = asyncio.Lock(), 0.0
        self._news: dict[Hashable, str] = {}

    @contextmanager
    def following(self, meter: str) -> Iterator[None]:
        """Watch a meter for as long as a page is open."""
        if not self._open[meter]:
            self._newest.pop(meter, None)  # it was seen long ago
        self._open[meter] += 1
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._watch())
        try:
            yield
        finally:
            self._open[meter] -= 1
            if not self._open[meter]:
                del self._open[meter]

    def newest(self, meter: str) -> int:
        """Return the number of the newest link seen; 0 before the first look, or if none is due."""
        return self._newest.get(meter, 0) if meter in self._open else 0

    async def next_look(self) -> None:
        """Wait for the next look at the books."""
        await self._looked.wait()

    async def turn(self) -> None:
        """Wait until one more page may be told, in the order in which they came."""
        clock = asyncio.get_running_loop().time
        async with self._turns:
            pace = _PACE_WHEN_BUSY if self._busy else _PACE
            await asyncio.sleep(max(0.0, self._last_turn + 1 / pace - clock()))
            self._last_turn = clock()

    def news(self, kind: Hashable) -> str | None:
        """Return what was drawn for a kind of readers."""
        return self._news.get(kind)

    def keep(self, kind: Hashable, drawn: str) -> None:
        """Keep what was drawn; the oldest drawing goes."""
        self._news[kind] = drawn
        for old in list(self._news)[:-_KEPT]:
            self._news.pop(old, None)

    def _look(self, meters: tuple[str, ...]) -> dict[str, int]:
        return {meter: newest_link(SYSTEM, self._site.space(meter)) for meter in meters}

    async def _watch(self) -> None:
        while self._open:
            before = self._newest
            try:
                self._newest = await run_in_threadpool(self._look, tuple(self._open))
            except MeterError:  # it may go better the next time; until then, pages stay as they are
                _LOG.warning("open pages cannot be updated: the books cannot be read")
            changing = any(before.get(each, new) != new for each, new in self._newest.items())
            # What changes in two looks in a row is busy: a single answer slows no page down.
            self._busy, self._changing = changing and self._changing, changing
            # Whoever waits now holds the old event; those who come later wait for the next look.
            looked, self._looked = self._looked, asyncio.Event()
            looked.set()
            await asyncio.sleep(_LOOK)


@router.get("/meters/{meter}/live")
async def follow(
    visit: VisitHere,
    meter: Id,
    after: After = 0,
    last_event_id: Annotated[str, Header(max_length=12, pattern="^[0-9]*$")] = "",
) -> Response:
    """Tell a page whenever there is something new, by server-sent events."""
    actor = (await run_in_threadpool(visit.at, meter)).granted(Permission.AUDIT)
    with visit.request.app.state.limits.waits.counted(actor.user):
        pass  # refused while a status can still be sent
    events = _events(visit.request, actor.user, meter, int(last_event_id or after))
    return StreamingResponse(events, media_type="text/event-stream")


async def _events(request: Request, user: str, meter: str, after: int) -> AsyncIterator[str]:
    state = request.app.state
    if state.limits.waits.full(user):
        return  # by now it is too late to refuse: the status was sent
    with state.limits.waits.counted(user), state.live.following(meter):
        yield ": open\n\n"
        for look in range(_LONGEST):
            await state.live.next_look()
            if state.stopping.is_set():
                return
            newest = state.live.newest(meter)
            if newest > after:
                await state.live.turn()
            due = newest > after or look % _SIGN_OF_LIFE == 0
            if due and not await run_in_threadpool(_still_may, request, meter):
                return
            if newest > after:
                # More may have happened while it waited for its turn: that is told as well.
                after = newest = max(newest, state.live.newest(meter))
                yield f"id: {newest}\nevent: changed\ndata: {newest}\n\n"
            elif due:
                yield ": waiting\n\n"


def _still_may(request: Request, meter: str) -> bool:
    """Whether whoever opened a page still has the session and the seat with which they did."""
    site = request.app.state.site
    try:
        caller = maybe_signed_in(request, site)
        return caller is not None and actor_at(site, caller, meter).may(Permission.AUDIT)
    except NotFound:
        return False
    except MeterError:  # the books cannot be read: then there is nothing new either
        return True


@router.get("/meters/{meter}/changed")
def changed(
    visit: VisitHere,
    meter: Id,
    look: LookHere,
    tenant: Tenant = None,
    generation: Generation = None,
) -> Response:
    """Return the parts of a meter's page that change, to be put into it."""
    live: Live = visit.request.app.state.live
    seen = live.newest(meter)  # before the page reads anything: what is kept is never older
    page = MeterPage.open(visit, meter, tenant, generation, look)
    if not page.may("AUDIT"):
        return page.render("changed.html")
    # Whatever is shown to all readers of a kind, and changes, changes with a link of the chain, and
    # is drawn once for each look at it; how long ago things were is a minute old at most.
    seats = tuple(sorted(visit.at(meter).seats))
    minute = visit.site.now()[: len("2026-01-01T00:00")]
    kind = (meter, seen or page.link, seats, page.tenant, generation, look, minute)
    news = live.news(kind)
    handovers: tuple[Consequence, ...] = ()
    if news is None:
        session = page.session()
        news = fragment(visit.site, "news.html", page=page, session=session)
        handovers = session.view.handovers if session else ()
        if not handovers:  # their forms are each reader's own
            live.keep(kind, news)
    return visit.render("live.html", page=page, news=news, handovers=handovers)
