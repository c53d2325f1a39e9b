"""Version 1 of the REST API, one module per kind of thing.

A module has a `router`; those in ROUTERS are served under /api/v1.
"""

from __future__ import annotations

from easeml_meter.server.api.history import auditing as audit
from easeml_meter.server.api.history import handing_over as handovers
from easeml_meter.server.api.history import router as signals
from easeml_meter.server.api.meters import planning
from easeml_meter.server.api.meters import router as meters
from easeml_meter.server.api.submissions import router as submissions
from easeml_meter.server.api.testsets import requesting
from easeml_meter.server.api.testsets import router as testsets
from easeml_meter.server.api.uploads import router as uploads
from easeml_meter.server.api.users import router as users
from easeml_meter.server.api.validation import router as validation

ROUTERS = [
    submissions,  # asked most often, so tried first
    users,
    meters,
    planning,
    requesting,
    uploads,
    testsets,
    validation,
    signals,
    handovers,
    audit,
]
