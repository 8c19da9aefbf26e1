"""Months of the ledger may go to files: what each file holds, signed.

There is no way back from it: what covers an archived record would be gone, and the record be told as deleted.
"""

from __future__ import annotations

from alembic import op

revision = "0010"
down_revision = "0009"

ARCHIVES = """
CREATE TABLE ledger_archives (
    month date PRIMARY KEY,
    at timestamptz NOT NULL,
    positions text NOT NULL,
    count bigint NOT NULL,
    root bytea NOT NULL CHECK (length(root) = 32),
    file_sha256 bytea NOT NULL CHECK (length(file_sha256) = 32),
    record bigint NOT NULL,
    key text NOT NULL REFERENCES ledger_keys,
    signature bytea NOT NULL
)
"""


def upgrade() -> None:
    """Add the table, to which only the owner adds."""
    op.execute(ARCHIVES)
    op.execute(
        "CREATE TRIGGER ledger_no_change BEFORE UPDATE OR DELETE ON ledger_archives "
        "FOR EACH ROW EXECUTE FUNCTION ledger_is_append_only()"
    )
    op.execute(
        "CREATE TRIGGER ledger_no_truncate BEFORE TRUNCATE ON ledger_archives "
        "FOR EACH STATEMENT EXECUTE FUNCTION ledger_is_append_only()"
    )
    op.execute("REVOKE ALL ON ledger_archives FROM rift_runtime")
    op.execute("GRANT SELECT ON ledger_archives TO rift_runtime")
