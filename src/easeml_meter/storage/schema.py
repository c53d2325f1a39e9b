"""The tables.

Nothing here is derived from test labels but `entries.answer`, the published answer, and
`generations.fingerprint`, a keyed digest that only the meter's key can compute.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

HEAD = "0002"
"""The newest migration; a database at it is opened without loading alembic."""

metadata = sa.MetaData()

meters = sa.Table(
    "meters",
    metadata,
    sa.Column("id", sa.String(32), primary_key=True),
    sa.Column("name", sa.String(200), nullable=False),
    sa.Column("settings", sa.JSON, nullable=False),  # the tables of meter.toml
    sa.Column("created_at", sa.String(32), nullable=False),
    sa.Column("notified", sa.Integer, nullable=False, default=0),  # the last audit link looked at
)

generations = sa.Table(
    "generations",
    metadata,
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
    # The same rows are one test set with one budget, whatever meter they are given to.
    sa.Index("generations_by_fingerprint", "fingerprint", unique=True),
)

validation_sets = sa.Table(
    "validation_sets",
    metadata,
    sa.Column("meter", sa.String(32), sa.ForeignKey("meters.id"), primary_key=True),
    sa.Column("number", sa.Integer, primary_key=True),
    sa.Column("digest", sa.String(64), nullable=False),
    sa.Column("rows", sa.BigInteger, nullable=False),
    sa.Column("settings", sa.JSON, nullable=False),  # label and id column, classes
    sa.Column("blob", sa.String(200), nullable=False),
    sa.Column("added_at", sa.String(32), nullable=False),
)

entries = sa.Table(
    "entries",
    metadata,
    sa.Column("meter", sa.String(32), primary_key=True),
    sa.Column("generation", sa.Integer, primary_key=True),
    sa.Column("tenant", sa.Integer, primary_key=True),  # from 1
    # The last line of defence against a lost update: no two answers are the same step.
    sa.Column("step", sa.Integer, primary_key=True),
    sa.Column("answer", sa.String(16), nullable=False),
    sa.Column("model", sa.String(200), nullable=False),
    sa.Column("submission", sa.String(64), nullable=False),
    sa.Column("validation_number", sa.Integer, nullable=False),
    sa.Column("validation_set", sa.String(64), nullable=False),
    sa.Column("validation_loss", sa.String(64), nullable=False),  # exact: a fraction, or a float
    sa.Column("blob", sa.String(200), nullable=False),
    sa.Column("told_at", sa.String(32), nullable=False),
    sa.Column("user", sa.String(32), nullable=False),  # empty: not known
    sa.Column("first_edge", sa.String(32), nullable=False),
    sa.Column("old", sa.Integer, nullable=False),  # a step, or none
    sa.Column("token", sa.String(32), nullable=False),  # with a pace
    sa.Column("note", sa.String(200), nullable=False),
    sa.Column("link", sa.String(300), nullable=False),
    sa.ForeignKeyConstraint(["meter", "generation"], ["generations.meter", "generations.number"]),
    # An identical submission is answered from here, also after a crash that lost the answer.
    sa.UniqueConstraint("meter", "generation", "tenant", "submission", "validation_set"),
    # For PostgreSQL, which takes the primary key in place of that constraint while the table looks
    # small, and then reads a team's whole history for each submission.
    sa.Index("entries_by_submission", "submission"),
)

accounts = sa.Table(
    "accounts",
    metadata,
    sa.Column("meter", sa.String(32), primary_key=True),
    sa.Column("generation", sa.Integer, primary_key=True),
    sa.Column("tenant", sa.Integer, primary_key=True),
    sa.Column("step", sa.Integer, nullable=False),  # of the last entry folded
    sa.Column("folded", sa.JSON, nullable=False),
    sa.ForeignKeyConstraint(["meter", "generation"], ["generations.meter", "generations.number"]),
)

audit = sa.Table(
    "audit",
    metadata,
    sa.Column("meter", sa.String(32), sa.ForeignKey("meters.id"), primary_key=True),
    sa.Column("number", sa.Integer, primary_key=True),
    sa.Column("at", sa.String(32), nullable=False),
    sa.Column("event", sa.String(40), nullable=False),
    sa.Column("details", sa.JSON, nullable=False),
    sa.Column("previous", sa.String(64), nullable=False),
    sa.Column("digest", sa.String(64), nullable=False),
)

handovers = sa.Table(
    "handovers",
    metadata,
    sa.Column("meter", sa.String(32), primary_key=True),
    sa.Column("generation", sa.Integer, primary_key=True),
    sa.Column("giver", sa.Integer, primary_key=True),
    sa.Column("receiver", sa.Integer, primary_key=True),
    sa.Column("at", sa.String(32), nullable=False),
    sa.ForeignKeyConstraint(["meter", "generation"], ["generations.meter", "generations.number"]),
)

handover_requests = sa.Table(
    "handover_requests",
    metadata,
    sa.Column("meter", sa.String(32), primary_key=True),
    sa.Column("generation", sa.Integer, primary_key=True),
    sa.Column("giver", sa.Integer, primary_key=True),
    sa.Column("receiver", sa.Integer, primary_key=True),
    sa.Column("agreed", sa.JSON, nullable=False),  # the tenants that have
    sa.Column("at", sa.String(32), nullable=False),
    sa.ForeignKeyConstraint(["meter", "generation"], ["generations.meter", "generations.number"]),
)

releases = sa.Table(
    "releases",
    metadata,
    sa.Column("id", sa.String(32), primary_key=True),
    sa.Column("meter", sa.String(32), nullable=False),
    sa.Column("generation", sa.Integer, nullable=False),
    sa.Column("user", sa.String(32), nullable=False),
    sa.Column("turn", sa.Integer, nullable=False),
    sa.Column("attempts", sa.Integer, nullable=False),
    sa.Column("problem", sa.JSON(none_as_null=True)),  # why it was given up
    sa.Column("at", sa.String(32), nullable=False),
    sa.ForeignKeyConstraint(["meter", "generation"], ["generations.meter", "generations.number"]),
    sa.UniqueConstraint("meter", "generation"),
)

users = sa.Table(
    "users",
    metadata,
    sa.Column("id", sa.String(32), primary_key=True),
    sa.Column("name", sa.String(200), nullable=False, unique=True),
    sa.Column("email", sa.String(200)),
    sa.Column("password", sa.String(200)),  # argon2; None: no password, tokens only
    sa.Column("admin", sa.Boolean, nullable=False),
    sa.Column("disabled", sa.Boolean, nullable=False),
    sa.Column("failures", sa.Integer, nullable=False),  # wrong passwords in a row
    sa.Column("locked_until", sa.String(32)),
    sa.Column("created_at", sa.String(32), nullable=False),
    # Whom a provider of identities knows the user as; None: nobody, or not by a provider.
    sa.Column("issuer", sa.String(500)),
    sa.Column("subject", sa.String(255)),
    sa.Index("users_known_as", "issuer", "subject", unique=True),
)

guesses = sa.Table(
    "guesses",
    metadata,
    sa.Column("key", sa.String(64), primary_key=True),  # digest of name, address and password hash
    sa.Column("failures", sa.Integer, nullable=False),  # wrong passwords in a row
    sa.Column("until", sa.String(32), nullable=False),  # when the next one may be right
)

members = sa.Table(
    "members",
    metadata,
    sa.Column("user", sa.String(32), sa.ForeignKey("users.id"), primary_key=True),
    sa.Column("meter", sa.String(32), sa.ForeignKey("meters.id"), primary_key=True),
    sa.Column("role", sa.String(16), primary_key=True),
    sa.Column("tenant", sa.Integer, primary_key=True),  # from 1; 0 for roles without one
    sa.Column("added_at", sa.String(32), nullable=False),
)

tokens = sa.Table(
    "tokens",
    metadata,
    sa.Column("id", sa.String(32), primary_key=True),
    sa.Column("user", sa.String(32), sa.ForeignKey("users.id"), nullable=False),
    sa.Column("name", sa.String(200), nullable=False),
    sa.Column("kind", sa.String(16), nullable=False),  # api, session of a browser, or invitation
    sa.Column("digest", sa.String(64), nullable=False, unique=True),
    sa.Column("scopes", sa.JSON, nullable=False),  # what it is limited to
    sa.Column("created_at", sa.String(32), nullable=False),
    sa.Column("expires_at", sa.String(32), nullable=False),
    sa.Column("revoked_at", sa.String(32)),
    sa.Column("pace", sa.Integer),  # answers in 24 hours; None: as many as there are
)

uploads = sa.Table(
    "uploads",
    metadata,
    sa.Column("id", sa.String(32), primary_key=True),
    sa.Column("meter", sa.String(32), sa.ForeignKey("meters.id"), nullable=False),
    sa.Column("user", sa.String(32), sa.ForeignKey("users.id"), nullable=False),
    sa.Column("name", sa.String(200), nullable=False),
    sa.Column("size", sa.BigInteger, nullable=False),
    sa.Column("created_at", sa.String(32), nullable=False),
    sa.Column("digest", sa.String(64)),  # of the file, once it was taken in
)

parts = sa.Table(
    "parts",
    metadata,
    sa.Column("meter", sa.String(32), primary_key=True),
    sa.Column("generation", sa.Integer, primary_key=True),
    sa.Column("number", sa.Integer, primary_key=True),
    sa.Column("rows", sa.BigInteger, nullable=False),
    sa.Column("digest", sa.String(64), nullable=False),
    sa.Column("blob", sa.String(200), nullable=False),
    sa.Column("added_by", sa.String(32), nullable=False),
    sa.Column("added_at", sa.String(32), nullable=False),
    sa.ForeignKeyConstraint(["meter", "generation"], ["generations.meter", "generations.number"]),
    sa.UniqueConstraint("meter", "generation", "digest"),
)

submissions = sa.Table(
    "submissions",
    metadata,
    sa.Column("id", sa.String(32), primary_key=True),
    sa.Column("meter", sa.String(32), sa.ForeignKey("meters.id"), nullable=False),
    sa.Column("tenant", sa.Integer, nullable=False),  # from 1
    sa.Column("user", sa.String(32), sa.ForeignKey("users.id"), nullable=False),
    sa.Column("model", sa.String(200), nullable=False),
    sa.Column("kind", sa.String(16), nullable=False),  # predictions, onnx, command
    sa.Column("blob", sa.String(200), nullable=False),
    sa.Column("options", sa.JSON, nullable=False),
    sa.Column("state", sa.String(16), nullable=False),  # queued, running, done, refused
    sa.Column("problem", sa.JSON),  # why it was refused: from what its sender knows anyway
    sa.Column("generation", sa.Integer),
    sa.Column("step", sa.Integer),
    sa.Column("attempts", sa.Integer, nullable=False),
    sa.Column("created_at", sa.String(32), nullable=False),
    sa.Column("changed_at", sa.String(32), nullable=False),
    sa.Index("submissions_by_state", "state", "created_at"),
    sa.Index("submissions_by_meter", "meter", "created_at"),
)

queue_waits = sa.Table(
    "queue_waits",
    metadata,
    # Which bucket of a histogram; its submissions, and the seconds that they waited, added up.
    sa.Column("bound", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("submissions", sa.BigInteger, nullable=False),
    sa.Column("seconds", sa.Float, nullable=False),
)

workers = sa.Table(
    "workers",
    metadata,
    sa.Column("id", sa.String(32), primary_key=True),  # of a process, drawn when it starts
    sa.Column("seen_at", sa.String(32), nullable=False),
)

deliveries = sa.Table(
    "deliveries",
    metadata,
    sa.Column("id", sa.String(32), primary_key=True),
    sa.Column("address", sa.String(500), nullable=False),  # of an e-mail; empty: of `notify`
    sa.Column("body", sa.JSON, nullable=False),
    sa.Column("state", sa.String(16), nullable=False),  # waiting, sent, given up
    sa.Column("attempts", sa.Integer, nullable=False),
    sa.Column("due_at", sa.String(32), nullable=False),
    sa.Column("created_at", sa.String(32), nullable=False),
    sa.Index("deliveries_by_state", "state", "due_at"),
)


def columns_of(row: Any) -> dict[str, Any]:
    """Return a value's columns by name, as they are: `asdict` would copy them one by one."""
    return {name: getattr(row, name) for name in row.__slots__}
