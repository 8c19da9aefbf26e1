"""A command carries the place in the trace of the call that queued it, where there is one."""

from __future__ import annotations

from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Add the column: a traceparent, which is 55 characters."""
    op.execute("ALTER TABLE commands ADD COLUMN trace text CHECK (length(trace) <= 55)")


def downgrade() -> None:
    """Without it: what happened to a command is no part of its call's trace."""
    op.execute("ALTER TABLE commands DROP COLUMN trace")
