"""Meters, and plans for new ones."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from pydantic import BaseModel

from easeml_meter.core.history import promised_of
from easeml_meter.core.questions.asking import plan_question
from easeml_meter.core.questions.labels import from_tables
from easeml_meter.core.questions.planning import plan_of
from easeml_meter.errors import invalid
from easeml_meter.promise.solve import MOST_LABELS
from easeml_meter.server.api.common import ApiRoute, Given, Line, Listed, PageHere, paged
from easeml_meter.server.auth import ActorHere, CallerHere, SiteActorHere, SiteHere, WorkspaceHere
from easeml_meter.server.errors import answers
from easeml_meter.server.limits import PlanCounted, planned
from easeml_meter.service import meters
from easeml_meter.service.actor import permit
from easeml_meter.service.meters import MeterSummary
from easeml_meter.spec.strata import check_new_strata

router = APIRouter(tags=["meters"], route_class=ApiRoute)
planning = APIRouter(tags=["plans"], route_class=ApiRoute)


class NewMeter(Given):
    """A meter to be made: the tables of its meter.toml."""

    name: Line
    settings: dict[str, Any]
    id: str | None = None
    """32 hexadecimal digits, drawn at random: asked for once more, it is the same meter."""


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
    """The tables of a meter.toml; with labels, whether so many are enough. Or another question."""

    settings: dict[str, Any] | None = None
    question: dict[str, Any] | None = None
    """The options of `meter plan` for questions other than the gap."""
    labels: int | None = None


@router.get("/meters", responses=answers())
def list_meters(
    site: SiteHere, caller: CallerHere, actor: SiteActorHere, page: PageHere
) -> Listed[MeterListed]:
    """List the meters at which one has a seat; an admin sees all."""
    return paged(
        meters.list_meters(actor, site, caller),
        page,
        key=lambda found: f"{found[0].created_at} {found[0].id}",
        show=lambda found: MeterListed(
            id=found[0].id, name=found[0].name, created_at=found[0].created_at, roles=found[1]
        ),
    )


@router.post("/meters", status_code=201, responses=answers(409, 413))
def create_meter(site: SiteHere, actor: SiteActorHere, given: NewMeter) -> MeterShown:
    """Make a meter, and ask for its first test set (admins)."""
    permit(actor, meters.create_meter)  # before anything is read from the settings
    spec = from_tables(given.settings)
    made = meters.create_meter(actor, site, spec, given.name, given.id)
    return _shown(meters.show_meter(actor, site.space(made.id)))


@router.get("/meters/{meter}", responses=answers(404))
def show_meter(actor: ActorHere, space: WorkspaceHere) -> MeterShown:
    """Show what a meter promises and where its test set stands, but no answers."""
    return _shown(meters.show_meter(actor, space))


@router.post("/meters/{meter}/archive", responses=answers(404, 409))
def archive_meter(actor: ActorHere, space: WorkspaceHere) -> MeterShown:
    """Give a meter up before its first answer, for good (admins)."""
    meters.archive_meter(actor, space)
    return _shown(meters.show_meter(actor, space))


def _shown(found: MeterSummary) -> MeterShown:
    return MeterShown(
        id=found.meter.id,
        name=found.meter.name,
        created_at=found.meter.created_at,
        settings=found.meter.settings,
        promise=promised_of(found.spec, found.current),
        assumptions=list(found.plan.assumptions),
        labels=found.plan.labels,
        generation=found.current.number,
        phase=found.current.phase,
        rows=found.current.rows,
        recipient=found.recipient,
        tenants=found.tenants,
    )


@planning.post("/plans", operation_id="plan_meter", responses=answers(only=(413, 422, 429)))
async def plan(_: PlanCounted, request: Request, given: PlanAsked) -> dict[str, Any]:
    """Return how many labels a meter needs; with `labels`, whether those are enough.

    `question` in place of `settings` plans another question: its keys are the options of
    `meter plan`, such as `{"ask": "n > 0.8 +/- 0.01", "steps": 32}`.
    """
    if (given.settings is None) == (given.question is None):
        raise invalid("plan", "settings and question", "give one of them")
    return await planned(request, _plan, given)


def _plan(given: PlanAsked) -> dict[str, Any]:
    if given.question is not None:
        return plan_question(**{"labels": given.labels, **given.question}).to_dict()
    spec = from_tables(given.settings or {})
    check_new_strata(spec)
    found = plan_of(spec).to_dict()
    if given.labels is not None:
        if not 1 <= given.labels <= MOST_LABELS:
            raise invalid("labels", given.labels, f"a number from 1 to {MOST_LABELS}")
        if found["labels"] is None:
            raise invalid("labels", given.labels, f"the plan is of {found['unit']}: leave them out")
        found["enough"] = given.labels >= found["labels"]
    return found
