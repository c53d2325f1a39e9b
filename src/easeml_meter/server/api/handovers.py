"""Hand-over of a checkpoint from one tenant to another: shown first, then confirmed."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field

from easeml_meter.server.api.common import Given
from easeml_meter.server.api.routing import ApiRoute
from easeml_meter.server.auth import ActorHere, WorkspaceHere
from easeml_meter.server.errors import answers
from easeml_meter.server.idempotency import OnceHere
from easeml_meter.service.handovers import Consequence, hand_over

router = APIRouter(tags=["hand-overs"], route_class=ApiRoute)

Tenant = Annotated[int, Field(ge=1, le=1_000_000)]


class HandoverAsked(Given):
    """Who gives a checkpoint to whom; without `confirm`, only returns what it would cost."""

    giver: Tenant
    receiver: Tenant
    confirm: bool = False


class HandoverShown(BaseModel):
    """What a hand-over means for the budget."""

    recorded: bool
    generation: int
    giver: int
    receiver: int
    sharing: list[int]
    steps_left_before: list[int]
    steps_left_after: int
    labels_planned_shared: int
    spends: bool
    """Whether the test set is spent afterwards."""
    sentence: str


@router.post("/meters/{meter}/handovers", responses=answers(404, 409), response_model=HandoverShown)
async def handover(
    actor: ActorHere, space: WorkspaceHere, once: OnceHere, given: HandoverAsked
) -> JSONResponse:
    """Return what a hand-over would do to the budget; with `confirm`, record it."""

    def make() -> tuple[int, HandoverShown]:
        found = hand_over(actor, space, given.giver, given.receiver, confirm=given.confirm)
        return 200, _shown(found, recorded=given.confirm)

    return await once.answer(make, actor=actor, use_case=hand_over)


def _shown(found: Consequence, *, recorded: bool) -> HandoverShown:
    return HandoverShown(
        recorded=recorded,
        generation=found.generation,
        giver=found.giver,
        receiver=found.receiver,
        sharing=list(found.sharing),
        steps_left_before=list(found.steps_left_before),
        steps_left_after=found.steps_left_after,
        labels_planned_shared=found.labels_planned_shared,
        spends=found.spends,
        sentence=found.sentence,
    )
