"""Accounts: how people sign in, teams and invitations, MCP clients that sign in, letters, feedback, who reads records.

The tables stand in `0011_accounts.sql`, to be read as one page. There is no way back from it: a person who was put out
would be let in again.
"""

from __future__ import annotations

from pathlib import Path

from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    """Lay the tables."""
    driver = op.get_bind().connection.driver_connection  # psycopg itself: it takes a script of many statements
    assert driver is not None  # a connection that is bound has one
    driver.execute(Path(__file__).with_suffix(".sql").read_text(encoding="utf-8"))
