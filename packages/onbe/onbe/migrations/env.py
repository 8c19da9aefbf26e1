"""Alembic's door: it is called by `onbe.migrations.migrate` alone."""

from __future__ import annotations

from alembic import context
from sqlalchemy import create_engine, pool

engine = create_engine(context.config.attributes["url"], poolclass=pool.NullPool)
with engine.connect() as connection:
    connection.exec_driver_sql("CREATE SCHEMA IF NOT EXISTS onbe")
    connection.commit()
    context.configure(connection=connection, transaction_per_migration=True, version_table_schema="onbe")
    with context.begin_transaction():
        # Two that start at once migrate one after the other.
        connection.exec_driver_sql("SELECT pg_advisory_xact_lock(7434)")
        context.run_migrations()
