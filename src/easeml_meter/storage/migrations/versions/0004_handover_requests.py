"""A table for hand-overs that wait for a tenant to agree."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Make the table; hand-overs that were recorded before stay recorded."""
    numbers = ("generation", "giver", "receiver")
    op.create_table(
        "handover_requests",
        sa.Column("meter", sa.String(32), primary_key=True),
        *(sa.Column(name, sa.Integer, primary_key=True) for name in numbers),
        sa.Column("agreed", sa.JSON, nullable=False),
        sa.Column("at", sa.String(32), nullable=False),
        sa.ForeignKeyConstraint(
            ["meter", "generation"], ["generations.meter", "generations.number"]
        ),
    )
