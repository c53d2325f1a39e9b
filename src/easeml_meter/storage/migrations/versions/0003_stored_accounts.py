"""Tenants from 1, the user of each entry, and a table for stored accounts."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Count tenants from 1, say who submitted each entry, and make room for stored accounts.

    The accounts themselves are folded from the entries when a meter is next used.
    """
    # Through negative numbers: counting up in place would meet the next tenant's rows.
    for table, column in (("entries", "tenant"), ("handovers", "giver"), ("handovers", "receiver")):
        _shift(table, column)
    op.add_column("entries", sa.Column("user", sa.String(32), nullable=False, server_default=""))
    _name_users()
    # Without a default, a server of the version before that still runs cannot enter answers: it
    # would take tenant 1 for tenant 2 and give out a budget that is spent.
    if op.get_bind().dialect.name == "sqlite":
        _recreate_entries()
    else:
        op.alter_column("entries", "user", server_default=None)
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


def _recreate_entries() -> None:
    """Drop the column's default, which SQLite can do in a new table only.

    Written out, as alembic would put the constraints in an order that differs from run to run:
    two databases with the same answers must not differ in a byte.
    """
    text, number = sa.String, sa.Integer
    op.create_table(
        "entries_without_default",
        sa.Column("meter", text(32), primary_key=True),
        *(sa.Column(name, number, primary_key=True) for name in ("generation", "tenant", "step")),
        sa.Column("answer", text(16), nullable=False),
        sa.Column("after_reset", sa.Boolean, nullable=False),
        sa.Column("model", text(200), nullable=False),
        sa.Column("submission", text(64), nullable=False),
        sa.Column("validation_number", number, nullable=False),
        sa.Column("validation_set", text(64), nullable=False),
        sa.Column("validation_loss", text(64), nullable=False),
        sa.Column("blob", text(200), nullable=False),
        sa.Column("told_at", text(32), nullable=False),
        sa.Column("user", text(32), nullable=False),
        sa.ForeignKeyConstraint(
            ["meter", "generation"], ["generations.meter", "generations.number"]
        ),
        sa.UniqueConstraint("meter", "generation", "tenant", "submission", "validation_set"),
    )
    op.execute("INSERT INTO entries_without_default SELECT * FROM entries")
    op.drop_table("entries")
    op.rename_table("entries_without_default", "entries")


def _shift(table: str, column: str) -> None:
    numbers = sa.table(table, sa.column(column, sa.Integer))
    op.execute(numbers.update().values({column: -1 - numbers.c[column]}))
    op.execute(numbers.update().values({column: -numbers.c[column]}))


def _name_users() -> None:
    """Copy the users from the audit links, which name them since there are accounts."""
    audit = sa.table("audit", sa.column("meter"), sa.column("event"), sa.column("details", sa.JSON))
    key = ("meter", "generation", "tenant", "step")
    entries = sa.table("entries", *map(sa.column, key), sa.column("user"))
    told = op.get_bind().execute(sa.select(audit).where(audit.c.event == "told"))
    users = [
        {f"its_{name}": details[name] for name in key[1:]}
        | {"its_meter": meter, "its_user": details["user"]}
        for meter, _, details in told
        if details.get("user") and all(name in details for name in key[1:])
    ]
    if users:
        same = [entries.c[name] == sa.bindparam(f"its_{name}") for name in key]
        naming = entries.update().where(*same).values(user=sa.bindparam("its_user"))
        op.get_bind().execute(naming, users)
