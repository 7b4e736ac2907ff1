"""Alembic's entry: runs the steps on the connection (and in the transaction) that `migrate.upgrade` passes in."""

from alembic import context

from secureproto_server.storage.tables import metadata

context.configure(
    connection=context.config.attributes["connection"], target_metadata=metadata, transactional_ddl=True
)
with context.begin_transaction():
    context.run_migrations()
