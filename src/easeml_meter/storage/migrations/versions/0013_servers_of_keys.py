"""Requests under way name their server, so that others can tell when it has died."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    """Add the column; requests of the version before name none."""
    op.add_column("idempotency", sa.Column("server", sa.BigInteger))
