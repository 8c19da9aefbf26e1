"""Repositories may have limits of their own for their boxes."""

from __future__ import annotations

from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Add the table; what is NULL in it is the default."""
    op.execute(
        """
        CREATE TABLE limits (
            repo text PRIMARY KEY REFERENCES repos ON DELETE CASCADE,
            memory bigint,
            processes bigint,
            disk bigint,
            cpu_shares bigint,
            open_files bigint
        )
        """
    )
    op.execute("GRANT SELECT, INSERT, UPDATE, DELETE ON limits TO rift_runtime")


def downgrade() -> None:
    """Without it: every box has the defaults."""
    op.execute("DROP TABLE limits")
