"""Notifications as values: webhooks, and messages on their way to a webhook or by e-mail."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from easeml_meter.errors import MeterError


class DeliveryState(StrEnum):
    """Where a message stands."""

    WAITING = "waiting"
    SENT = "sent"
    GIVEN_UP = "given up"


@dataclass(frozen=True, slots=True)
class Webhook:
    """An address that is notified of what happens at a meter, and what became of its messages."""

    id: str
    meter: str
    url: str
    events: tuple[str, ...]
    created_at: str
    waiting: int = 0
    sent: int = 0
    given_up: int = 0


@dataclass(frozen=True, slots=True)
class Delivery:
    """A message on its way; the record of it that admins see."""

    id: str
    webhook: str | None
    """Id of the webhook it goes to; None: it goes by e-mail."""
    address: str
    body: dict[str, Any]
    state: DeliveryState
    attempts: int
    due_at: str
    created_at: str

    @classmethod
    def new(
        cls, identifier: str, webhook: str | None, address: str, body: dict[str, Any], now: str
    ) -> Delivery:
        """Return a message that is due at once."""
        return cls(identifier, webhook, address, body, DeliveryState.WAITING, 0, now, now)


@dataclass(frozen=True, slots=True)
class Message:
    """What is sent: a signed body to a URL, or an e-mail if there are no headers."""

    id: str
    address: str
    body: dict[str, Any]
    content: bytes
    headers: dict[str, str] | None
    """The id, time and signature of a webhook's message."""


class Undelivered(MeterError):
    """A message did not arrive; it is tried again later."""


class Unsendable(Undelivered):
    """A message cannot even be made; trying it again would not help."""
