"""The model that each answer compares with."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Add the column; no answer before compared two models."""
    op.add_column("entries", sa.Column("old", sa.Integer, nullable=False, server_default="0"))
