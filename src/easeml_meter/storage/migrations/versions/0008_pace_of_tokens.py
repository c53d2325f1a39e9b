"""The pace of tokens, and the answers that it counts."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Add the columns; no token before had a pace."""
    op.add_column("tokens", sa.Column("pace", sa.Integer))
    op.add_column("entries", sa.Column("token", sa.String(32), nullable=False, server_default=""))
