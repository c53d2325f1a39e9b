"""Webhooks of a meter: an admin's to manage."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field

from easeml_meter.core.notifications import Webhook
from easeml_meter.server.api.common import Given, Line, Listed, PageHere, paged
from easeml_meter.server.api.routing import ApiRoute
from easeml_meter.server.auth import ActorHere, MeterHere, SettingsHere, SiteHere
from easeml_meter.server.errors import answers
from easeml_meter.server.idempotency import OnceHere
from easeml_meter.server.parameters import Id
from easeml_meter.service.notifications import webhooks
from easeml_meter.service.notifications.events import EVENTS

router = APIRouter(prefix="/meters/{meter}/webhooks", tags=["webhooks"], route_class=ApiRoute)


class NewWebhook(Given):
    """An address to be notified of what happens at a meter."""

    url: Annotated[str, Field(min_length=1, max_length=500, pattern=r"^https?://[\x21-\x7e]+$")]
    events: Annotated[
        list[Line],
        Field(min_length=1, max_length=100, default_factory=lambda: list(EVENTS)),
    ]
    """Signals are told only if named: `told:1` for those of tenant 1."""


class ShownWebhook(BaseModel):
    """A webhook, and how many of its messages are waiting, arrived, or were given up."""

    id: str
    meter: str
    url: str
    events: list[str]
    created_at: str
    waiting: int
    sent: int
    given_up: int


class MadeWebhook(ShownWebhook):
    """A new webhook, with the secret that its messages are signed with. It is shown once."""

    secret: str


@router.get("", responses=answers(404))
def list_webhooks(
    meter: MeterHere, site: SiteHere, actor: ActorHere, page: PageHere
) -> Listed[ShownWebhook]:
    """List the webhooks of a meter."""
    return paged(
        webhooks.webhooks(actor, site, meter),
        page,
        key=lambda each: f"{each.created_at} {each.id}",
        show=_shown,
    )


@router.post("", status_code=201, response_model=MadeWebhook, responses=answers(404, 409))
async def add_webhook(
    meter: MeterHere,
    given: NewWebhook,
    site: SiteHere,
    actor: ActorHere,
    *,
    settings: SettingsHere,
    once: OnceHere,
) -> JSONResponse:
    """Add a webhook: from now on it is notified of what happens."""

    def make() -> tuple[int, MadeWebhook]:
        made, secret = webhooks.add_webhook(
            actor, site, meter, given.url, given.events, private=settings.private_webhooks
        )
        return 201, MadeWebhook(**_shown(made).model_dump(), secret=secret)

    return await once.answer(make, actor=actor, use_case=webhooks.add_webhook, secret=True)


@router.delete("/{webhook}", status_code=204, responses=answers(404))
def remove_webhook(meter: MeterHere, webhook: Id, site: SiteHere, actor: ActorHere) -> Response:
    """Remove a webhook, and what is waiting to be sent to it."""
    webhooks.remove_webhook(actor, site, meter, webhook)
    return Response(status_code=204)


def _shown(webhook: Webhook) -> ShownWebhook:
    return ShownWebhook.model_validate(asdict(webhook))
