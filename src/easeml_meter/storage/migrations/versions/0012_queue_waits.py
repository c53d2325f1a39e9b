"""A table for how long submissions waited in the queue, whichever worker began them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    """Make it; what was begun before is not counted."""
    op.create_table(
        "queue_waits",
        sa.Column("bound", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("submissions", sa.BigInteger, nullable=False),
        sa.Column("seconds", sa.Float, nullable=False),
    )
