"""Since when a repository's boxes get what they get: a warm one that is older is not claimed any more."""

from __future__ import annotations

from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    """Add the instant; NULL while nothing was ever changed."""
    op.execute("ALTER TABLE repos ADD COLUMN boxes_since timestamptz")


def downgrade() -> None:
    """Without it warm boxes are told apart only once they were drained."""
    op.execute("ALTER TABLE repos DROP COLUMN boxes_since")
