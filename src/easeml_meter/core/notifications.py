"""Notifications as values: messages on their way."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from easeml_meter.errors import MeterError


class DeliveryState(StrEnum):
    """Where a message stands."""

    WAITING = "waiting"
    SENT = "sent"
    GIVEN_UP = "given up"


@dataclass(frozen=True, slots=True)
class Delivery:
    """A message on its way."""

    id: str
    address: str
    """Where its e-mail goes; empty: it goes to those whom the setting `notify` names."""
    body: dict[str, str]
    """Its `subject` and its `text`; of an e-mail also what it is `about`."""
    state: DeliveryState
    attempts: int
    due_at: str
    created_at: str

    @classmethod
    def new(cls, identifier: str, address: str, body: dict[str, str], now: str) -> Delivery:
        """Return a message that is due at once."""
        return cls(identifier, address, body, DeliveryState.WAITING, 0, now, now)


class Undelivered(MeterError):
    """A message did not arrive; it is tried again later."""


class Unsendable(Undelivered):
    """A message cannot even be made; trying it again would not help."""
