"""Meters, and plans for new ones."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from fastapi.responses import JSONResponse
from pydantic import BaseModel

from easeml_meter.core.model import MeterRecord
from easeml_meter.errors import invalid
from easeml_meter.server.api.common import Given, Line, Listed, PageHere, paged, seat_for
from easeml_meter.server.api.routing import ApiRoute
from easeml_meter.server.auth import CallerHere, SiteHere
from easeml_meter.server.errors import answers
from easeml_meter.server.idempotency import OnceHere
from easeml_meter.server.limits import PlanCounted
from easeml_meter.server.parameters import Id
from easeml_meter.service import meters
from easeml_meter.service.actor import SYSTEM, Permission
from easeml_meter.service.place import Site
from easeml_meter.spec import MeterSpec
from easeml_meter.stats.planning import MAX_LABELS, required_labels

router = APIRouter(tags=["meters"], route_class=ApiRoute)


class NewMeter(Given):
    """A meter to be made: the tables of its meter.toml."""

    name: Line
    settings: dict[str, Any]


class MeterListed(BaseModel):
    """A meter in a list."""

    id: str
    name: str
    created_at: str
    roles: list[str]


class MeterShown(BaseModel):
    """What everyone with a seat may know of a meter."""

    id: str
    name: str
    created_at: str
    settings: dict[str, Any]
    promise: str
    assumptions: list[str]
    labels: int
    generation: int
    phase: str
    rows: int | None
    recipient: str
    """The server's public key (age): test sets are sealed to it."""
    tenants: int


class PlanAsked(Given):
    """The tables of a meter.toml; with labels, whether so many are enough."""

    settings: dict[str, Any]
    labels: int | None = None


@router.get("/meters", responses=answers())
def list_meters(site: SiteHere, caller: CallerHere, page: PageHere) -> Listed[MeterListed]:
    """List the meters at which one has a seat; an admin sees all."""
    with site.reading() as books:
        rows = [row for row in books.meters.all() if caller.seats(row.id)]

    def show(row: MeterRecord) -> MeterListed:
        roles = sorted({str(seat.role) for seat in caller.seats(row.id)})
        return MeterListed(id=row.id, name=row.name, created_at=row.created_at, roles=roles)

    return paged(rows, page, key=lambda row: f"{row.created_at} {row.id}", show=show)


@router.post("/meters", status_code=201, responses=answers(409, 413), response_model=MeterShown)
def create_meter(
    site: SiteHere, caller: CallerHere, once: OnceHere, given: NewMeter
) -> JSONResponse:
    """Make a meter, and ask for its first test set (an admin's deed)."""
    caller.require_admin()

    def make() -> tuple[int, MeterShown]:
        row = meters.create_meter(SYSTEM, site, _spec(given.settings), given.name)
        return 201, _shown(site, row.id)

    return once.answer(make)


@router.get("/meters/{meter}", responses=answers(404))
def show_meter(site: SiteHere, caller: CallerHere, meter: Id) -> MeterShown:
    """Show what a meter promises, and where its test set stands; nothing of the signals."""
    seat_for(site, caller, meter, Permission.SEE_METER)
    return _shown(site, meter)


def _shown(site: Site, meter: str) -> MeterShown:
    space = site.space(meter)
    with space.reading() as books:
        situation = space.state(books)
    plan, current = situation.plan, situation.current
    return MeterShown(
        id=meter,
        name=situation.meter.name,
        created_at=situation.meter.created_at,
        settings=situation.meter.settings,
        promise=plan.promise,
        assumptions=list(plan.assumptions),
        labels=plan.labels,
        generation=current.number,
        phase=current.phase,
        rows=current.rows,
        recipient=site.identity.recipient,
        tenants=situation.tenants,
    )


@router.post("/plans", responses=answers(only=(413, 422, 429)), tags=["plans"])
def plan(_: PlanCounted, given: PlanAsked) -> dict[str, Any]:
    """Tell how many labels a meter needs; with labels, whether those given are enough."""
    spec = _spec(given.settings)
    found = required_labels(spec).to_json()
    if given.labels is not None:
        if not 1 <= given.labels <= MAX_LABELS:
            raise invalid("labels", given.labels, f"a number from 1 to {MAX_LABELS}")
        found["enough"] = given.labels >= found["labels"]
    return found


def _spec(settings: dict[str, Any]) -> MeterSpec:
    return MeterSpec.from_mapping(settings)
