"""The first schema: meters, generations, validation sets, entries, audit."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create all tables."""
    op.create_table(
        "meters",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("settings", sa.JSON, nullable=False),
        sa.Column("created_at", sa.String(32), nullable=False),
    )
    op.create_table(
        "generations",
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
    op.create_table(
        "validation_sets",
        sa.Column("meter", sa.String(32), sa.ForeignKey("meters.id"), primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("rows", sa.BigInteger, nullable=False),
        sa.Column("settings", sa.JSON, nullable=False),
        sa.Column("blob", sa.String(200), nullable=False),
        sa.Column("added_at", sa.String(32), nullable=False),
    )
    op.create_table(
        "entries",
        sa.Column("meter", sa.String(32), primary_key=True),
        sa.Column("generation", sa.Integer, primary_key=True),
        sa.Column("tenant", sa.Integer, primary_key=True),
        sa.Column("step", sa.Integer, primary_key=True),
        sa.Column("answer", sa.String(16), nullable=False),
        sa.Column("after_reset", sa.Boolean, nullable=False),
        sa.Column("model", sa.String(200), nullable=False),
        sa.Column("submission", sa.String(64), nullable=False),
        sa.Column("validation_number", sa.Integer, nullable=False),
        sa.Column("validation_set", sa.String(64), nullable=False),
        sa.Column("validation_loss", sa.String(64), nullable=False),
        sa.Column("blob", sa.String(200), nullable=False),
        sa.Column("told_at", sa.String(32), nullable=False),
        sa.ForeignKeyConstraint(
            ["meter", "generation"], ["generations.meter", "generations.number"]
        ),
        sa.UniqueConstraint("meter", "generation", "tenant", "submission", "validation_set"),
    )
    op.create_table(
        "audit",
        sa.Column("meter", sa.String(32), sa.ForeignKey("meters.id"), primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("at", sa.String(32), nullable=False),
        sa.Column("event", sa.String(40), nullable=False),
        sa.Column("details", sa.JSON, nullable=False),
        sa.Column("previous", sa.String(64), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
    )
