"""Agents and sponsors in Postgres. Takes a transaction, returns models, never commits and never decides."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from keel.db import Json, Tx
from onbe.directory.model import Sponsor

# Fences and blocks ---------------------------------------------------------------------------------------------------
# An exchange locks its agent's row and then its sponsor's in share mode; these take them for themselves. So of a switch
# and an exchange in flight one comes before the other. The instant of a fence differs from every earlier one, also
# where two fall into one microsecond: an exchange compares what it read at its beginning.


async def fence_agent(tx: Tx, agent: str, now: datetime) -> bool:
    """Let no exchange that is in flight give this agent a task, and hold its row. False for an unknown agent."""
    return bool(
        await tx.run(
            """
            UPDATE agents SET tasks_ended_at = greatest(%(now)s, tasks_ended_at + interval '1 microsecond')
            WHERE agent_id = %(agent)s
            """,
            {"agent": agent, "now": now},
        )
    )


async def fence_sponsor(tx: Tx, key: str, now: datetime) -> Sponsor:
    """Let no exchange that is in flight begin a task for this person, and hold their row; makes the row if need be."""
    fenced = await tx.one(
        Sponsor,
        """
        INSERT INTO sponsors (key, tasks_ended_at) VALUES (%(key)s, %(now)s)
        ON CONFLICT (key) DO UPDATE
        SET tasks_ended_at = greatest(excluded.tasks_ended_at, sponsors.tasks_ended_at + interval '1 microsecond')
        RETURNING key, blocks, tasks_ended_at
        """,
        {"key": key, "now": now},
    )
    assert fenced is not None  # inserted or updated
    return fenced


async def hold_sponsors(tx: Tx, keys: Sequence[str]) -> None:
    """Hold the rows of these people until the transaction ends: nothing is begun or delegated for them meanwhile."""
    await tx.run("SELECT FROM sponsors WHERE key = ANY(%(keys)s) ORDER BY key FOR NO KEY UPDATE", {"keys": list(keys)})


async def find_sponsor(tx: Tx, key: str) -> Sponsor | None:
    """A person, if anything was ever begun or blocked for them."""
    return await tx.one(Sponsor, "SELECT key, blocks, tasks_ended_at FROM sponsors WHERE key = %(key)s", {"key": key})


async def find_sponsor_held(tx: Tx, key: str) -> Sponsor | None:
    """The same, and hold the row."""
    return await tx.one(
        Sponsor,
        "SELECT key, blocks, tasks_ended_at FROM sponsors WHERE key = %(key)s FOR NO KEY UPDATE",
        {"key": key},
    )


async def set_block(tx: Tx, key: str, source: str, at: datetime, reason: str) -> None:
    """Place the block of a source, or replace it."""
    await tx.run(
        "UPDATE sponsors SET blocks = blocks || jsonb_build_object(%(source)s::text, %(block)s) WHERE key = %(key)s",
        {"key": key, "source": source, "block": Json({"at": at.isoformat(), "reason": reason})},
    )


async def lift_block(tx: Tx, key: str, source: str) -> None:
    """Lift the block of a source."""
    await tx.run("UPDATE sponsors SET blocks = blocks - %(source)s WHERE key = %(key)s", {"key": key, "source": source})
