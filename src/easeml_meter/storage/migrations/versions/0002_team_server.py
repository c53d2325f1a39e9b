"""The team server: users, members, tokens, parts of test sets, queued submissions, hand-overs."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Add the server's tables, and why and until when a test set is asked for."""
    op.add_column("generations", sa.Column("reason", sa.String(500)))
    op.add_column("generations", sa.Column("deadline", sa.String(32)))
    op.create_table(
        "handovers",
        sa.Column("meter", sa.String(32), primary_key=True),
        sa.Column("generation", sa.Integer, primary_key=True),
        sa.Column("giver", sa.Integer, primary_key=True),
        sa.Column("receiver", sa.Integer, primary_key=True),
        sa.Column("at", sa.String(32), nullable=False),
        sa.ForeignKeyConstraint(
            ["meter", "generation"], ["generations.meter", "generations.number"]
        ),
    )
    op.create_table(
        "users",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("name", sa.String(200), nullable=False, unique=True),
        sa.Column("email", sa.String(200)),
        sa.Column("password", sa.String(200)),
        sa.Column("admin", sa.Boolean, nullable=False),
        sa.Column("disabled", sa.Boolean, nullable=False),
        sa.Column("failures", sa.Integer, nullable=False),
        sa.Column("locked_until", sa.String(32)),
        sa.Column("created_at", sa.String(32), nullable=False),
    )
    op.create_table(
        "members",
        sa.Column("user", sa.String(32), sa.ForeignKey("users.id"), primary_key=True),
        sa.Column("meter", sa.String(32), sa.ForeignKey("meters.id"), primary_key=True),
        sa.Column("role", sa.String(16), primary_key=True),
        sa.Column("tenant", sa.Integer, primary_key=True),
        sa.Column("added_at", sa.String(32), nullable=False),
    )
    op.create_table(
        "tokens",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("user", sa.String(32), sa.ForeignKey("users.id"), nullable=False),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False, unique=True),
        sa.Column("scopes", sa.JSON, nullable=False),
        sa.Column("created_at", sa.String(32), nullable=False),
        sa.Column("expires_at", sa.String(32), nullable=False),
        sa.Column("revoked_at", sa.String(32)),
    )
    op.create_table(
        "uploads",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("meter", sa.String(32), sa.ForeignKey("meters.id"), nullable=False),
        sa.Column("user", sa.String(32), sa.ForeignKey("users.id"), nullable=False),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("size", sa.BigInteger, nullable=False),
        sa.Column("created_at", sa.String(32), nullable=False),
    )
    op.create_table(
        "parts",
        sa.Column("meter", sa.String(32), primary_key=True),
        sa.Column("generation", sa.Integer, primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("rows", sa.BigInteger, nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("blob", sa.String(200), nullable=False),
        sa.Column("added_by", sa.String(32), nullable=False),
        sa.Column("added_at", sa.String(32), nullable=False),
        sa.ForeignKeyConstraint(
            ["meter", "generation"], ["generations.meter", "generations.number"]
        ),
        sa.UniqueConstraint("meter", "generation", "digest"),
    )
    op.create_table(
        "submissions",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("meter", sa.String(32), sa.ForeignKey("meters.id"), nullable=False),
        sa.Column("tenant", sa.Integer, nullable=False),
        sa.Column("user", sa.String(32), sa.ForeignKey("users.id"), nullable=False),
        sa.Column("model", sa.String(200), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("blob", sa.String(200), nullable=False),
        sa.Column("options", sa.JSON, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("problem", sa.JSON),
        sa.Column("generation", sa.Integer),
        sa.Column("step", sa.Integer),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("created_at", sa.String(32), nullable=False),
        sa.Column("changed_at", sa.String(32), nullable=False),
    )
    op.create_table(
        "idempotency",
        sa.Column("user", sa.String(32), primary_key=True),
        sa.Column("key", sa.String(200), primary_key=True),
        sa.Column("request", sa.String(64), nullable=False),
        sa.Column("status", sa.Integer),
        sa.Column("body", sa.JSON),
        sa.Column("created_at", sa.String(32), nullable=False),
    )
    op.create_table(
        "webhooks",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("meter", sa.String(32), sa.ForeignKey("meters.id"), nullable=False),
        sa.Column("url", sa.String(500), nullable=False),
        sa.Column("events", sa.JSON, nullable=False),
        sa.Column("secret", sa.Text, nullable=False),
        sa.Column("seen", sa.Integer, nullable=False),
        sa.Column("created_at", sa.String(32), nullable=False),
    )
    op.create_table(
        "deliveries",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("webhook", sa.String(32)),
        sa.Column("address", sa.String(500), nullable=False),
        sa.Column("body", sa.JSON, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("due_at", sa.String(32), nullable=False),
        sa.Column("created_at", sa.String(32), nullable=False),
    )
    op.create_index("generations_by_fingerprint", "generations", ["fingerprint"], unique=True)
    op.create_index("submissions_by_state", "submissions", ["state", "created_at"])
    op.create_index("submissions_by_meter", "submissions", ["meter", "created_at"])
    op.create_index("deliveries_by_state", "deliveries", ["state", "due_at"])
