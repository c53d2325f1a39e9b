"""Where the bands of each answer begin, if their edges are drawn."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Add the column; the edges of all answers before were fixed."""
    column = sa.Column("first_edge", sa.String(32), nullable=False, server_default="")
    op.add_column("entries", column)
