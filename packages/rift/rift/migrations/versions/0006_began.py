"""When the start of a box's agent began: one that ends soon after each of its starts is not started for ever."""

from __future__ import annotations

from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Add the moment. Of a box that runs already it is not known, and it needs none: it is steady once it was heard."""
    op.execute("ALTER TABLE boxes ADD COLUMN began_at timestamptz")


def downgrade() -> None:
    """Without it."""
    op.execute("ALTER TABLE boxes DROP COLUMN began_at")
