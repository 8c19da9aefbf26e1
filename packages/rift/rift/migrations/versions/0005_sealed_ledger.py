"""The ledger is sealed: leaves, keys, signed checkpoints, and the indexes that its pages are found by.

The schema stands in `0005_sealed_ledger.sql`. There is no way back from it: checkpoints that were signed are evidence,
and a step that drops them would be the way to be rid of it.
"""

from __future__ import annotations

from pathlib import Path

from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Add what sealing needs."""
    driver = op.get_bind().connection.driver_connection  # psycopg itself: it takes a script of many statements
    assert driver is not None  # a connection that is bound has one
    driver.execute((Path(__file__).parent / "0005_sealed_ledger.sql").read_text())
