"""Run the migrations on the connection that `storage.migrate` hands over."""

from __future__ import annotations

from alembic import context

from easeml_meter.storage.schema import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    transactional_ddl=False,  # the caller's transaction holds it all
)
context.run_migrations()
