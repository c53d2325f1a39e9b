"""Validation sets: the developers' own, in the clear."""

from __future__ import annotations

from typing import Annotated, Literal, get_args

from fastapi import APIRouter, Query, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import StreamingResponse
from pydantic import BaseModel

from easeml_meter.errors import invalid
from easeml_meter.server.api.common import (
    ApiRoute,
    Listed,
    PageHere,
    file_response,
    gives,
    paged,
)
from easeml_meter.server.api.forms import file_body, file_of
from easeml_meter.server.auth import ActorHere, SettingsHere, WorkspaceHere
from easeml_meter.server.errors import answers
from easeml_meter.server.parameters import Number, one_line
from easeml_meter.service import validation
from easeml_meter.service.actor import permit
from easeml_meter.tables.opening import PACKED
from easeml_meter.tables.source import Held

router = APIRouter(tags=["validation sets"], route_class=ApiRoute)

Suffix = Literal["parquet", "arrow", "csv", "tsv", "jsonl", "json", "npy"]
GivenSuffix = Annotated[
    Suffix,
    Query(description="Format of the file; by default the ending of its name, or parquet."),
]
Label = Annotated[str, one_line(least=1)]
IdColumn = Annotated[
    str, one_line("Column that predictions are joined by; empty: none. Default: as before.")
]
Cluster = Annotated[
    str, one_line("Column that says which rows belong together, for a meter of clusters.")
]


class ValidationShown(BaseModel):
    """A validation set; the one with the highest number is in force."""

    number: int
    rows: int
    digest: str
    label: str
    id_column: str | None
    cluster: str | None
    """The column of clusters, where one example is a cluster of rows."""
    classes: list[str] | list[int] | None
    """The classes that occur in it, or those declared; None where the loss has no classes."""
    added_at: str
    suffix: str
    """The ending of the file, which says its format."""


@router.get("/meters/{meter}/validation-sets", responses=answers(404))
def list_validation_sets(
    actor: ActorHere, space: WorkspaceHere, page: PageHere
) -> Listed[ValidationShown]:
    """List the validation sets, the oldest first."""
    return paged(
        validation.list_validation_sets(actor, space),
        page,
        key=lambda each: f"{each.number:09}",
        show=lambda each: ValidationShown(**each.to_json()),
    )


@router.post(
    "/meters/{meter}/validation-sets",
    operation_id="give_validation_set",
    status_code=201,
    responses=answers(404, 409, 413),
    openapi_extra=file_body(),
)
async def set_validation(  # noqa: PLR0917
    request: Request,
    settings: SettingsHere,
    actor: ActorHere,
    space: WorkspaceHere,
    suffix: GivenSuffix | None = None,
    label: Label | None = None,
    id_column: IdColumn | None = None,
    cluster: Cluster | None = None,
) -> ValidationShown:
    """Hand in the first validation set, or replace it from the next submission on.

    The file is the body itself, or the field `file` of a form.
    """
    # Refused before the body is read: a stranger's may be long.
    permit(actor, validation.give_validation)
    body, name = await file_of(request, settings)
    ending = suffix or _suffix_of(name)
    given = await run_in_threadpool(
        validation.give_validation,
        actor,
        space,
        Held(f"validation.{ending}", body, limits=space.limits),
        label=label,
        id_column=id_column,
        cluster=cluster,
    )
    return ValidationShown(**given.to_json())


def _suffix_of(name: str) -> str:
    stem, _, ending = name.rpartition(".") if "." in name else ("", "", "parquet")
    if f".{ending}" in PACKED:
        return f"{_suffix_of(stem)}.{ending}"
    if ending not in get_args(Suffix):
        allowed = f"a file that ends with one of {', '.join(get_args(Suffix))}, or suffix"
        raise invalid("file", name[:80], allowed)
    return ending


@router.get(
    "/meters/{meter}/validation-sets/{number}/file",
    operation_id="download_validation_set",
    responses=answers(404) | gives("application/octet-stream", "The file, as it was given."),
    response_class=StreamingResponse,
)
def validation_file(actor: ActorHere, space: WorkspaceHere, number: Number) -> StreamingResponse:
    """Download a validation set."""
    name = validation.validation_file(actor, space, number)
    return file_response(space, name, "application/octet-stream")
