"""Agents and sponsors in Postgres. Takes a transaction, returns models, never commits and never decides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any, LiteralString

from keel.db import Json, Tx
from onbe.directory.model import Registration, Sponsor

_SELECT: LiteralString = """
    SELECT agent_id, display_name, allowed_scopes, allowed_audiences, max_task_ttl, max_token_ttl, max_delegation_depth,
    high_risk_audiences, jwks_uri, jwks, enabled, created_at, updated_at, tasks_ended_at
    FROM agents
"""


def _row(registration: Registration) -> Mapping[str, Any]:
    row = asdict(registration)
    for name in ("allowed_scopes", "allowed_audiences", "high_risk_audiences"):
        row[name] = list(row[name])
    row["jwks"] = None if registration.jwks is None else Json(registration.jwks)
    return row


async def agent(tx: Tx, agent_id: str) -> Registration | None:
    """An agent by its id."""
    return await tx.one(Registration, _SELECT + "WHERE agent_id = %(id)s", {"id": agent_id})


async def locked(tx: Tx, agent_id: str) -> Registration | None:
    """The same, and no one else changes it until the transaction ends; tasks may begin meanwhile."""
    return await tx.one(
        Registration,
        _SELECT + "WHERE agent_id = %(id)s FOR NO KEY UPDATE",
        {"id": agent_id},
    )


async def locked_to_go(tx: Tx, agent_id: str) -> Registration | None:
    """The same, and no task of it begins either."""
    return await tx.one(Registration, _SELECT + "WHERE agent_id = %(id)s FOR UPDATE", {"id": agent_id})


async def page(tx: Tx, after: str, limit: int) -> list[Registration]:
    """At most `limit` agents whose ids come behind `after`, in the order of their ids."""
    return await tx.all(
        Registration,
        _SELECT + "WHERE agent_id > %(after)s ORDER BY agent_id LIMIT %(limit)s",
        {"after": after, "limit": limit},
    )


async def insert(tx: Tx, registration: Registration) -> bool:
    """Write a new agent. False where there is one of this id."""
    written = await tx.run(
        """
        INSERT INTO agents (agent_id, display_name, allowed_scopes, allowed_audiences, max_task_ttl, max_token_ttl,
                            max_delegation_depth, high_risk_audiences, jwks_uri, jwks, enabled, created_at, updated_at,
                            tasks_ended_at)
        VALUES (%(agent_id)s, %(display_name)s, %(allowed_scopes)s, %(allowed_audiences)s, %(max_task_ttl)s,
                %(max_token_ttl)s, %(max_delegation_depth)s, %(high_risk_audiences)s, %(jwks_uri)s, %(jwks)s,
                %(enabled)s, %(created_at)s, %(updated_at)s, %(tasks_ended_at)s)
        ON CONFLICT DO NOTHING
        """,
        _row(registration),
    )
    return written == 1


async def update(tx: Tx, registration: Registration) -> None:
    """Write what a registration says now; when its tasks were last ended at once is not a member of it."""
    await tx.run(
        """
        UPDATE agents SET display_name = %(display_name)s, allowed_scopes = %(allowed_scopes)s,
            allowed_audiences = %(allowed_audiences)s, max_task_ttl = %(max_task_ttl)s,
            max_token_ttl = %(max_token_ttl)s, max_delegation_depth = %(max_delegation_depth)s,
            high_risk_audiences = %(high_risk_audiences)s, jwks_uri = %(jwks_uri)s, jwks = %(jwks)s,
            enabled = %(enabled)s, updated_at = %(updated_at)s
        WHERE agent_id = %(agent_id)s
        """,
        _row(registration),
    )


async def delete(tx: Tx, agent_id: str) -> None:
    """Forget an agent."""
    await tx.run("DELETE FROM agents WHERE agent_id = %(id)s", {"id": agent_id})


async def count_tasks(tx: Tx, agent_id: str, most: int) -> int:
    """How many tasks of an agent are stored, ended ones too; `most` + 1 where there are more."""
    row = await tx.row(
        "SELECT count(*) AS tasks FROM (SELECT FROM tasks WHERE agent = %(id)s LIMIT %(limit)s) AS found",
        {"id": agent_id, "limit": most + 1},
    )
    return int(row["tasks"]) if row else 0


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
