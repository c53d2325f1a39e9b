"""Pages for people, one module per group.

A module has a `router`; those in ROUTERS are served at the root.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.types import Scope

from easeml_meter.errors import MeterError
from easeml_meter.server.errors import Problem, error_response
from easeml_meter.server.web.admin import router as admin
from easeml_meter.server.web.documentation import router as documentation
from easeml_meter.server.web.drafts import router as drafts
from easeml_meter.server.web.history import router as history
from easeml_meter.server.web.live import Live
from easeml_meter.server.web.live import router as following
from easeml_meter.server.web.meters import router as meters
from easeml_meter.server.web.pages import error_page, recognise, static
from easeml_meter.server.web.planner import router as planner
from easeml_meter.server.web.stories import router as stories
from easeml_meter.server.web.submissions import router as submitting
from easeml_meter.server.web.testsets import router as labeling
from easeml_meter.server.web.tokens import router as tokens

ROUTERS = [
    static,
    tokens,
    meters,
    history,
    following,
    submitting,
    labeling,
    stories,
    planner,
    drafts,
    admin,
    documentation,
]

_FOR_PROGRAMS = ("/api/", "/healthz", "/readyz", "/metrics")
_KEPT = ("retry-after", "allow")


def install(app: FastAPI) -> None:
    """Add the pages to an app, and show their errors as pages, too."""
    app.state.live = Live(app.state.site)
    for router in ROUTERS:
        app.include_router(router)
    for kind in (MeterError, RequestValidationError, HTTPException):
        app.exception_handler(kind)(_shaped(app.exception_handlers[kind]))


def _shaped(inner: Callable[..., Any]) -> Callable[[Request, Exception], Awaitable[Response]]:
    async def answer(request: Request, error: Exception) -> Response:
        told: Response = await inner(request, error)
        # Who asks stands in the books, and the event loop must not wait for them.
        await run_in_threadpool(recognise, request)
        problem = Problem(**json.loads(bytes(told.body)))
        shown = shape(request.scope, told.status_code, problem)
        for name in _KEPT:
            if name in told.headers:
                shown.headers[name] = told.headers[name]
        return shown

    return answer


def shape(scope: Scope, status: int, problem: Problem) -> Response:
    """Answer with an error: a page to people, JSON to programs."""
    if scope["path"].startswith(_FOR_PROGRAMS):
        return error_response(status, problem)
    return error_page(Request(scope), status, problem)
