"""The schema; whoever changes a table before the first release changes `schema.py` and this."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = None


def upgrade() -> None:
    """Create all tables."""
    op.create_table(
        "meters",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("settings", sa.JSON, nullable=False),
        sa.Column("created_at", sa.String(32), nullable=False),
        sa.Column("notified", sa.Integer, nullable=False),
    )
    op.create_table(
        "generations",
        sa.Column("meter", sa.String(32), sa.ForeignKey("meters.id"), primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("phase", sa.String(16), nullable=False),
        sa.Column("labels_needed", sa.BigInteger, nullable=False),
        sa.Column("rows", sa.BigInteger),
        sa.Column("fingerprint", sa.String(64)),
        sa.Column("manifest", sa.JSON),
        sa.Column("blob", sa.String(200)),
        sa.Column("changed_at", sa.String(32), nullable=False),
        sa.Column("reason", sa.String(500)),
        sa.Column("deadline", sa.String(32)),
        sa.UniqueConstraint("meter", "fingerprint"),
    )
    op.create_index("generations_by_fingerprint", "generations", ["fingerprint"], unique=True)
    op.create_table(
        "validation_sets",
        sa.Column("meter", sa.String(32), sa.ForeignKey("meters.id"), primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("rows", sa.BigInteger, nullable=False),
        sa.Column("settings", sa.JSON, nullable=False),
        sa.Column("blob", sa.String(200), nullable=False),
        sa.Column("added_at", sa.String(32), nullable=False),
    )
    op.create_table(
        "entries",
        sa.Column("meter", sa.String(32), primary_key=True),
        sa.Column("generation", sa.Integer, primary_key=True),
        sa.Column("tenant", sa.Integer, primary_key=True),
        sa.Column("step", sa.Integer, primary_key=True),
        sa.Column("answer", sa.String(16), nullable=False),
        sa.Column("model", sa.String(200), nullable=False),
        sa.Column("submission", sa.String(64), nullable=False),
        sa.Column("validation_number", sa.Integer, nullable=False),
        sa.Column("validation_set", sa.String(64), nullable=False),
        sa.Column("validation_loss", sa.String(64), nullable=False),
        sa.Column("blob", sa.String(200), nullable=False),
        sa.Column("told_at", sa.String(32), nullable=False),
        sa.Column("user", sa.String(32), nullable=False),
        sa.Column("first_edge", sa.String(32), nullable=False),
        sa.Column("old", sa.Integer, nullable=False),
        sa.Column("token", sa.String(32), nullable=False),
        sa.Column("note", sa.String(200), nullable=False),
        sa.Column("link", sa.String(300), nullable=False),
        sa.ForeignKeyConstraint(
            ["meter", "generation"], ["generations.meter", "generations.number"]
        ),
        sa.UniqueConstraint("meter", "generation", "tenant", "submission", "validation_set"),
    )
    op.create_index("entries_by_submission", "entries", ["submission"])
    op.create_table(
        "accounts",
        sa.Column("meter", sa.String(32), primary_key=True),
        sa.Column("generation", sa.Integer, primary_key=True),
        sa.Column("tenant", sa.Integer, primary_key=True),
        sa.Column("step", sa.Integer, nullable=False),
        sa.Column("folded", sa.JSON, nullable=False),
        sa.ForeignKeyConstraint(
            ["meter", "generation"], ["generations.meter", "generations.number"]
        ),
    )
    op.create_table(
        "audit",
        sa.Column("meter", sa.String(32), sa.ForeignKey("meters.id"), primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("at", sa.String(32), nullable=False),
        sa.Column("event", sa.String(40), nullable=False),
        sa.Column("details", sa.JSON, nullable=False),
        sa.Column("previous", sa.String(64), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
    )
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
        "handover_requests",
        sa.Column("meter", sa.String(32), primary_key=True),
        sa.Column("generation", sa.Integer, primary_key=True),
        sa.Column("giver", sa.Integer, primary_key=True),
        sa.Column("receiver", sa.Integer, primary_key=True),
        sa.Column("agreed", sa.JSON, nullable=False),
        sa.Column("at", sa.String(32), nullable=False),
        sa.ForeignKeyConstraint(
            ["meter", "generation"], ["generations.meter", "generations.number"]
        ),
    )
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
        sa.Column("issuer", sa.String(500)),
        sa.Column("subject", sa.String(255)),
    )
    op.create_index("users_known_as", "users", ["issuer", "subject"], unique=True)
    op.create_table(
        "guesses",
        sa.Column("key", sa.String(64), primary_key=True),
        sa.Column("failures", sa.Integer, nullable=False),
        sa.Column("until", sa.String(32), nullable=False),
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
        sa.Column("pace", sa.Integer),
    )
    op.create_table(
        "uploads",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("meter", sa.String(32), sa.ForeignKey("meters.id"), nullable=False),
        sa.Column("user", sa.String(32), sa.ForeignKey("users.id"), nullable=False),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("size", sa.BigInteger, nullable=False),
        sa.Column("created_at", sa.String(32), nullable=False),
        sa.Column("digest", sa.String(64)),
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
    op.create_index("submissions_by_state", "submissions", ["state", "created_at"])
    op.create_index("submissions_by_meter", "submissions", ["meter", "created_at"])
    op.create_table(
        "queue_waits",
        sa.Column("bound", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("submissions", sa.BigInteger, nullable=False),
        sa.Column("seconds", sa.Float, nullable=False),
    )
    op.create_table(
        "workers",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("seen_at", sa.String(32), nullable=False),
    )
    op.create_table(
        "deliveries",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("address", sa.String(500), nullable=False),
        sa.Column("body", sa.JSON, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("due_at", sa.String(32), nullable=False),
        sa.Column("created_at", sa.String(32), nullable=False),
    )
    op.create_index("deliveries_by_state", "deliveries", ["state", "due_at"])
