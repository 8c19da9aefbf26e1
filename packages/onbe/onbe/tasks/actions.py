"""What is done with tasks. Each public function is one transaction with its records, or a part of another's.

**One lock order**, in all of Onbe: the agent's row, then sponsors' rows by key, then the assertion that is used
up, then tasks.

- An exchange, also one that delegates, holds its agent's and its sponsor's row in share mode while it looks whether
  they still are what it began with, whether the task that it is delegated from still lives, and adds its task.
- A refresh writes its task's row, guarded by its not having ended, and waits for nothing while it holds that.
- Whatever ends tasks holds for itself the row of every person whose tasks it ends. All that is delegated from a task is
  for the same person, so two that end one task come one after the other, and nothing is delegated from it meanwhile.
- A switch for an agent or a person also moves a fence, the instant `tasks_ended_at` of that row: an exchange that began
  before it, and waits for the identity provider, finds another instant than it read at its beginning, and gets nothing.
- The sweeper takes tasks alone, and passes over any that somebody holds.

So no two wait for each other, and of an end and an exchange or refresh in flight one comes wholly before the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from keel.db import Tx
from keel.refusal import Refusal, Stop
from onbe.audit import Row, note_all, recorded
from onbe.deps import Deps
from onbe.directory import actions as directory
from onbe.directory.model import Sponsor
from onbe.tasks import refusals, store
from onbe.tasks.model import EndReason, Task, is_id

ADMIN = "admin"
"""Who throws a switch through the admin API, and the source of the blocks it places."""
SWEPT_AT_ONCE = 500
"""How many tasks the sweeper marks in one transaction."""


@dataclass(frozen=True, slots=True)
class Standing:
    """A person as the admin API shows them."""

    sponsor: Sponsor
    open_tasks: int


# Switches ------------------------------------------------------------------------------------------------------------


async def end_task(deps: Deps, id: str, by: str = ADMIN) -> list[Task] | Refusal:
    """End one task and all delegated from it; those that this ended, none where it had ended before."""
    async with deps.db.tx() as tx:
        task = await store.find(tx, id) if is_id(id) else None
        if task is None:
            return _unknown(id)
        return await end_in(tx, deps, task, "task_killed", by)


async def end_tasks_of_agent(deps: Deps, agent: str, by: str = ADMIN) -> list[Task] | Refusal:
    """End all tasks of an agent and all delegated from them, and fence what is in flight; those that this ended."""
    row = Row("agent.tasks_ended", deps.clock.monotonic(), agent=by)
    async with recorded(deps, row) as tx:
        now = deps.clock.now()
        unknown = await directory.fence_agent(tx, agent, now)
        if unknown is not None:
            return row.said(unknown)
        row.facts["agent"] = agent
        theirs = await store.open_of_agent(tx, agent)
        await directory.hold_sponsors(tx, sorted({sponsor for _, sponsor in theirs}))
        ended = await _end(tx, deps, [id for id, _ in theirs], "agent_killed", by, now)
        row.facts["tasks"] = len(ended)
        return ended


async def end_tasks_of_sponsor(deps: Deps, key: str, by: str = ADMIN) -> list[Task]:
    """End all tasks for a person, whoever does them, and fence what is in flight; those that this ended."""
    row = Row("sponsor.tasks_ended", deps.clock.monotonic(), sponsor=key, agent=by)
    async with recorded(deps, row) as tx:
        now = deps.clock.now()
        await directory.fence_sponsor(tx, key, now)
        ended = await _end(tx, deps, await store.open_of_sponsor(tx, key), "sponsor_killed", by, now)
        row.facts["tasks"] = len(ended)
        return ended


async def block(deps: Deps, key: str, reason: str, source: str = ADMIN, by: str = ADMIN) -> Standing:
    """Block a person: their tasks end, and nobody begins one for them until `source` lifts it. The person after it.

    Placing the block that stands already changes nothing, and is no new record.
    """
    row = Row("sponsor.blocked", deps.clock.monotonic(), sponsor=key, agent=by)
    row.facts |= {"source": source, "reason": reason}
    async with recorded(deps, row) as tx:
        now = deps.clock.now()
        sponsor = await directory.fence_sponsor(tx, key, now)
        placed = await directory.place_block(tx, sponsor, source, now, reason)
        ended = await _end(tx, deps, await store.open_of_sponsor(tx, key), "sponsor_blocked", by, now)
        row.facts["tasks"] = len(ended)
        row.silent = not placed and not ended
        return await standing(tx, deps, key)


async def end_in(tx: Tx, deps: Deps, task: Task, reason: EndReason, by: str) -> list[Task]:
    """A part of a transaction that holds no task: end one and all delegated from it; those that this ended."""
    await hold(tx, task)
    return await _end(tx, deps, [task.id], reason, by, deps.clock.now())


async def hold(tx: Tx, task: Task) -> None:
    """A part of a transaction that is going to end a task: nobody else ends it, and nothing is delegated from it."""
    await directory.hold_sponsors(tx, [task.sponsor])


async def of_grant(tx: Tx, grant_sha256: bytes) -> Task | None:
    """The task of a grant, by the digest of it."""
    return await store.find_by_grant(tx, grant_sha256)


async def _end(tx: Tx, deps: Deps, ids: Sequence[str], reason: EndReason, by: str, now: datetime) -> list[Task]:
    ended = await store.end(tx, ids, reason, now) if ids else []
    await _record(tx, deps, ended, by)
    return [task for task in ended if task.end == "revoked"]


async def _record(tx: Tx, deps: Deps, ended: Sequence[Task], by: str) -> None:
    """One record a task that ended: `task.revoked` with its reason, or `task.expired`; its renewals are summed up."""
    started = deps.clock.monotonic()
    rows = []
    for task in ended:
        row = Row(f"task.{task.end}", started, sponsor=task.sponsor, agent=task.agent, task=task.id)
        row.facts |= {"by": by, "renewals": task.renewals}
        row.facts |= {"reason": task.end_reason} if task.end_reason else {}
        row.facts |= {"parent": task.parent} if task.parent else {}
        rows.append(row)
    await note_all(tx, deps, rows)


# Looking -------------------------------------------------------------------------------------------------------------


async def find(deps: Deps, id: str) -> Task | Refusal:
    """A task by its id."""
    async with deps.db.look() as tx:
        return (await store.find(tx, id) if is_id(id) else None) or _unknown(id)


async def page(
    deps: Deps, *, agent: str | None, sponsor: str | None, open: bool | None, before: str | None, limit: int
) -> list[Task]:
    """At most `limit` tasks that pass every filter, the newest first, those below the id `before`."""
    async with deps.db.look() as tx:
        return await store.page(
            tx, agent=agent, sponsor=sponsor, open=open, before=before, limit=limit, now=deps.clock.now()
        )


async def standing(tx: Tx, deps: Deps, key: str) -> Standing:
    """A person as they stand now."""
    return Standing(await directory.find_sponsor(tx, key), await store.count_open(tx, key, deps.clock.now()))


async def look_at(deps: Deps, key: str) -> Standing:
    """The same, asked for alone."""
    async with deps.db.look() as tx:
        return await standing(tx, deps, key)


async def unblock(deps: Deps, key: str, source: str = ADMIN, by: str = ADMIN) -> Standing | Refusal:
    """Lift the block that `source` placed. The tasks that it ended stay ended."""
    lifted = await directory.lift_block(deps, key, source, by)
    return lifted if isinstance(lifted, Refusal) else await look_at(deps, key)


def _unknown(id: str) -> Refusal:
    return refusals.task_unknown(Stop(), task=id if is_id(id) else "of that id")


# Upkeep --------------------------------------------------------------------------------------------------------------


async def sweep(deps: Deps) -> int:
    """Mark the tasks whose time is over, each once among any number of replicas; how many this marked."""
    marked = SWEPT_AT_ONCE
    total = 0
    while marked == SWEPT_AT_ONCE:
        async with deps.db.tx() as tx:
            expired = await store.expire(tx, deps.clock.now(), SWEPT_AT_ONCE)
            await _record(tx, deps, expired, "sweeper")
        marked = len(expired)
        total += marked
    return total


async def forget(deps: Deps) -> int:
    """Delete tasks that ended longer ago than they are kept; how many. Their records stay in the ledger."""
    before = deps.clock.now() - deps.settings.tasks.keep_ended
    async with deps.db.tx() as tx:
        return await store.forget(tx, before, SWEPT_AT_ONCE)
