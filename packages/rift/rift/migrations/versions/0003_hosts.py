"""What the host of the boxes has left, as its worker last said: one row."""

from __future__ import annotations

from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Add the table."""
    op.execute(
        """
        CREATE TABLE host (
            one boolean PRIMARY KEY DEFAULT true CHECK (one),
            at timestamptz NOT NULL,
            disk_free bigint NOT NULL,
            memory_free bigint NOT NULL,
            memory_total bigint NOT NULL
        )
        """
    )
    op.execute("GRANT SELECT, INSERT, UPDATE, DELETE ON host TO rift_runtime")


def downgrade() -> None:
    """Without it; a worker writes the row again in seconds."""
    op.execute("DROP TABLE host")
