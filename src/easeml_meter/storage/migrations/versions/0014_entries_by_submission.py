"""An index that finds a submission's answers by its digest alone."""

from __future__ import annotations

from alembic import op

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    """Make it."""
    op.create_index("entries_by_submission", "entries", ["submission"])
