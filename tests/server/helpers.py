"""A site with users of every role, and clients that speak to its app in this process."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal
from fastapi import APIRouter, FastAPI
from starlette.routing import BaseRoute
from tests.forms import typed
from tests.service.helpers import actor_of, small_spec

from easeml_meter.core.people import Role, User
from easeml_meter.server.app import create_app
from easeml_meter.server.settings import Settings
from easeml_meter.service import seats, tokens, users
from easeml_meter.service.actor import ANYONE, SYSTEM
from easeml_meter.service.meters import create_meter
from easeml_meter.service.place import Clock, Site, utc_now
from easeml_meter.spec import MeterSpec

API = "http://server/api/v1"
PASSWORD = "correct horse battery"  # noqa: S105
NO_ID = "0" * 32
"""The id of nothing."""

SQLITE = pytest.mark.parametrize("database", ["sqlite"], indirect=True)
"""For what is refused before any database is asked."""


class _InProcess(httpx.BaseTransport):
    """Hand requests to an app without a network; answers are whole (no server-sent events)."""

    def __init__(self, app: FastAPI, portal: BlockingPortal, address: str) -> None:
        self._inner = httpx.ASGITransport(app, raise_app_exceptions=False, client=(address, 1))
        self._portal = portal

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        typed(request)
        return self._portal.call(self._answer, request)

    async def _answer(self, request: httpx.Request) -> httpx.Response:
        sent = httpx.Request(
            request.method,
            request.url,
            headers=request.headers,
            content=request.read(),
            extensions=request.extensions,
        )
        answer = await self._inner.handle_async_request(sent)
        body = b"".join([part async for part in answer.aiter_raw()])
        return httpx.Response(answer.status_code, headers=answer.headers, content=body)


@dataclass
class Served:
    """A site, its app, and the users made so far, each with a token."""

    site: Site
    app: FastAPI
    portal: BlockingPortal
    users: dict[str, User] = field(default_factory=dict)
    tokens: dict[str, str] = field(default_factory=dict)

    def add_user(self, name: str, **options: Any) -> User:
        """Open an account with a token."""
        user = users.add_user(SYSTEM, self.site, name, **options)
        self.users[name] = user
        self.tokens[name] = tokens.make_token(actor_of(user.id), self.site, "test")[1]
        return user

    def session(self, name: str) -> str:
        """Sign a user in without the sign-in page."""
        given = self.tokens[name]
        return tokens.log_in_by_token(ANYONE, self.site, name, given, days=0.5, purpose="browser")[
            1
        ]

    def add_meter(self, spec: MeterSpec | None = None, *, prefix: str = "") -> str:
        """Make a meter with a user for each seat, named by role, tenants after the first numbered.

        With one tenant: developer, labeler, runner; with two also developer2 and runner2.
        """
        spec = spec or small_spec()
        meter = create_meter(SYSTEM, self.site, spec, f"{prefix}meter").id
        given = [(f"{prefix}labeler", Role.LABELER, 0)]
        for tenant in range(1, max(1, len(spec.tenants)) + 1):
            suffix = "" if tenant == 1 else str(tenant)
            given += [
                (f"{prefix}{role}{suffix}", role, tenant) for role in (Role.DEVELOPER, Role.RUNNER)
            ]
        for name, role, tenant in given:
            user = self.add_user(name)
            seats.add_seat(SYSTEM, self.site.space(meter), user.id, role, tenant)
        return meter

    def client(self, user: str | None = None, *, token: str | None = None) -> httpx.Client:
        """Give a client with a user's token, another token, or none. Paths are below /api/v1."""
        secret = self.tokens[user] if user is not None else token
        headers = {} if secret is None else {"Authorization": f"Bearer {secret}"}
        return self.client_from("192.0.2.1", headers=headers)

    def client_from(self, address: str, **options: Any) -> httpx.Client:
        """Give a client at an address."""
        transport = _InProcess(self.app, self.portal, address)
        return httpx.Client(transport=transport, base_url=API, **options)


_included: dict[int, BaseRoute] = {}


def _share_routes(app: FastAPI) -> None:
    """Let all apps of a test process have what FastAPI works out of a router, once, for the first.

    It takes a tenth of a second, at the first request: longer than most of what tests ask.
    """
    for number, route in enumerate(app.router.routes):
        router = getattr(route, "original_router", None)
        if router is not None:
            app.router.routes[number] = _included.setdefault(id(router), route)


@contextmanager
def serve(
    folder: Path,
    *,
    clock: Clock = utc_now,
    database: str | None = None,
    **settings: Any,
) -> Iterator[Served]:
    """Make a site in a folder with the user `admin` and, without a seat anywhere, `stranger`."""
    chosen = Settings(folder=folder, **settings)
    folder.mkdir(parents=True, exist_ok=True)
    url = database or chosen.database_url
    site = Site.open(
        url,
        chosen.files_place,
        chosen.key_file,
        clock,
        limits=chosen.table_limits,
        room=chosen.room,
    )
    with start_blocking_portal() as portal:
        served = Served(site, create_app(site, chosen), portal)
        _share_routes(served.app)
        served.add_user("admin", admin=True)
        served.add_user("stranger")
        try:
            yield served
        finally:
            site.close()


def status(served: Served, token: str | None) -> tuple[int, str]:
    """Ask who one is; return the status, and the message of an error."""
    answer = served.client(token=token).get("/me")
    return answer.status_code, answer.json().get("message", "")


def log_in(served: Served, name: str, password: str) -> int:
    """Log in; return the status."""
    return served.client().post("/login", json={"name": name, "password": password}).status_code


def add_route(served: Served, error: Exception) -> None:
    router = APIRouter()

    @router.get("/fails/{name}")
    def fails(name: str) -> None:
        raise error

    served.app.include_router(router, prefix="/api/v1")


def own_lines(log: io.StringIO) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in log.getvalue().splitlines()]
    return [line for line in lines if line["level"] != "debug"]
