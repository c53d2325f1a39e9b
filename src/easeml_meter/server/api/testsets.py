"""Test sets: given by labelers, and handed out once they are spent."""

from __future__ import annotations

import json
from typing import Any, Literal

from fastapi import APIRouter
from fastapi.responses import JSONResponse, Response, StreamingResponse
from pydantic import BaseModel

from easeml_meter.core.history import MeterState
from easeml_meter.core.lifecycle import Phase
from easeml_meter.core.model import TestSet
from easeml_meter.errors import NotFound, WrongPhase
from easeml_meter.server.api.common import (
    Given,
    Listed,
    PageHere,
    file_response,
    gives,
    paged,
    seat_for,
)
from easeml_meter.server.api.routing import ApiRoute
from easeml_meter.server.api.uploads import UploadsHere
from easeml_meter.server.auth import CallerHere, SiteHere, meter_for
from easeml_meter.server.errors import answers
from easeml_meter.server.idempotency import OnceHere
from easeml_meter.server.middleware import REPORT_POLICY
from easeml_meter.server.parameters import Id, Number, Tenant
from easeml_meter.service.actor import Permission
from easeml_meter.service.place import Site
from easeml_meter.service.testsets import inputs, parts, requests
from easeml_meter.service.testsets.release import released_folder

router = APIRouter(tags=["test sets"], route_class=ApiRoute)


class NewTestSet(Given):
    """A sealed file that was uploaded: a test set, or some of its rows."""

    upload: str
    part: bool = False


class ColumnShown(BaseModel):
    """A column's name and type."""

    name: str
    type: str


class TestSetShown(BaseModel):
    """What everyone with a seat may know of a test set."""

    generation: int
    phase: str
    rows: int | None
    labels_needed: int
    changed_at: str
    columns: list[ColumnShown]
    label: str | None
    id_column: str | None


class TestSetAdded(TestSetShown):
    """A test set after labels were added to it."""

    labels_here: int


class Released(BaseModel):
    """A test set that was handed out, and its files."""

    generation: int
    files: list[str]


@router.get("/meters/{meter}/test-sets", responses=answers(404))
def list_test_sets(
    site: SiteHere, caller: CallerHere, meter: Id, page: PageHere
) -> Listed[TestSetShown]:
    """List the test sets asked for and delivered, the oldest first."""
    seat_for(site, caller, meter, Permission.SEE_METER)
    rows = _situation(site, meter).generations
    return paged(rows, page, key=lambda row: f"{row.number:09}", show=_shown)


def _situation(site: Site, meter: str) -> MeterState:
    space = site.space(meter)
    with space.reading() as books:
        return space.state(books)


def _numbered(site: Site, meter: str, number: int) -> TestSet:
    for row in _situation(site, meter).generations:
        if row.number == number:
            return row
    raise NotFound(f"test set {number}: there is none of that number")


def _fields(row: TestSet) -> dict[str, Any]:
    manifest = row.manifest or {"columns": [], "label": {"name": None}, "id_column": None}
    return {
        "generation": row.number,
        "phase": row.phase,
        "rows": row.rows,
        "labels_needed": row.labels_needed,
        "changed_at": row.changed_at,
        "columns": [ColumnShown(**column) for column in manifest["columns"]],
        "label": manifest["label"]["name"],
        "id_column": manifest["id_column"],
    }


def _shown(row: TestSet) -> TestSetShown:
    return TestSetShown(**_fields(row))


@router.post(
    "/meters/{meter}/test-sets",
    status_code=201,
    responses=answers(404, 409, 413),
    response_model=TestSetAdded,
)
def add_test_set(
    uploads: UploadsHere,
    caller: CallerHere,
    once: OnceHere,
    meter: Id,
    given: NewTestSet,
) -> JSONResponse:
    """Take in a sealed file that was uploaded (a labeler's deed).

    With fewer rows than are needed, or `part`, it is a part; the test set begins with the part
    that makes them enough.
    """
    site = uploads.site
    seat_for(site, caller, meter, Permission.ADD_TEST_SET)

    def make() -> tuple[int, TestSetAdded]:
        upload = uploads.find(meter, caller.user.id, given.upload)
        row = parts.add_test_set(
            site.space(meter), uploads.finished(upload), user=caller.user.id, part=given.part
        )
        uploads.remove(upload)
        with site.reading() as books:
            here = row.rows or sum(part.rows for part in requests.parts_of(books, row))
        return 201, TestSetAdded(**_fields(row), labels_here=here)

    return once.answer(make)


@router.get("/meters/{meter}/test-sets/{number}", responses=answers(404))
def show_test_set(site: SiteHere, caller: CallerHere, meter: Id, number: Number) -> TestSetShown:
    """Show a test set."""
    seat_for(site, caller, meter, Permission.SEE_METER)
    return _shown(_numbered(site, meter, number))


@router.get(
    "/meters/{meter}/test-sets/{number}/inputs",
    responses=answers(404, 409)
    | gives("application/vnd.apache.parquet", "Ids and inputs, without labels, as Parquet."),
    response_class=StreamingResponse,
)
def test_inputs(site: SiteHere, caller: CallerHere, meter: Id, number: Number) -> StreamingResponse:
    """Give the test inputs: to labelers and runners, and if the meter says so to developers."""
    seat_for(site, caller, meter, Permission.SEE_METER)
    public = _situation(site, meter).spec.inputs == "public"
    # Whoever may see the validation set may see public inputs, which are as good as it.
    seat_for(
        site, caller, meter, Permission.SEE_VALIDATION if public else Permission.SEE_TEST_INPUTS
    )
    row = _numbered(site, meter, number)
    if row.phase is Phase.REQUESTED:
        raise WrongPhase(f"test set {number} was not delivered yet")
    pieces = inputs.stream_inputs(site.space(meter), row)
    return StreamingResponse(pieces, media_type="application/vnd.apache.parquet")


@router.post(
    "/meters/{meter}/test-sets/{number}/release",
    responses=answers(404, 409),
    response_model=Released,
)
def release(
    site: SiteHere, caller: CallerHere, once: OnceHere, meter: Id, number: Number
) -> JSONResponse:
    """Hand a spent test set to the developers, with what really happened (a labeler's deed)."""
    opened = meter_for(site, caller, meter, Permission.RELEASE)

    def make() -> tuple[int, Released]:
        _check_next(_situation(site, meter), _numbered(site, meter, number))
        opened.release()
        files = site.space(meter).files.names(released_folder(number))
        return 200, Released(generation=number, files=files)

    return once.answer(make)


def _check_next(situation: MeterState, row: TestSet) -> None:
    spent = [each.number for each in situation.generations if each.phase is Phase.SPENT]
    if row.number not in spent:
        raise WrongPhase(f"test set {row.number} is {row.phase}: only a spent one is released")
    if row.number != spent[0]:
        raise WrongPhase(f"test set {spent[0]} is spent, too: release it first")


@router.get(
    "/meters/{meter}/test-sets/{number}/released/{file}",
    responses=answers(404) | gives("application/octet-stream", "The file."),
    response_class=Response,
)
def released_file(  # noqa: PLR0917
    site: SiteHere,
    caller: CallerHere,
    meter: Id,
    number: Number,
    file: Literal["testset.parquet", "retrospective.json", "report.html"],
    tenant: Tenant = None,
) -> Response:
    """Give a file of a released test set; of retrospective and report, one's own tenant's."""
    deed = Permission.SEE_RELEASED if file == "testset.parquet" else Permission.SEE_SIGNALS
    seat = seat_for(site, caller, meter, deed, tenant=tenant)
    row = _numbered(site, meter, number)
    if row.phase is not Phase.RELEASED:
        raise NotFound(f"test set {number} was not released yet")
    space, folder = site.space(meter), released_folder(number)
    if file == "testset.parquet":
        return file_response(space, f"{folder}/{file}", "application/vnd.apache.parquet")
    opened = meter_for(site, caller, meter, deed, seat.tenant)
    if file == "report.html":
        from easeml_meter.report.page import html_page

        page = html_page(opened.status(generation=number))
        return Response(page, media_type="text/html", headers=_REPORT)
    records = json.loads(space.files.read(f"{folder}/{file}"))
    return JSONResponse([record for record in records if record["tenant"] == seat.tenant])


_REPORT = {"Content-Security-Policy": REPORT_POLICY}


class Notice(BaseModel):
    """What labelers alone are told: rows of a validation set that stand in the test set."""

    at: str
    validation_set: int
    generation: int
    rows_shared: int
    first_rows: list[int]


@router.get("/meters/{meter}/notices", responses=answers(404))
def list_notices(site: SiteHere, caller: CallerHere, meter: Id, page: PageHere) -> Listed[Notice]:
    """List the notices to labelers."""
    notices = meter_for(site, caller, meter, Permission.SEE_NOTICES).notices()
    found = [Notice.model_validate(each) for each in notices]
    return paged(found, page, key=lambda each: f"{each.validation_set:09}", show=lambda each: each)
