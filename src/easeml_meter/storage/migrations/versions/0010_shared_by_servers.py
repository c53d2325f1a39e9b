"""Tables for what servers share: releases that wait for a worker, and wrong passwords."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    """Make them; releases were part of a request before, and each process counted for itself."""
    op.create_table(
        "releases",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("meter", sa.String(32), nullable=False),
        sa.Column("generation", sa.Integer, nullable=False),
        sa.Column("user", sa.String(32), nullable=False),
        sa.Column("turn", sa.Integer, nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("problem", sa.JSON),
        sa.Column("at", sa.String(32), nullable=False),
        sa.ForeignKeyConstraint(
            ["meter", "generation"], ["generations.meter", "generations.number"]
        ),
        sa.UniqueConstraint("meter", "generation"),
    )
    op.create_table(
        "guesses",
        sa.Column("key", sa.String(64), primary_key=True),
        sa.Column("failures", sa.Integer, nullable=False),
        sa.Column("until", sa.String(32), nullable=False),
    )
