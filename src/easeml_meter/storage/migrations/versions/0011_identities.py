"""Whom a provider of identities knows a user as."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    """Add the columns; no user was known by a provider before."""
    op.add_column("users", sa.Column("issuer", sa.String(500)))
    op.add_column("users", sa.Column("subject", sa.String(255)))
    op.create_index("users_known_as", "users", ["issuer", "subject"], unique=True)
