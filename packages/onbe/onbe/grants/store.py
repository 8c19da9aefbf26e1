"""What an exchange and a refresh read and write, each in as few statements as it can be. Never commits, never decides.

These are the two requests that every agent makes all day, so one statement here looks at the rows of several nouns.
Locks are taken in one order everywhere: agents, sponsors, tasks from the first of a chain down.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from keel.db import Tx
from onbe.directory.model import Registration, Sponsor
from onbe.grants.model import Facts, Line
from onbe.tasks.model import Task

_PARTS = {
    "<agent>": """
    a.agent_id, a.display_name, a.allowed_scopes, a.allowed_audiences, a.max_task_ttl, a.max_token_ttl,
    a.max_delegation_depth, a.high_risk_audiences, a.jwks_uri, a.jwks, a.enabled, a.created_at, a.updated_at,
    a.tasks_ended_at
    """,
    "<sponsor>": "s.key, s.blocks, s.tasks_ended_at",
    "<task>": """
    t.id, t.agent, t.sponsor, t.audience, t.scope, t.created_at, t.expires_at, t.parent, t.depth, t.chain, t.instance,
    t.renewals, t.ended_at, t."end", t.end_reason
    """,
    "<spend>": """
    WITH spent AS (
        INSERT INTO assertions (agent, jti_sha256, until) VALUES (%(agent)s, %(jti)s, %(until)s)
        ON CONFLICT DO NOTHING RETURNING 1
    )
    """,
    "<hold>": """
    , a AS MATERIALIZED (SELECT * FROM agents WHERE agent_id = %(agent)s FOR SHARE)
    , s AS MATERIALIZED (
        SELECT * FROM sponsors WHERE key = %(sponsor)s AND (SELECT count(*) FROM a) < 2 -- after the agent's row
        FOR SHARE
    )
    """,
}
"""What statements share; the columns are in the order of their model's fields."""
_AGENTS, _SPONSORS = 14, 3
"""How many columns the first two are."""


def _whole(sql: str) -> str:
    for name, part in _PARTS.items():
        sql = sql.replace(name, part)
    return sql


_LOOK_FOR_EXCHANGE = _whole(
    """
    SELECT <agent>, <sponsor>, ARRAY(SELECT agent_id FROM agents WHERE agent_id = ANY(%(names)s))
    FROM (VALUES (1)) one
    LEFT JOIN agents a ON a.agent_id = %(agent)s
    LEFT JOIN sponsors s ON s.key = %(sponsor)s
    """
)
_LOOK_FOR_REFRESH = _whole(
    """
    SELECT <agent>, <sponsor>, <task>
    FROM (VALUES (1)) one
    LEFT JOIN agents a ON a.agent_id = %(agent)s
    LEFT JOIN tasks t ON t.grant_sha256 = %(grant)s
    LEFT JOIN sponsors s ON s.key = t.sponsor
    """
)
_SPEND = _whole("<spend> SELECT 1 FROM spent")
_HOLD_FOR_EXCHANGE = _whole(
    """
    <spend>
    , made AS (INSERT INTO sponsors (key) VALUES (%(sponsor)s) ON CONFLICT DO NOTHING RETURNING key)
    <hold>
    SELECT <agent>, <sponsor>, EXISTS (SELECT FROM spent), EXISTS (SELECT FROM made)
    FROM (VALUES (1)) one LEFT JOIN a ON true LEFT JOIN s ON true
    """
)
_HOLD_FOR_REFRESH = _whole(
    """
    <spend>
    <hold>
    , renewed AS (
        UPDATE tasks SET renewals = renewals + 1 WHERE id = %(task)s AND ended_at IS NULL RETURNING renewals
    )
    SELECT <agent>, <sponsor>, EXISTS (SELECT FROM spent), (SELECT renewals FROM renewed)
    FROM (VALUES (1)) one LEFT JOIN a ON true LEFT JOIN s ON true
    """
)
_HOLD_SPONSOR = _whole("SELECT <sponsor> FROM sponsors s WHERE key = %(sponsor)s FOR SHARE")
_LINE = _whole(
    """
    WITH RECURSIVE line AS (
        SELECT * FROM tasks WHERE id = %(task)s
        UNION ALL
        SELECT up.* FROM tasks up JOIN line ON up.id = line.parent
    )
    SELECT <task> FROM line t ORDER BY depth DESC
    """
)
_AGENTS_OF = _whole("SELECT <agent> FROM agents a WHERE agent_id = ANY(%(names)s) ORDER BY agent_id")
_TASK = _whole("SELECT <task> FROM tasks t WHERE id = %(task)s")


@dataclass(frozen=True, slots=True)
class Spending:
    """An assertion to be used up."""

    agent: str
    jti_sha256: bytes
    until: datetime
    """From when on its `jti` need not be remembered."""

    @property
    def params(self) -> dict[str, object]:
        return {"agent": self.agent, "jti": self.jti_sha256, "until": self.until}


@dataclass(frozen=True, slots=True)
class Held:
    """What a transaction that may grant found and holds until it ends."""

    fresh: bool
    """Whether the assertion was not used before."""
    agent: Registration | None
    sponsor: Sponsor | None
    renewals: int = 0
    """How often the task was renewed, this time included; 0 where this is none."""


async def look_for_exchange(tx: Tx, agent: str, sponsor: str | None, names: Sequence[str]) -> Facts:
    """The agent and the person, of whom nothing is shown yet; and which of `names` are agents'."""
    rows = await tx.tuples(_LOOK_FOR_EXCHANGE, {"agent": agent, "sponsor": sponsor, "names": list(names)})
    agents, sponsors, rest = _split(rows[0])
    return Facts(_agent(agents), _sponsor(sponsors), agents_named=tuple(rest[0]))


async def look_for_refresh(tx: Tx, agent: str, grant_sha256: bytes) -> Facts:
    """The agent, of which nothing is shown yet, the grant's task and its person."""
    rows = await tx.tuples(_LOOK_FOR_REFRESH, {"agent": agent, "grant": grant_sha256})
    agents, sponsors, task = _split(rows[0])
    return Facts(_agent(agents), _sponsor(sponsors), None if task[0] is None else Task(*task))


async def spend(tx: Tx, spending: Spending) -> bool:
    """Use an assertion up. False where it was used before."""
    return bool(await tx.tuples(_SPEND, spending.params))


async def hold_for_exchange(tx: Tx, spending: Spending, sponsor: str) -> Held:
    """Use the assertion up, have the person's row, and hold agent and person as they are now."""
    params = {**spending.params, "sponsor": sponsor}
    rows = await tx.tuples(_HOLD_FOR_EXCHANGE, params)
    agents, sponsors, (fresh, made) = _split(rows[0])
    found = Sponsor(sponsor, {}) if made else _sponsor(sponsors)
    if found is None:  # somebody else made the row after this statement began: it is seen by the next
        seen = await tx.tuples(_HOLD_SPONSOR, params)
        found = _sponsor(seen[0])
    return Held(fresh, _agent(agents), found)


async def hold_for_refresh(tx: Tx, spending: Spending, sponsor: str, task: str) -> Held:
    """Use the assertion up, hold agent and person as they are now, and count a renewal of a task that has not ended.

    The count is an update of the task's row, so it waits for whoever is just ending it, and then does nothing. It is
    taken last: the locks before it are held when the subquery of the target list runs.
    """
    rows = await tx.tuples(_HOLD_FOR_REFRESH, {**spending.params, "sponsor": sponsor, "task": task})
    agents, sponsors, (fresh, renewals) = _split(rows[0])
    return Held(fresh, _agent(agents), _sponsor(sponsors), renewals or 0)


async def take_back(tx: Tx, task: str) -> None:
    """Undo the renewal that this transaction counted."""
    await tx.send("UPDATE tasks SET renewals = renewals - 1 WHERE id = %(task)s", {"task": task})


async def hold_agents(tx: Tx, names: Sequence[str]) -> None:
    """Hold agents as they are now until the transaction ends; before any person."""
    await tx.send("SELECT FROM agents WHERE agent_id = ANY(%(names)s) ORDER BY agent_id FOR SHARE", {"names": names})


async def line_of(tx: Tx, task: str | None) -> Line:
    """A task, the one it was delegated from, and so on, with their agents; none for None.

    The tasks stay as they are for as long as the row of their person is held: whoever ends one takes that first.
    """
    if task is None:
        return Line()
    tasks = await tx.tuples(_LINE, {"task": task})
    found = tuple(Task(*row) for row in tasks)
    names = [one.agent for one in found]
    agents = await tx.tuples(_AGENTS_OF, {"names": names})
    known = {row[0]: Registration(*row) for row in agents}
    return Line(found, tuple(known[name] for name in names if name in known))


async def is_revoked(tx: Tx, jti: str) -> bool:
    """Whether this one token was revoked."""
    return bool(await tx.tuples("SELECT 1 FROM revoked_tokens WHERE jti = %(jti)s", {"jti": jti}))


async def current(tx: Tx, task: str) -> Task | None:
    """A task as it is now."""
    found = await tx.tuples(_TASK, {"task": task})
    return Task(*found[0]) if found else None


async def insert_task(tx: Tx, task: Task, grant_sha256: bytes) -> None:
    """Add a task with its grant."""
    await tx.send(
        """
        INSERT INTO tasks (id, agent, sponsor, audience, scope, created_at, expires_at, parent, depth, chain, instance,
                           grant_sha256)
        VALUES (%(id)s, %(agent)s, %(sponsor)s, %(audience)s, %(scope)s, %(created)s, %(expires)s, %(parent)s,
                %(depth)s, %(chain)s, %(instance)s, %(grant)s)
        """,
        {
            "id": task.id,
            "agent": task.agent,
            "sponsor": task.sponsor,
            "audience": task.audience,
            "scope": list(task.scope),
            "created": task.created_at,
            "expires": task.expires_at,
            "parent": task.parent,
            "depth": task.depth,
            "chain": list(task.chain),
            "instance": task.instance,
            "grant": grant_sha256,
        },
    )


def _split(row: tuple[Any, ...]) -> tuple[tuple[Any, ...], tuple[Any, ...], tuple[Any, ...]]:
    return row[:_AGENTS], row[_AGENTS : _AGENTS + _SPONSORS], row[_AGENTS + _SPONSORS :]


def _agent(row: tuple[Any, ...]) -> Registration | None:
    return None if row[0] is None else Registration(*row)


def _sponsor(row: tuple[Any, ...]) -> Sponsor | None:
    return None if row[0] is None else Sponsor(*row)
