"""Pools in Postgres: the unclaimed boxes, counted under one lock a pool."""

from __future__ import annotations

from keel.db import Tx
from rift.pools.model import WarmBox


async def lock(tx: Tx, repo: str, ref: str) -> None:
    """Until the commit nobody else fills this pool."""
    await tx.run("SELECT pg_advisory_xact_lock(hashtextextended(%(key)s, 8))", {"key": f"{repo} {ref}"})


async def unclaimed(tx: Tx, repo: str, ref: str) -> list[WarmBox]:
    """The pool's boxes, unlocked, so that no claim has to step around them.

    One that is claimed at this moment may be among them: then too few are made, and the claim's own request for a
    fill makes the rest. Too many are never made.
    """
    return await tx.all(
        WarmBox,
        """
        SELECT id, commit, state, created_at FROM boxes
        WHERE repo = %(repo)s AND ref = %(ref)s AND task IS NULL AND state IN ('starting', 'running')
        ORDER BY created_at
        """,
        {"repo": repo, "ref": ref},
    )


async def pools(tx: Tx) -> list[tuple[str, str]]:
    """Every repository and ref that is watched or has an unclaimed box."""
    rows = await tx.rows(
        """
        SELECT repo, ref FROM watches
        UNION SELECT repo, ref FROM boxes WHERE task IS NULL AND state IN ('starting', 'running')
        """
    )
    return [(row["repo"], row["ref"]) for row in rows]
