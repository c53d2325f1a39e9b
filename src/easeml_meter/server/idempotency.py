"""Idempotency-Key: a request that is sent again is answered again, and not done again."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
from asyncio import CancelledError
from collections import deque
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any

from fastapi import Depends, Header, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse
from pydantic import BaseModel

from easeml_meter.core.idempotency import KEPT, NOBODY, KeyedRequest, Place
from easeml_meter.core.model import stamp
from easeml_meter.errors import FilesUnusable, MeterError, StorageError, UnderWay, to_keep
from easeml_meter.server.auth import CallerHere
from easeml_meter.server.batching import Batches
from easeml_meter.service.actor import Actor, permit
from easeml_meter.service.place import Site
from easeml_meter.storage.store import carrying_out
from easeml_meter.vault.keys import unwrap, wrap

KEY = r"^[\x21-\x7e]+$"
KEY_HEADER = "Idempotency-Key"
Key = Annotated[
    str | None,
    Header(
        alias=KEY_HEADER,
        min_length=1,
        max_length=200,
        pattern=KEY,
        description="Sent again with the same request, it gets the same answer; nothing is redone.",
    ),
]


Run = Callable[[Callable[[], "Answer"]], Awaitable["Answer"]]
Answer = tuple[int, Any]
"""The status and the body of an answer; the body is JSON, or a model of pydantic's."""


@dataclass(frozen=True)
class Once:
    """A request that may carry a key."""

    site: Site
    keys: KeyBatches
    user: str
    key: str | None
    request: str
    """What the key stands for: method, path and query, and the body unless that is streamed."""

    async def answer(
        self,
        make: Callable[[], Answer],
        *,
        actor: Actor,
        use_case: Callable[..., Any],
        body: bytes = b"",
        secret: bool = False,
        run: Run = run_in_threadpool,
    ) -> JSONResponse:
        """Answer with the status and body that `make` returns, or returned when the key came first.

        `make` has the actor run the use case, in a thread that `run` has. What it needs is checked
        here, too: a stored answer is only for those who may still ask for it. `body` is the body if
        it was streamed.
        A request that is refused leaves its key unused, and so does one that fails, unless a part
        of it was committed. With `secret`, only the server's key opens what is stored.
        """
        permit(actor, use_case)
        asked = self.asked(body)
        if asked is None:
            status, content = await _made(make, run)
            return JSONResponse(content, status)
        asked = replace(asked, server=self.keys.server)
        try:
            entered = await self.keys.begun(self.user, asked)
        except StorageError:
            # It may be entered all the same, and would seem under way for as long as we live.
            await run_in_threadpool(partial(self.keys.give_up, asked, uncommitted=True))
            raise
        if entered.status is not None:
            content = _opened(self.site, entered.body) if secret else entered.body
            return replayed(replace(entered, body=content))
        made = False
        try:
            status, content = await _made(partial(_carried_out, entered, make), run)
            made = True
            kept = _sealed(self.site, content) if secret else content
        except BaseException as error:
            # Also if it was cancelled: its client would wait for as long as this server lives. What
            # is not a refusal may have been committed, and must then not be done again.
            uncommitted, running = made or not _refuses(error), isinstance(error, CancelledError)
            give_up = partial(self.keys.give_up, uncommitted=uncommitted, running=running)
            await run_in_threadpool(give_up, entered)
            raise
        # The answer is kept before it leaves: a client that never hears it asks again.
        await self.keys.finished(self.user, entered.answered(status, kept))
        return JSONResponse(content, status)

    def asked(self, body: bytes = b"") -> KeyedRequest | None:
        """Return the request as it is known by its key; None if it has none."""
        if self.key is None:
            return None
        digest = hashlib.sha256(body).hexdigest() if body else ""
        request = hashlib.sha256(f"{self.request}\n{digest}".encode()).hexdigest()
        return KeyedRequest(self.user, self.key, request, self.site.now())


def replayed(request: KeyedRequest) -> JSONResponse:
    """Answer a request as it was answered when its key came first."""
    return JSONResponse(request.body, request.status or 200, {"Idempotency-Replayed": "true"})


def _carried_out(request: KeyedRequest, make: Callable[[], Answer]) -> Answer:
    with carrying_out(request):
        return make()


def _refuses(error: BaseException) -> bool:
    """Whether an error says that nothing was done; disks and databases fail at any moment."""
    fails = isinstance(error, StorageError | FilesUnusable)
    return isinstance(error, MeterError) and not fails


async def _made(make: Callable[[], Answer], run: Run) -> Answer:
    status, content = await run(make)
    if isinstance(content, BaseModel):
        content = content.model_dump(mode="json")
    return status, content


def _sealed(site: Site, body: Any) -> str:
    sealed = wrap(json.dumps(body).encode(), [site.identity.recipient])
    return base64.b64encode(sealed).decode()


def _opened(site: Site, body: str) -> Any:
    return json.loads(unwrap(base64.b64decode(body), site.identity))


class KeyBatches:
    """Enters keys and answers; those of one user that come at the same time, together."""

    def __init__(self, site: Site, server: int | None = None) -> None:
        self._site = site
        self.server = secrets.randbits(62) if server is None else server
        """The number of this process, which others look for when it may have died."""
        self._left: deque[Callable[[], None]] = deque()
        self.begun = Batches(self._begin)
        self.finished = Batches(self._finish)

    def _begin(self, user: str, given: list[KeyedRequest]) -> list[KeyedRequest | Exception]:
        """Enter requests; return each as it was answered before, or as entered now."""
        with self._site.store.writing(user) as books:
            before = books.idempotency.known(given)
            others = {each.server for each in before.values() if each.server is not None}
            alive = books.idempotency.alive(others - {self.server, NOBODY}) | {self.server}
            known = dict(before)
            found = [_found(known, request, alive) for request in given]
            for number, request in enumerate(given):
                stale = before.get(request.place) if found[number] is request else None
                if stale is not None and not books.idempotency.take_over(stale):
                    found[number] = UnderWay("Idempotency-Key: that request is under way: wait")
            fresh = [now for request, now in zip(given, found, strict=True) if now is request]
            books.idempotency.add(fresh)
        return found

    def give_up(self, request: KeyedRequest, *, uncommitted: bool, running: bool = False) -> None:
        """Free the key of a request that failed; with `uncommitted` only if nothing counts.

        If something does, whoever repeats it is told so, unless its thread is still `running`:
        what that commits next would be refused. Without a database, all this is done as soon as
        there is one.
        """
        give_up = partial(self._give_up, request, uncommitted=uncommitted, running=running)
        try:
            give_up()
        except StorageError:
            self._left.append(give_up)

    def free_left(self) -> None:
        """Free the keys that could not be freed, and keep the answers that could not be kept."""
        while self._left:
            end = self._left.popleft()
            try:
                end()
            except Exception:
                self._left.append(end)  # behind the others: it may be the only one that fails
                raise

    def _give_up(self, request: KeyedRequest, *, uncommitted: bool, running: bool) -> None:
        with self._site.store.writing(request.user) as books:
            books.idempotency.give_up(request, uncommitted=uncommitted)
            if uncommitted and not running:
                books.idempotency.leave(request)

    def _finish(self, user: str, given: list[KeyedRequest]) -> list[Exception | None]:
        try:
            self._answer(user, given)
        except Exception:
            # Each by itself: one of them may be what fails. Until then their clients wait.
            self._left.extend(partial(self._answer, user, [each]) for each in given)
            raise
        return [None for _ in given]

    def _answer(self, user: str, given: list[KeyedRequest]) -> None:
        with self._site.store.writing(user) as books:
            books.idempotency.answer(given)


def _found(
    known: dict[Place, KeyedRequest], request: KeyedRequest, alive: Collection[int]
) -> KeyedRequest | Exception:
    """Return the request as it was answered before, itself if it was not, or why it must wait."""
    try:
        before = request.before(known, alive)
    except MeterError as error:
        return to_keep(error)
    if before is None:
        known[request.place] = request  # the same key may come again in the same batch
    return before or request


def forget_old_keys(site: Site) -> None:
    """Free the keys that are no longer honored."""
    with site.writing() as books:
        books.idempotency.forget_before(stamp(site.clock() - KEPT))


async def once(request: Request, caller: CallerHere, key: Key = None) -> Once:
    """Return the key of a request with a small body."""
    body = hashlib.sha256(await request.body()).hexdigest()
    state, asked = request.app.state, f"{_asked(request)}\n{body}"
    return Once(state.site, state.keys, caller.user.id, key, asked)


def once_streamed(request: Request, actor: Actor, key: str | None) -> Once:
    """Return the key of a request whose body the route reads itself."""
    state, asked = request.app.state, _asked(request)
    return Once(state.site, state.keys, actor.user, key, asked)


def _asked(request: Request) -> str:
    return f"{request.method} {request.url.path}?{request.url.query}"


OnceHere = Annotated[Once, Depends(once)]
