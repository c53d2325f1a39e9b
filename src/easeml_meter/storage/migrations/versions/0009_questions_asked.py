"""Which of a meter's questions each answer is to."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    """Add the column; every meter before had one question."""
    op.add_column("entries", sa.Column("asked", sa.Integer, nullable=False, server_default="0"))
