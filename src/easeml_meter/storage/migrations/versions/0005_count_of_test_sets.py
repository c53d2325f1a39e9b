"""Which histories of answers each test set counts."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Say that test sets requested before count all histories, as their plans did.

    The default stays: a server of the version before that still runs plans that way, too.
    """
    column = sa.Column("count", sa.String(16), nullable=False, server_default="all")
    op.add_column("generations", column)
