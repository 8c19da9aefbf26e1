"""Boxes with an open network, and which refusals of their proxy are recorded."""

from __future__ import annotations

from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """A third mode, and a number for each box."""
    op.execute("ALTER TABLE repos DROP CONSTRAINT repos_network_check")
    op.execute("ALTER TABLE repos ADD CONSTRAINT repos_network_check CHECK (network IN ('none', 'proxy', 'open'))")
    op.execute("ALTER TABLE boxes ADD COLUMN refused bigint NOT NULL DEFAULT 0")


def downgrade() -> None:
    """Without the mode: what was open reaches nothing, as nobody has listed the hosts that it needs."""
    op.execute("UPDATE repos SET network = 'none' WHERE network = 'open'")
    op.execute("ALTER TABLE repos DROP CONSTRAINT repos_network_check")
    op.execute("ALTER TABLE repos ADD CONSTRAINT repos_network_check CHECK (network IN ('none', 'proxy'))")
    op.execute("ALTER TABLE boxes DROP COLUMN refused")
