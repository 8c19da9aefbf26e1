"""Environments: what the boxes of a commit have, how it was built, what the build said.

The tables stand in `0013_environments.sql`. There is no way back from it: what is sealed there is nowhere else.
"""

from __future__ import annotations

from pathlib import Path

from alembic import op

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    """Lay the tables."""
    driver = op.get_bind().connection.driver_connection  # psycopg itself: it takes a script of many statements
    assert driver is not None  # a connection that is bound has one
    driver.execute(Path(__file__).with_suffix(".sql").read_text(encoding="utf-8"))
