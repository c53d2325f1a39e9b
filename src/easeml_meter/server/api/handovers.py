"""Hand-overs of a checkpoint: shown first, then requested by one team and accepted by the other."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter
from pydantic import BaseModel, Field

from easeml_meter.core.views import Consequence
from easeml_meter.server.api.common import Given, Listed, PageHere, paged
from easeml_meter.server.api.routing import ApiRoute
from easeml_meter.server.auth import ActorHere, WorkspaceHere
from easeml_meter.server.errors import answers
from easeml_meter.service.handovers import answer_handover, hand_over, list_handovers

router = APIRouter(tags=["hand-overs"], route_class=ApiRoute)

Tenant = Annotated[int, Field(ge=1, le=1_000_000)]


class HandoverAsked(Given):
    """Who gives a checkpoint to whom; without `confirm`, only returns what it would cost."""

    giver: Tenant
    receiver: Tenant
    confirm: bool = False


class HandoverAnswered(Given):
    """Whether a team agrees to a hand-over."""

    giver: Tenant
    receiver: Tenant
    accept: bool


class HandoverShown(BaseModel):
    """What a hand-over means for the budget, and who has agreed to it."""

    recorded: bool
    """Whether it counts: all teams in `sharing` have agreed."""
    generation: int
    giver: int
    receiver: int
    sharing: list[int]
    steps_left_before: list[int]
    steps_left_after: int
    labels_planned_shared: int
    spends: bool
    """Whether the test set is spent afterwards."""
    agreed: list[int]
    waiting_for: list[int]
    """The teams that have not agreed yet."""
    sentence: str
    standing: str


@router.get("/meters/{meter}/handovers", operation_id="list_handovers", responses=answers(404))
def list_requested(actor: ActorHere, space: WorkspaceHere, page: PageHere) -> Listed[HandoverShown]:
    """List the hand-overs that wait for a team to agree: your team's; admins see all."""

    def place(found: Consequence) -> str:
        return f"{found.giver:09} {found.receiver:09}"

    waiting = sorted(list_handovers(actor, space), key=place)
    return paged(waiting, page, key=place, show=_shown)


@router.post(
    "/meters/{meter}/handovers",
    operation_id="request_handover",
    responses=answers(404, 409),
)
def handover(actor: ActorHere, space: WorkspaceHere, given: HandoverAsked) -> HandoverShown:
    """Return what a hand-over would do to the budget; with `confirm`, request it.

    It counts once every team that would share the history has agreed.
    """
    return _shown(hand_over(actor, space, given.giver, given.receiver, confirm=given.confirm))


@router.post(
    "/meters/{meter}/handovers/answer",
    operation_id="answer_handover",
    responses=answers(404, 409),
)
def answer(actor: ActorHere, space: WorkspaceHere, given: HandoverAnswered) -> HandoverShown:
    """Agree to a hand-over that was requested, or decline it (the other team, or an admin)."""
    return _shown(answer_handover(actor, space, given.giver, given.receiver, accept=given.accept))


def _shown(found: Consequence) -> HandoverShown:
    return HandoverShown(**found.to_json())
