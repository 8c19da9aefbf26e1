"""Pages of what was refused, of everybody and of one person: few rows among many, so each has an index of its own."""

from __future__ import annotations

from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Add the two indexes; they hold refused rows alone."""
    op.execute("CREATE INDEX ledger_refused ON ledger (at, seq) WHERE outcome <> 'ok'")
    op.execute("CREATE INDEX ledger_refused_actor ON ledger (actor, at, seq) WHERE outcome <> 'ok'")


def downgrade() -> None:
    """Without them: the same pages, found more slowly."""
    op.execute("DROP INDEX ledger_refused_actor")
    op.execute("DROP INDEX ledger_refused")
