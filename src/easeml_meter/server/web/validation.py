"""Validation sets: handed in, replaced and downloaded on a meter's page."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Response
from fastapi.concurrency import run_in_threadpool

from easeml_meter.server.api.common import body_of
from easeml_meter.server.api.validation import Suffix
from easeml_meter.server.api.validation import validation_file as file_of_validation
from easeml_meter.server.parameters import FileName, Number, Tenant, one_line
from easeml_meter.server.web.meters import MeterPage
from easeml_meter.server.web.pages import VisitHere
from easeml_meter.service.actor import Permission
from easeml_meter.service.validation import give_validation
from easeml_meter.tables.source import Held

router = APIRouter(include_in_schema=False)

Column = Annotated[str, one_line()]


@router.post("/meters/{meter}/validation")
async def set_validation(  # noqa: PLR0917
    visit: VisitHere,
    meter: str,
    suffix: Suffix,
    label: Column = "",
    id_column: Column = "",
    cluster: Column = "",
    file_name: FileName = "",
) -> Response:
    """Hand in the first validation set, or replace it."""
    # Refused before the body is read: a stranger's may be long.
    actor = visit.at(meter).granted(Permission.SET_VALIDATION)
    body = await body_of(visit.request, visit.settings)

    def enter() -> Response:
        space = visit.site.space(meter)
        source = Held(f"validation.{suffix}", body, file_name, limits=space.limits)
        given = give_validation(
            actor,
            space,
            source,
            label=label or None,
            id_column=id_column,
            cluster=cluster or None,
        )
        return MeterPage.open(visit, meter).render("validated.html", entered=given)

    return await run_in_threadpool(enter)


@router.get("/meters/{meter}/validation")
def show_validation(visit: VisitHere, meter: str, tenant: Tenant = None) -> Response:
    """Show the validation set in use, and the form to replace it."""
    page = MeterPage.open(visit, meter, tenant)
    page.actor.granted(Permission.SEE_VALIDATION)
    return page.render("validation.html")


@router.get("/meters/{meter}/validation/{number}")
def validation_file(visit: VisitHere, meter: str, number: Number) -> Response:
    """Download a validation set."""
    return file_of_validation(visit.at(meter), visit.site.space(meter), number)
