"""Alembic's door: it is called by `rift.migrations.migrate` alone."""

from __future__ import annotations

from alembic import context
from sqlalchemy import create_engine, pool

engine = create_engine(context.config.attributes["url"], poolclass=pool.NullPool)
with engine.connect() as connection:
    context.configure(connection=connection, transaction_per_migration=True)
    with context.begin_transaction():
        # Two that start at once migrate one after the other.
        connection.exec_driver_sql("SELECT pg_advisory_xact_lock(7433)")
        context.run_migrations()
