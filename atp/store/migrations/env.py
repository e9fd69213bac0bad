"""Run by Alembic for every command: migrates the connection it was handed."""

from __future__ import annotations

from alembic import context

from atp.store.schema import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    transactional_ddl=True,  # true of SQLite too, once transactions begin where we say
)
with context.begin_transaction():
    context.run_migrations()
