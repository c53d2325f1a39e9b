"""Test sets: requested, delivered by labelers, and handed out once they are spent."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse, Response, StreamingResponse
from pydantic import BaseModel, Field

from easeml_meter.core.model import LabelRequest, ReleaseRequest
from easeml_meter.server.api.common import (
    ApiRoute,
    Given,
    Listed,
    PageHere,
    file_response,
    gives,
    paged,
    pair_of,
)
from easeml_meter.server.api.forms import file_body, file_of
from easeml_meter.server.api.uploads import InboxHere
from easeml_meter.server.auth import ActorHere, TenantActorHere, WorkspaceHere
from easeml_meter.server.errors import answers
from easeml_meter.server.middleware import REPORT_POLICY
from easeml_meter.server.parameters import FileName, Number
from easeml_meter.service import validation
from easeml_meter.service.actor import permit
from easeml_meter.service.place import Workspace
from easeml_meter.service.testsets import (
    differences,
    inputs,
    orders,
    parts,
    release,
    releasing,
    requests,
    windows,
)
from easeml_meter.service.testsets.reuse import LabelerDecisions
from easeml_meter.service.uploads import finish_upload, take_in_whole

requesting = APIRouter(tags=["requests for labels"], route_class=ApiRoute)
router = APIRouter(tags=["test sets"], route_class=ApiRoute)

PARQUET = "application/vnd.apache.parquet"
_REPORT = {"Content-Security-Policy": REPORT_POLICY}


class PartShown(BaseModel):
    """Labels that have arrived."""

    number: int
    rows: int
    added_by: str
    added_at: str


class RequestShown(BaseModel):
    """Labels that are needed."""

    generation: int
    labels_needed: int
    labels_here: int
    reason: str | None
    deadline: str | None
    recipients: list[str]
    """Public keys (age) to seal the labels to."""
    since: str
    strata: dict[str, int] | None
    """How many rows each stratum has to have, where a test set is drawn stratum by stratum."""
    parts: list[PartShown]


class Described(Given):
    """Why labels are needed, and until when; what is left out is removed."""

    reason: (
        Annotated[
            str,
            Field(min_length=1, max_length=requests.LONGEST_REASON, pattern=r"^[^\x00-\x1f\x7f]+$"),
        ]
        | None
    ) = None
    deadline: Annotated[str, Field(max_length=32, description="ISO 8601, with a zone.")] | None = (
        None
    )


class NewTestSet(Given):
    """A sealed file that was uploaded: a test set, or some of its rows."""

    upload: str
    part: bool = False
    ids_renumbered: bool = False
    """Ids that earlier sets have with other inputs are other examples."""
    accept_shared: bool = False
    """Rows with the inputs of earlier sets were drawn independently."""
    accept_fewer: bool = False
    """There are no more rows, and their weaker promise will do."""


class ColumnShown(BaseModel):
    """A column's name and type."""

    name: str
    type: str


class TestSetShown(BaseModel):
    """What everyone with a seat may know of a test set."""

    generation: int
    phase: str
    rows: int | None
    """Examples, which the promise counts: rows, or clusters of rows."""
    labels_needed: int
    changed_at: str
    columns: list[ColumnShown]
    label: str | None
    id_column: str | None
    cluster_column: str | None
    """The column of clusters, where one example is a cluster of rows."""
    table_rows: int
    """Rows that predictions on it have."""


class TestSetAdded(TestSetShown):
    """A test set after labels were added to it."""

    labels_here: int


class Released(BaseModel):
    """A test set that is or will be handed out, and its files."""

    generation: int
    state: Literal["waiting", "released", "refused"]
    """Where a release stands that waits for a worker, as models have to run once more for it."""
    files: list[str]
    problem: dict[str, str] | None = None
    """Why it was refused after all: ask for it again, once that is mended."""


class ComparedShown(BaseModel):
    """One of two submissions that are compared."""

    step: int
    model: str
    test_loss: float


class ExampleShown(BaseModel):
    """A row of the test set on which the two submissions differ."""

    row: int
    id: Any
    label: Any
    predictions: Annotated[tuple[str, str], pair_of("string")]
    losses: Annotated[tuple[float, float], pair_of("number")]
    inputs: dict[str, Any]
    """The first columns; long texts are cut."""


class DifferencesShown(BaseModel):
    """What became worse and what became better, from the first submission to the second."""

    generation: int
    first: ComparedShown
    second: ComparedShown
    rows: int
    worse: int
    better: int
    zero_one: bool
    """Whether an example is right or wrong, and nothing between."""
    page: int
    pages: int
    examples: list[ExampleShown]
    """Those of this page that became worse, or better if these were asked for."""
    found: int
    """How many of these there are."""


class BatchShown(BaseModel):
    """A batch that has left the window of a rolling test set, and is released."""

    number: int
    rows: int


class Notice(BaseModel):
    """For labelers only: rows of a test set that are also in another set, or twice in itself."""

    at: str
    generation: int
    validation_set: int | None
    """The other set, if it is a validation set."""
    test_set: int | None
    """The other set, if it is an earlier test set."""
    rows_shared: int | None
    """None: not known, because there was nothing to compare."""
    first_rows: list[int]
    ids_renumbered: int
    """Rows with an id of the other set but other inputs."""
    sentence: str


class WantedShown(BaseModel):
    """Labels that a step waits for, where they are asked for on demand."""

    generation: int
    number: int
    """Of the order, from 1 on each test set."""
    labels: int
    since: str
    id_column: str
    ids: list[str]
    recipients: list[str]
    """Public keys (age) to encrypt the labels to."""


class LabelsGiven(BaseModel):
    """Labels that have come; the step that waited for them is answered."""

    generation: int
    number: int
    labels: int
    given_at: str


_WAITING: dict[int | str, dict[str, Any]] = {
    202: {"model": Released, "description": "It waits, or is under way."}
}


@requesting.get("/meters/{meter}/requests", responses=answers(404))
def list_requests(actor: ActorHere, space: WorkspaceHere, page: PageHere) -> Listed[RequestShown]:
    """List the open requests."""
    return paged(
        requests.list_requests(actor, space),
        page,
        key=lambda each: f"{each.test_set.number:09}",
        show=lambda each: RequestShown(**each.to_json()),
    )


@requesting.patch("/meters/{meter}/requests/{number}", responses=answers(404, 409, 413))
def describe_request(
    actor: ActorHere, space: WorkspaceHere, number: Number, given: Described
) -> RequestShown:
    """Say why labels are needed, and until when (labelers and admins)."""
    described = requests.describe_request(
        actor,
        space,
        number,
        reason=given.reason,
        deadline=given.deadline,
    )
    return RequestShown(**described.to_json())


@requesting.delete(
    "/meters/{meter}/requests/{number}/parts/{part}", status_code=204, responses=answers(404, 409)
)
def withdraw_part(actor: ActorHere, space: WorkspaceHere, number: Number, part: Number) -> None:
    """Take back labels that turned out wrong, before the test set begins (labelers)."""
    parts.withdraw_part(actor, space, number, part)


@requesting.get("/meters/{meter}/wanted", responses=answers(404))
def list_wanted(actor: ActorHere, space: WorkspaceHere, page: PageHere) -> Listed[WantedShown]:
    """List the labels on demand that a step waits for, at most one order (labelers)."""
    found = orders.wanted(actor, space)
    return paged(
        [] if found is None else [found],
        page,
        key=lambda each: f"{each.order.number:09}",
        show=lambda each: WantedShown(**each.to_json()),
    )


@requesting.post(
    "/meters/{meter}/wanted/labels",
    status_code=201,
    responses=answers(404, 409, 413),
    openapi_extra=file_body(),
)
async def give_labels(  # noqa: PLR0917
    request: Request,
    actor: ActorHere,
    space: WorkspaceHere,
    label: Annotated[str, Query(max_length=200, description="The label column.")],
    kind: Annotated[str, Query(max_length=20, pattern="^[a-z0-9]+$", description="As csv.")],
    id_column: Annotated[str | None, Query(max_length=200)] = None,
    keep_unknown_labels: bool = False,
    file_name: FileName = "",
) -> LabelsGiven:
    """Give the labels on demand that a step waits for, which is then answered (labelers).

    The file, a table with ids and labels, is encrypted (age) to a key of `recipients`.
    """
    permit(actor, orders.give_encrypted)  # before a body is read that may be large
    content, _ = await file_of(request, request.app.state.settings)
    columns = orders.Columns(
        label=label, id_column=id_column, keep_unknown_labels=keep_unknown_labels
    )
    give = partial(
        orders.give_encrypted, actor, space, content, columns, kind=kind, title=file_name
    )
    order = await request.app.state.labeling(give)
    return LabelsGiven(**{name: getattr(order, name) for name in LabelsGiven.model_fields})


@router.get("/meters/{meter}/test-sets", responses=answers(404))
def list_test_sets(actor: ActorHere, space: WorkspaceHere, page: PageHere) -> Listed[TestSetShown]:
    """List the test sets, requested and delivered, oldest first."""
    return paged(
        requests.list_test_sets(actor, space),
        page,
        key=lambda each: f"{each.number:09}",
        show=lambda each: TestSetShown(**each.to_json()),
    )


@router.post(
    "/meters/{meter}/test-sets",
    status_code=201,
    responses=answers(404, 409, 413),
)
async def add_test_set(
    request: Request, inbox: InboxHere, actor: ActorHere, given: NewTestSet
) -> TestSetAdded:
    """Take in a sealed file that was uploaded (labelers).

    With fewer rows than are needed, or `part`, it is a part; the test set begins with the part
    that makes them enough.
    """
    permit(actor, finish_upload)  # before it waits for others
    decided = given.ids_renumbered, given.accept_shared, given.accept_fewer
    decisions = LabelerDecisions(*decided)
    finish = partial(finish_upload, actor, inbox, given.upload, decisions, part=given.part)
    return _added(await request.app.state.labeling(finish))


@router.post(
    "/meters/{meter}/test-sets/file",
    status_code=201,
    responses=answers(404, 409, 413),
    openapi_extra=file_body(),
)
async def add_test_set_file(  # noqa: PLR0917
    request: Request,
    inbox: InboxHere,
    actor: ActorHere,
    part: Annotated[bool, Query(description="Some of the rows; more will come.")] = False,
    ids_renumbered: Annotated[
        bool,
        Query(description="Ids that earlier sets have with other inputs are other examples."),
    ] = False,
    accept_shared: Annotated[
        bool,
        Query(description="Rows with the inputs of earlier sets were drawn independently."),
    ] = False,
    accept_fewer: Annotated[
        bool, Query(description="There are no more rows, and their weaker promise will do.")
    ] = False,
) -> TestSetAdded:
    """Take in a sealed file that is sent with this request (labelers).

    The file is the body itself, or the field `file` of a form. One that is too large for one
    request is uploaded in pieces, with POST /uploads.
    """
    permit(actor, take_in_whole)  # before a body is read that may be large
    content, _ = await file_of(request, request.app.state.settings)
    decisions = LabelerDecisions(ids_renumbered, accept_shared, accept_fewer)
    take_in = partial(take_in_whole, actor, inbox, content, decisions, part=part)
    return _added(await request.app.state.labeling(take_in))


def _added(request: LabelRequest) -> TestSetAdded:
    return TestSetAdded(**request.test_set.to_json(), labels_here=request.labels_here)


@router.get("/meters/{meter}/test-sets/{number}", responses=answers(404))
def show_test_set(actor: ActorHere, space: WorkspaceHere, number: Number) -> TestSetShown:
    """Show a test set."""
    found = requests.show_test_set(actor, space, number)
    return TestSetShown(**found.to_json())


@router.get(
    "/meters/{meter}/test-sets/{number}/inputs",
    operation_id="download_test_inputs",
    responses=answers(404, 409) | gives(PARQUET, "Ids and inputs, without labels, as Parquet."),
    response_class=StreamingResponse,
)
def test_inputs(actor: ActorHere, space: WorkspaceHere, number: Number) -> StreamingResponse:
    """Download the test inputs: for labelers and runners, and for developers if they are public."""
    pieces = inputs.stream_inputs(actor, space, number)
    return StreamingResponse(pieces, media_type=PARQUET)


@router.post(
    "/meters/{meter}/test-sets/{number}/retire",
    responses=answers(404, 409),
    name="retire",
)
def retire_test_set(actor: ActorHere, space: WorkspaceHere, number: Number) -> TestSetShown:
    """Retire the active test set early, and request the next one (labelers and admins)."""
    return TestSetShown(**requests.retire_test_set(actor, space, number).to_json())


@router.post(
    "/meters/{meter}/test-sets/{number}/release",
    responses=answers(404, 409) | _WAITING,
    response_model=Released,
    name="release",
)
async def release_test_set(
    request: Request, actor: ActorHere, space: WorkspaceHere, number: Number
) -> JSONResponse:
    """Hand a spent test set to the developers, with what really happened (labelers).

    Where models were submitted, they run once more on a worker: the answer is then 202.
    """
    from easeml_meter.report.page import html_page

    permit(actor, releasing.request_release)  # before it waits for others
    hand_out = partial(releasing.request_release, actor, space, number, draw=html_page)
    asked = await request.app.state.labeling(hand_out)
    if asked is not None and request.app.state.worker is not None:
        request.app.state.worker.call()
    return await run_in_threadpool(_standing, space, number, asked)


@router.get(
    "/meters/{meter}/test-sets/{number}/release",
    responses=answers(404) | _WAITING,
    response_model=Released,
)
def show_release(actor: ActorHere, space: WorkspaceHere, number: Number) -> JSONResponse:
    """Show where a release stands that was asked for (labelers)."""
    return _standing(space, number, releasing.requested_release(actor, space, number))


def _standing(space: Workspace, number: int, asked: ReleaseRequest | None) -> JSONResponse:
    if asked is None:
        files = space.files.names(release.released_folder(number))
        shown = Released(generation=number, state="released", files=files)
    elif asked.problem is None:
        shown = Released(generation=number, state="waiting", files=[])
    else:
        shown = Released(generation=number, state="refused", files=[], problem=asked.problem)
    return JSONResponse(shown.model_dump(mode="json"), 202 if shown.state == "waiting" else 200)


@router.get(
    "/meters/{meter}/test-sets/{number}/released/{file}",
    operation_id="download_released_file",
    responses=answers(404) | gives("application/octet-stream", "The file."),
    response_class=Response,
)
def released_file(
    actor: TenantActorHere,
    space: WorkspaceHere,
    number: Number,
    # A fixed list: no other file, here or elsewhere, can be named.
    file: Literal["testset.parquet", "retrospective.json", "report.html"],
) -> Response:
    """Download a file of a released test set; of retrospective and report, your own team's."""
    match file:
        case "testset.parquet":
            return file_response(space, release.released_test_set(actor, space, number), PARQUET)
        case "retrospective.json":
            return JSONResponse(release.retrospective(actor, space, number))
        case "report.html":
            from easeml_meter.report.page import html_page

            page = html_page(release.released_session(actor, space, number))
            return Response(page, media_type="text/html", headers=_REPORT)


Step = Annotated[int | None, Query(ge=1, le=1_000_000_000)]


@router.get("/meters/{meter}/test-sets/{number}/compare", responses=answers(404))
def compare_submissions(  # noqa: PLR0917
    actor: TenantActorHere,
    space: WorkspaceHere,
    number: Number,
    first: Step = None,
    second: Step = None,
    better: Annotated[bool, Query(description="The examples that became better.")] = False,
    page: Annotated[int, Query(ge=1, le=1_000_000)] = 1,
) -> DifferencesShown:
    """Compare two of your team's submissions on a released test set, example by example.

    `first` and `second` are steps; unless given, the first and the last. Before release there is
    nothing to compare: which examples changed would tell their labels.
    """
    found = differences.compare_submissions(
        actor, space, number, (first, second), better=better, page=page
    )
    return DifferencesShown(**found.to_json())


@router.get("/meters/{meter}/batches", responses=answers(404))
def list_batches(actor: ActorHere, space: WorkspaceHere, page: PageHere) -> Listed[BatchShown]:
    """List the batches that have left the window of a rolling test set, the oldest first."""
    return paged(
        windows.released_batches(actor, space),
        page,
        key=lambda each: f"{each.number:09}",
        show=lambda each: BatchShown(number=each.number, rows=each.rows),
    )


@router.get(
    "/meters/{meter}/batches/{number}",
    operation_id="download_batch",
    responses=answers(404) | gives(PARQUET, "Rows and labels, as Parquet."),
    response_class=Response,
)
def released_batch(actor: ActorHere, space: WorkspaceHere, number: Number) -> Response:
    """Download a batch that has left the window of a rolling test set, with its labels."""
    return file_response(space, windows.released_batch(actor, space, number), PARQUET)


@router.get("/meters/{meter}/notices", responses=answers(404))
def list_notices(actor: ActorHere, space: WorkspaceHere, page: PageHere) -> Listed[Notice]:
    """List the notices to labelers."""
    return paged(
        enumerate(validation.list_notices(actor, space)),
        page,
        key=lambda each: f"{each[0]:09}",
        show=lambda each: Notice(**each[1].to_json()),
    )
