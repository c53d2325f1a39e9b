"""Validation sets: the developers' own, in the clear."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse, StreamingResponse
from pydantic import BaseModel

from easeml_meter.core.model import ValidationSet
from easeml_meter.errors import InvalidInput, NotFound, invalid
from easeml_meter.server.api.common import (
    Listed,
    PageHere,
    body_of,
    file_response,
    gives,
    paged,
    raw,
    seat_for,
)
from easeml_meter.server.api.routing import ApiRoute
from easeml_meter.server.auth import CallerHere, SettingsHere, SiteHere, meter_for
from easeml_meter.server.errors import answers
from easeml_meter.server.idempotency import Key, once_streamed
from easeml_meter.server.parameters import Id, Number
from easeml_meter.service.actor import Permission
from easeml_meter.service.meter import Meter
from easeml_meter.service.place import Site

router = APIRouter(tags=["validation sets"], route_class=ApiRoute)

Suffix = Literal["parquet", "arrow", "csv", "tsv", "jsonl", "npy"]
Label = Annotated[str, Query(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$")]


class ValidationShown(BaseModel):
    """A validation set; the one with the highest number is in force."""

    number: int
    rows: int
    digest: str
    label: str
    added_at: str


@router.get("/meters/{meter}/validation-sets", responses=answers(404))
def list_validation_sets(
    site: SiteHere, caller: CallerHere, meter: Id, page: PageHere
) -> Listed[ValidationShown]:
    """List the validation sets, the oldest first."""
    seat_for(site, caller, meter, Permission.SEE_VALIDATION)
    rows = validation_sets(site, meter)
    return paged(rows, page, key=lambda row: f"{row.number:09}", show=_shown)


def validation_sets(site: Site, meter: str) -> list[ValidationSet]:
    """Give a meter's validation sets, the oldest first."""
    with site.reading() as books:
        return books.validation.all(meter)


def _shown(row: ValidationSet) -> ValidationShown:
    return ValidationShown(
        number=row.number,
        rows=row.rows,
        digest=row.digest,
        label=row.settings["label"],
        added_at=row.added_at,
    )


@router.post(
    "/meters/{meter}/validation-sets",
    status_code=201,
    responses=answers(404, 409, 413),
    response_model=ValidationShown,
    openapi_extra=raw(),
)
async def set_validation(  # noqa: PLR0917
    request: Request,
    site: SiteHere,
    settings: SettingsHere,
    caller: CallerHere,
    meter: Id,
    suffix: Suffix = "parquet",
    label: Label | None = None,
    reset: bool = False,
    key: Key = None,
) -> JSONResponse:
    """Give the first validation set, or replace it, from the next submission on."""
    opened = meter_for(site, caller, meter, Permission.SET_VALIDATION)
    body = await body_of(request, settings)

    def make() -> tuple[int, ValidationShown]:
        file = GivenFile(body, suffix, label, reset)
        return 201, _shown(file.enter(opened, first=not validation_sets(site, meter)))

    once = once_streamed(request, caller, key)
    return await run_in_threadpool(once.answer, make, body=body)


@dataclass(frozen=True)
class GivenFile:
    """A validation set as it was sent."""

    body: bytes
    suffix: str
    label: str | None
    reset: bool

    def enter(self, opened: Meter, *, first: bool) -> ValidationSet:
        """Make it the first validation set, or replace the one before."""
        with _as_file(self.body, self.suffix) as path:
            if not first:
                return opened.replace_validation(path, label=self.label, reset=self.reset)
            if self.label is None or self.reset:
                given = "reset" if self.reset else None
                raise invalid("label", given, "the first validation set needs its label column")
            return opened.set_validation(path, label=self.label)


@contextmanager
def _as_file(body: bytes, suffix: str) -> Iterator[Path]:
    """Give the body as a file; errors name it without its folder."""
    with tempfile.TemporaryDirectory(prefix="easeml-meter-") as folder:
        path = Path(folder) / f"validation.{suffix}"
        path.write_bytes(body)
        try:
            yield path
        except InvalidInput as error:
            raise InvalidInput(str(error).replace(f"{folder}/", "")) from None


@router.get(
    "/meters/{meter}/validation-sets/{number}/file",
    responses=answers(404) | gives("application/octet-stream", "The file, as it was given."),
    response_class=StreamingResponse,
)
def validation_file(
    site: SiteHere, caller: CallerHere, meter: Id, number: Number
) -> StreamingResponse:
    """Give a validation set."""
    seat_for(site, caller, meter, Permission.SEE_VALIDATION)
    for row in validation_sets(site, meter):
        if row.number == number:
            return file_response(site.space(meter), row.blob, "application/octet-stream")
    raise NotFound(f"validation set {number}: there is none of that number")
