"""The application: routes, error shape, and what every request passes through."""

from __future__ import annotations

import threading

from anyio import CapacityLimiter
from fastapi import FastAPI

from easeml_meter.server import errors, metrics, web
from easeml_meter.server.api import ROUTERS, document
from easeml_meter.server.errors import PREFIX
from easeml_meter.server.limits import Apart, RateLimits
from easeml_meter.server.metrics import Metrics
from easeml_meter.server.middleware import Frame
from easeml_meter.server.oidc import provider_of
from easeml_meter.server.settings import Settings
from easeml_meter.service.place import Site
from easeml_meter.version import __version__

_SUBMITTED_AT_ONCE = 16
"""Submissions that are measured or wait for their meter's lock at the same time."""


def create_app(site: Site, settings: Settings) -> FastAPI:
    """Return the application that serves a site.

    `app.state.stopping` is set when the server stops; requests that wait for something look at it.
    `app.state.worker` is called when a submission was queued, if this process answers them itself.
    """
    app = FastAPI(
        title="easeml-meter",
        version=__version__,
        # FastAPI's own pages load scripts from elsewhere, which our policy forbids: /docs is ours.
        docs_url=None,
        redoc_url=None,
        openapi_url=f"{PREFIX}/openapi.json",
        openapi_tags=document.TAGS,
        description=document.ABOUT,
        generate_unique_id_function=document.operation_id,
    )
    app.state.site = site
    app.state.settings = settings
    app.state.limits = RateLimits(settings)
    app.state.hashing = Apart()
    app.state.labeling = Apart()
    app.state.submitting = Apart(_SUBMITTED_AT_ONCE)
    app.state.providing = Apart()
    app.state.planning = CapacityLimiter(2)
    app.state.provider = provider_of(settings)
    app.state.metrics = Metrics()
    app.state.stopping = threading.Event()
    app.state.worker = None
    errors.install(app)
    app.include_router(metrics.router)
    for router in ROUTERS:
        app.include_router(router, prefix=PREFIX)
    web.install(app)
    app.add_middleware(Frame, settings=settings, metrics=app.state.metrics, shape=web.shape)
    return app
