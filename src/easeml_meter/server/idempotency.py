"""Idempotency-Key: a request that is sent again is answered again, and not done again."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Any

import sqlalchemy as sa
from fastapi import Depends, Header, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.encoders import jsonable_encoder
from fastapi.responses import JSONResponse

from easeml_meter.core.model import stamp
from easeml_meter.errors import MeterError, UnderWay
from easeml_meter.server.auth import CallerHere
from easeml_meter.server.batching import Gathering
from easeml_meter.service.place import Site
from easeml_meter.service.tokens import Caller
from easeml_meter.storage.books import Books
from easeml_meter.storage.schema import idempotency
from easeml_meter.vault.keys import unwrap, wrap

KEPT = timedelta(days=1)
LOST = timedelta(minutes=10)
"""After this, a request still under way is taken for one that died with its server."""

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


Row = dict[str, Any]


@dataclass(frozen=True)
class Once:
    """A request that may carry a key."""

    site: Site
    user: str
    key: str | None
    request: str
    """What the key stands for: method, path and query, and the body unless that is streamed."""

    def answer(
        self, make: Callable[[], tuple[int, Any]], *, body: bytes = b"", secret: bool = False
    ) -> JSONResponse:
        """Answer with the status and body that `make` gives, or gave when the key came first.

        `body` is the body if it was streamed. What fails leaves the key unused.
        With `secret`, what is stored can be read with the server's key only.
        """
        if self.key is None:
            status, content = make()
            return JSONResponse(jsonable_encoder(content), status)
        found = self._begin(body)
        if found is not None:
            content = self._opened(found["body"]) if secret else found["body"]
            return JSONResponse(content, found["status"], {"Idempotency-Replayed": "true"})
        try:
            status, content = make()
            plain = jsonable_encoder(content)
        except BaseException:
            self._forget()
            raise
        self._finish(status, self._sealed(plain) if secret else plain)
        return JSONResponse(plain, status)

    async def answer_later(
        self, make: Callable[[], Coroutine[Any, Any, tuple[int, Any]]], *, body: bytes, keys: Keys
    ) -> JSONResponse:
        """Answer as `answer` does with what `make` gives in the end; that must be plain JSON.

        Keys of one user that come at the same time are entered together.
        """
        if self.key is None:
            status, content = await make()
            return JSONResponse(content, status)
        found = await keys.begun(self.user, (self, body))
        if found is not None:
            return JSONResponse(found["body"], found["status"], {"Idempotency-Replayed": "true"})
        try:
            status, content = await make()
        except BaseException:
            await run_in_threadpool(self._forget)
            raise
        await keys.finished(self.user, (self, status, content))
        return JSONResponse(content, status)

    def _begin(self, body: bytes) -> Row | None:
        """Enter the key; give what was answered under it before."""
        (found,) = _begin_all(self.user, [(self, body)])
        if isinstance(found, Exception):
            raise found
        return found

    def enter(self, books: Books, body: bytes) -> Row | None:
        """Enter the key in a transaction; give what was answered under it before."""
        digest = hashlib.sha256(body).hexdigest() if body else ""
        request = hashlib.sha256(f"{self.request}\n{digest}".encode()).hexdigest()
        now = self.site.clock()
        found = books.connection.execute(_FIND, self._mine).first()
        row = None if found is None else found._asdict()
        if row is not None and not _stale(row, now):
            if row["request"] != request:
                raise MeterError("Idempotency-Key: it came with another request: use a new one")
            if row["status"] is None:
                raise UnderWay("Idempotency-Key: that request is still under way: wait")
            return row
        if row is not None:
            books.connection.execute(_FORGET, self._mine)
        new = {"user": self.user, "key": self.key, "request": request, "created_at": stamp(now)}
        books.connection.execute(idempotency.insert(), new)
        return None

    def left(self, status: int, body: Any) -> Row:
        """Say what was answered."""
        return {**self._mine, "answered": status, "answer": body}

    def _finish(self, status: int, body: Any) -> None:
        _finish_all(self.user, [(self, status, body)])

    def _forget(self) -> None:
        with self.site.store.writing(self.user) as books:
            books.connection.execute(_FORGET, self._mine)

    @property
    def _mine(self) -> dict[str, str | None]:
        return {"whose": self.user, "which": self.key}

    def _sealed(self, body: Any) -> str:
        sealed = wrap(json.dumps(body).encode(), [self.site.identity.recipient])
        return base64.b64encode(sealed).decode()

    def _opened(self, body: str) -> Any:
        return json.loads(unwrap(base64.b64decode(body), self.site.identity))


class Keys:
    """Enters keys of one user together, and what was answered."""

    def __init__(self) -> None:
        self.begun = Gathering(_begin_all)
        self.finished = Gathering(_finish_all)


def _begin_all(user: str, given: list[tuple[Once, bytes]]) -> list[Row | Exception | None]:
    found: list[Row | Exception | None] = []
    with given[0][0].site.store.writing(user) as books:
        for once, body in given:
            try:
                found.append(once.enter(books, body))
            except MeterError as error:  # nothing was entered for it
                found.append(error)
    return found


def _finish_all(user: str, given: list[tuple[Once, int, Any]]) -> list[Exception | None]:
    with given[0][0].site.store.writing(user) as books:
        books.connection.execute(_ANSWER, [once.left(status, body) for once, status, body in given])
    return [None for _ in given]


# Building a statement takes longer than carrying it out.
_MINE = (idempotency.c.user == sa.bindparam("whose")) & (idempotency.c.key == sa.bindparam("which"))
_FIND = idempotency.select().where(_MINE)
_FORGET = idempotency.delete().where(_MINE)
_ANSWER = (
    idempotency.update()
    .where(_MINE)
    .values(status=sa.bindparam("answered"), body=sa.bindparam("answer"))
)


def _stale(row: Row, now: datetime) -> bool:
    age = now - datetime.fromisoformat(row["created_at"])
    return age > (LOST if row["status"] is None else KEPT)


def forget_old_keys(site: Site) -> None:
    """Drop the keys that are no longer honoured."""
    with site.writing() as books:
        old = idempotency.c.created_at < stamp(site.clock() - KEPT)
        books.connection.execute(idempotency.delete().where(old))


def forget_unfinished(site: Site) -> None:
    """Free the keys of requests that ended with an earlier process; only where no other serves."""
    with site.writing() as books:
        books.connection.execute(idempotency.delete().where(idempotency.c.status.is_(None)))


async def once(request: Request, caller: CallerHere, key: Key = None) -> Once:
    """Give the key of a request with a small body."""
    body = hashlib.sha256(await request.body()).hexdigest()
    return Once(request.app.state.site, caller.user.id, key, f"{_asked(request)}\n{body}")


def once_streamed(request: Request, caller: Caller, key: str | None) -> Once:
    """Give the key of a request whose body the route reads itself."""
    asked = _asked(request) if key is not None else ""
    return Once(request.app.state.site, caller.user.id, key, asked)


def _asked(request: Request) -> str:
    return f"{request.method} {request.url.path}?{request.url.query}"


OnceHere = Annotated[Once, Depends(once)]
