"""Where everything starts: agents, sponsors, tasks, what was used and revoked, the ledger with its seals.

The schema stands in `0001_start.sql`, to be read as one page. There is no way back from it but an empty schema.
"""

from __future__ import annotations

from pathlib import Path

from alembic import op

revision = "0001"
down_revision = None

ROLE = """
DO $$ BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'onbe_runtime') THEN
        CREATE ROLE onbe_runtime NOLOGIN;
    END IF;
END $$;
"""
RIGHTS = """
GRANT USAGE ON SCHEMA onbe TO onbe_runtime;
GRANT SELECT, INSERT, UPDATE, DELETE ON agents, sponsors, tasks, assertions, revoked_tokens, strangers TO onbe_runtime;
GRANT SELECT, INSERT ON ledger, ledger_leaves, ledger_keys, ledger_checkpoints TO onbe_runtime;
GRANT SELECT, INSERT, DELETE ON ledger_texts TO onbe_runtime;
GRANT SELECT ON ledger_archives TO onbe_runtime;
GRANT SELECT, UPDATE ON ledger_sink TO onbe_runtime;
GRANT SELECT ON alembic_version TO onbe_runtime;
GRANT USAGE, SELECT ON SEQUENCE ledger_seq TO onbe_runtime;
REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA onbe FROM PUBLIC;
GRANT EXECUTE ON FUNCTION ledger_month(timestamptz) TO onbe_runtime;
"""
"""What the running system may do: everything to its nouns, and to the ledger only add and read."""

MONTHS = "SELECT ledger_month(now()), ledger_month(now() + interval '1 month')"


def upgrade() -> None:
    """Lay the whole schema."""
    driver = op.get_bind().connection.driver_connection  # psycopg itself: it takes a script of many statements
    assert driver is not None  # a connection that is bound has one
    for script in (ROLE, (Path(__file__).parent / "0001_start.sql").read_text(), MONTHS, RIGHTS):
        driver.execute(script)
