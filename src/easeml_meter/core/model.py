"""The domain's values: meters, test sets, validation sets, entries, hand-overs, audit links."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar

from easeml_meter.core.lifecycle import Phase


@dataclass(frozen=True, slots=True)
class Part:
    """Some of the labels that were asked for."""

    meter: str
    generation: int
    number: int
    rows: int
    digest: str
    blob: str
    added_by: str
    added_at: str


@dataclass(frozen=True, slots=True)
class MeterRecord:
    """A meter."""

    id: str
    name: str
    settings: dict[str, Any]
    created_at: str


@dataclass(frozen=True, slots=True)
class TestSet:
    """A test set, requested or delivered. The books call it a generation of its meter."""

    __test__: ClassVar[bool] = False  # its name looks like a test to pytest
    meter: str
    number: int
    phase: Phase
    labels_needed: int
    changed_at: str
    rows: int | None = None
    fingerprint: str | None = None
    manifest: dict[str, Any] | None = None
    blob: str | None = None
    reason: str | None = None
    """Why it was asked for, in the labelers' words."""
    deadline: str | None = None


@dataclass(frozen=True, slots=True)
class ValidationSet:
    """A validation set; the one with the highest number is in use."""

    meter: str
    number: int
    digest: str
    rows: int
    settings: dict[str, Any]
    blob: str
    added_at: str


@dataclass(frozen=True, slots=True)
class Entry:
    """One answer that was told."""

    meter: str
    generation: int
    tenant: int
    """From 1, as everywhere."""
    step: int
    answer: str
    after_reset: bool
    model: str
    submission: str
    validation_number: int
    validation_set: str
    """Digest of the validation set it was measured against."""
    validation_loss: str
    blob: str
    told_at: str
    user: str = ""
    """Id of whoever submitted it, where people have accounts."""


@dataclass(frozen=True, slots=True)
class AuditLink:
    """One link of the audit chain."""

    meter: str
    number: int
    at: str
    event: str
    details: dict[str, Any]
    previous: str
    digest: str


@dataclass(frozen=True, slots=True)
class HandOver:
    """A checkpoint that one tenant gave to another: from then on they share one history."""

    meter: str
    generation: int
    giver: int
    receiver: int
    at: str


def stamp(moment: datetime) -> str:
    """Write a moment as text that sorts in time."""
    return moment.isoformat(timespec="microseconds")
