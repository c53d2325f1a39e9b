"""The tables, and the frozen rows that are read from them.

Nothing here is derived from test labels but `entries.answer`, the published answer, and
`generations.fingerprint`, a keyed digest that only the meter's key can compute.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from easeml_meter.core.lifecycle import Phase

HEAD = "0001"
"""The newest migration; a database at it is opened without loading alembic."""

metadata = sa.MetaData()

meters = sa.Table(
    "meters",
    metadata,
    sa.Column("id", sa.String(32), primary_key=True),
    sa.Column("name", sa.String(200), nullable=False),
    sa.Column("settings", sa.JSON, nullable=False),  # the tables of meter.toml
    sa.Column("created_at", sa.String(32), nullable=False),
)

generations = sa.Table(
    "generations",
    metadata,
    sa.Column("meter", sa.String(32), sa.ForeignKey("meters.id"), primary_key=True),
    sa.Column("number", sa.Integer, primary_key=True),
    sa.Column("phase", sa.String(16), nullable=False),
    sa.Column("labels_needed", sa.BigInteger, nullable=False),
    sa.Column("rows", sa.BigInteger),
    sa.Column("fingerprint", sa.String(64)),
    sa.Column("manifest", sa.JSON),
    sa.Column("blob", sa.String(200)),
    sa.Column("changed_at", sa.String(32), nullable=False),
    sa.UniqueConstraint("meter", "fingerprint"),
)

validation_sets = sa.Table(
    "validation_sets",
    metadata,
    sa.Column("meter", sa.String(32), sa.ForeignKey("meters.id"), primary_key=True),
    sa.Column("number", sa.Integer, primary_key=True),
    sa.Column("digest", sa.String(64), nullable=False),
    sa.Column("rows", sa.BigInteger, nullable=False),
    sa.Column("settings", sa.JSON, nullable=False),  # label and id column, classes
    sa.Column("blob", sa.String(200), nullable=False),
    sa.Column("added_at", sa.String(32), nullable=False),
)

entries = sa.Table(
    "entries",
    metadata,
    sa.Column("meter", sa.String(32), primary_key=True),
    sa.Column("generation", sa.Integer, primary_key=True),
    sa.Column("tenant", sa.Integer, primary_key=True),
    # The last line of defence against a lost update: no two answers are the same step.
    sa.Column("step", sa.Integer, primary_key=True),
    sa.Column("answer", sa.String(16), nullable=False),
    sa.Column("after_reset", sa.Boolean, nullable=False),
    sa.Column("model", sa.String(200), nullable=False),
    sa.Column("submission", sa.String(64), nullable=False),
    sa.Column("validation_number", sa.Integer, nullable=False),
    sa.Column("validation_set", sa.String(64), nullable=False),
    sa.Column("validation_loss", sa.String(64), nullable=False),  # exact: a fraction, or a float
    sa.Column("blob", sa.String(200), nullable=False),
    sa.Column("told_at", sa.String(32), nullable=False),
    sa.ForeignKeyConstraint(["meter", "generation"], ["generations.meter", "generations.number"]),
    # An identical submission is answered from here, also after a crash that lost the answer.
    sa.UniqueConstraint("meter", "generation", "tenant", "submission", "validation_set"),
)

audit = sa.Table(
    "audit",
    metadata,
    sa.Column("meter", sa.String(32), sa.ForeignKey("meters.id"), primary_key=True),
    sa.Column("number", sa.Integer, primary_key=True),
    sa.Column("at", sa.String(32), nullable=False),
    sa.Column("event", sa.String(40), nullable=False),
    sa.Column("details", sa.JSON, nullable=False),
    sa.Column("previous", sa.String(64), nullable=False),
    sa.Column("digest", sa.String(64), nullable=False),
)


@dataclass(frozen=True, slots=True)
class MeterRow:
    """A meter."""

    id: str
    name: str
    settings: dict[str, Any]
    created_at: str


@dataclass(frozen=True, slots=True)
class GenerationRow:
    """A test set, asked for or delivered."""

    meter: str
    number: int
    phase: Phase
    labels_needed: int
    changed_at: str
    rows: int | None = None
    fingerprint: str | None = None
    manifest: dict[str, Any] | None = None
    blob: str | None = None


@dataclass(frozen=True, slots=True)
class ValidationRow:
    """A validation set; the one with the highest number is in use."""

    meter: str
    number: int
    digest: str
    rows: int
    settings: dict[str, Any]
    blob: str
    added_at: str


@dataclass(frozen=True, slots=True)
class EntryRow:
    """One answer that was told."""

    meter: str
    generation: int
    tenant: int
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


@dataclass(frozen=True, slots=True)
class AuditRow:
    """One link of the audit chain."""

    meter: str
    number: int
    at: str
    event: str
    details: dict[str, Any]
    previous: str
    digest: str


def stamp(moment: datetime) -> str:
    """Write a moment as text that sorts in time."""
    return moment.isoformat(timespec="microseconds")
