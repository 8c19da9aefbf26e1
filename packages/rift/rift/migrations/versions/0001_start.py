"""Where everything starts: people, repositories, tasks, boxes, commands, the ledger, the job queue.

The schema stands in `0001_start.sql`, to be read as one page. There is no way back from it but an empty database.
"""

from __future__ import annotations

from pathlib import Path

from alembic import op
from procrastinate import App
from procrastinate.testing import InMemoryConnector

revision = "0001"
down_revision = None

RIGHTS = """
GRANT USAGE ON SCHEMA public TO rift_runtime;
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO rift_runtime;
GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO rift_runtime;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA public TO rift_runtime;
REVOKE UPDATE, DELETE ON ledger, ledger_rest FROM rift_runtime;
REVOKE INSERT, UPDATE, DELETE ON alembic_version FROM rift_runtime;
"""
"""What the running system may do: everything to its nouns, and to the ledger only add and read."""

MONTHS = "SELECT ledger_month(now()), ledger_month(now() + interval '1 month')"

ROLE = """
DO $$ BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'rift_runtime') THEN
        CREATE ROLE rift_runtime NOLOGIN;
    END IF;
END $$;
"""


def upgrade() -> None:
    """Lay the whole schema."""
    driver = op.get_bind().connection.driver_connection  # psycopg itself: it takes a script of many statements
    assert driver is not None  # a connection that is bound has one
    queue = App(connector=InMemoryConnector()).schema_manager.get_schema()
    for script in (ROLE, queue, (Path(__file__).parent / "0001_start.sql").read_text(), MONTHS, RIGHTS):
        driver.execute(script)
