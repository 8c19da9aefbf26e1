"""What a question after a token reads, in one statement, and what revoking one writes. Never commits, never decides."""

from __future__ import annotations

from datetime import datetime

from keel.db import Tx
from onbe.credentials.model import Found
from onbe.directory.model import Registration

_ASKER = 14
"""How many columns the asker's registration is, in the order of its fields."""


async def look(tx: Tx, asker: str | None, jti: str | None = None, task: str | None = None) -> Found:
    """Whoever asks, of whom nothing is shown yet, and the token with its task, of which nothing may be there."""
    rows = await tx.tuples(
        """
        SELECT a.agent_id, a.display_name, a.allowed_scopes, a.allowed_audiences, a.max_task_ttl, a.max_token_ttl,
               a.max_delegation_depth, a.high_risk_audiences, a.jwks_uri, a.jwks, a.enabled, a.created_at,
               a.updated_at, a.tasks_ended_at,
               t.id IS NOT NULL,
               NOT EXISTS (SELECT FROM agents WHERE agent_id = ANY(t.chain) AND NOT enabled),
               t."end", t.end_reason, t.ended_at, r.at, r.reason
        FROM (VALUES (1)) one
        LEFT JOIN agents a ON a.agent_id = %(asker)s
        LEFT JOIN tasks t ON t.id = %(task)s
        LEFT JOIN revoked_tokens r ON r.jti = %(jti)s
        """,
        {"asker": asker, "jti": jti, "task": task},
    )
    row = rows[0]
    return Found(None if row[0] is None else Registration(*row[:_ASKER]), *row[_ASKER:])


async def spend(tx: Tx, agent: str, jti_sha256: bytes, until: datetime) -> bool:
    """Use an assertion up, to be remembered until then. False where it was used before."""
    return bool(
        await tx.run(
            """
            INSERT INTO assertions (agent, jti_sha256, until) VALUES (%(agent)s, %(jti)s, %(until)s)
            ON CONFLICT DO NOTHING
            """,
            {"agent": agent, "jti": jti_sha256, "until": until},
        )
    )


async def revoke(tx: Tx, jti: str, task: str, at: datetime, reason: str, until: datetime) -> bool:
    """Revoke one token, which is remembered until it would have expired. False where it was revoked before."""
    return bool(
        await tx.run(
            """
            INSERT INTO revoked_tokens (jti, task, at, reason, until)
            VALUES (%(jti)s, %(task)s, %(at)s, %(reason)s, %(until)s) ON CONFLICT DO NOTHING
            """,
            {"jti": jti, "task": task, "at": at, "reason": reason, "until": until},
        )
    )


async def forget_assertions(tx: Tx, before: datetime, most: int) -> int:
    """Delete at most `most` assertions that need not be remembered; how many."""
    return await tx.run(
        """
        DELETE FROM assertions WHERE (agent, jti_sha256) IN (
            SELECT agent, jti_sha256 FROM assertions WHERE until < %(before)s
            ORDER BY until LIMIT %(most)s FOR UPDATE SKIP LOCKED
        )
        """,
        {"before": before, "most": most},
    )


async def forget_tokens(tx: Tx, before: datetime, most: int) -> int:
    """The same for tokens that were revoked and have expired since."""
    return await tx.run(
        """
        DELETE FROM revoked_tokens WHERE jti IN (
            SELECT jti FROM revoked_tokens WHERE until < %(before)s
            ORDER BY until LIMIT %(most)s FOR UPDATE SKIP LOCKED
        )
        """,
        {"before": before, "most": most},
    )
