"""Runs the migrations on the connection that `callgate.store.migrate` passes in, inside its transaction."""

from __future__ import annotations

from alembic import context

from callgate.store.schema import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    # SQLite cannot alter most of a table in place.
    render_as_batch=True,
    transactional_ddl=False,
)
context.run_migrations()
