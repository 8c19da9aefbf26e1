"""What is done with agents and the people they act for; each change with its record, refused or not."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from keel.db import Tx
from keel.refusal import Refusal, Stop
from onbe.audit import Row, recorded, stranger
from onbe.deps import Deps
from onbe.directory import refusals, store
from onbe.directory.decide import (
    changes,
    decide_change,
    decide_delete,
    decide_lift,
    decide_new,
    is_id,
    recorded_form,
    unknown,
)  # fmt: skip
from onbe.directory.model import Bounds, Page, Registration, Sponsor

ADMIN = "admin"
"""Who an administrator is on a record."""
TASKS_COUNTED = 1000


def bounds(deps: Deps) -> Bounds:
    """What registrations are held inside now."""
    agents = deps.settings.agents
    return Bounds(
        min_task_ttl=agents.min_task_ttl,
        max_task_ttl=agents.max_task_ttl,
        min_token_ttl=agents.min_token_ttl,
        max_token_ttl=agents.max_token_ttl,
        http="any" if deps.settings.allow_insecure_http else "loopback" if deps.settings.development.enabled else "no",
    )


async def create_agent(deps: Deps, given: object, *, dry_run: bool = False) -> Registration | Refusal:
    """Register an agent. A dry run says what would be, and writes nothing but the refusal."""
    row = _row(deps, "agent.created", given.get("agent_id") if isinstance(given, dict) else None)
    decided = decide_new(given, bounds(deps), deps.clock.now())
    async with recorded(deps, row) as tx:
        if isinstance(decided, Refusal):
            return _refused(row, decided)
        there = await store.agent(tx, decided.agent_id) if dry_run else None
        if there is not None or (not dry_run and not await store.insert(tx, decided)):
            return _refused(row, refusals.agent_exists(Stop(), agent=decided.agent_id))
        row.facts["registration"] = recorded_form(decided)
        row.silent = dry_run
        return decided


async def read_agent(deps: Deps, agent_id: str) -> Registration | Refusal:
    """An agent as it is registered."""
    if not is_id(agent_id):
        return unknown(agent_id)
    async with deps.db.look() as tx:
        return await store.agent(tx, agent_id) or unknown(agent_id)


async def list_agents(deps: Deps, after: str, limit: int) -> Page:
    """At most `limit` agents behind `after`, in the order of their ids."""
    async with deps.db.look() as tx:
        found = await store.page(tx, after, limit + 1)
    return Page(tuple(found[:limit]), len(found) > limit)


async def change_agent(deps: Deps, agent_id: str, patch: object, *, dry_run: bool = False) -> Registration | Refusal:
    """Apply a JSON merge patch (RFC 7396). What changes nothing leaves no record."""
    row = _row(deps, "agent.changed", agent_id)
    async with recorded(deps, row) as tx:
        current = await store.locked(tx, agent_id) if is_id(agent_id) else None
        if current is None:
            return _refused(row, unknown(agent_id))
        decided = decide_change(current, patch, bounds(deps), deps.clock.now())
        if isinstance(decided, Refusal):
            return _refused(row, decided)
        row.silent = dry_run or decided is current
        if not row.silent:
            row.facts["changed"] = changes(current, decided)
            await store.update(tx, decided)
        return decided


async def delete_agent(deps: Deps, agent_id: str) -> Registration | Refusal:
    """Forget an agent of which no task is stored; what it was."""
    row = _row(deps, "agent.deleted", agent_id)
    async with recorded(deps, row) as tx:
        current = await store.locked_to_go(tx, agent_id) if is_id(agent_id) else None
        tasks = await store.count_tasks(tx, agent_id, TASKS_COUNTED) if current else 0
        decided = decide_delete(agent_id, current, tasks, TASKS_COUNTED)
        if isinstance(decided, Refusal):
            return _refused(row, decided)
        await store.delete(tx, agent_id)
        row.facts["registration"] = recorded_form(decided)
        return decided


async def admin_denied(deps: Deps, refusal: Refusal) -> Refusal:
    """Take down that somebody without the key knocked at the admin API: the first in a minute, and how many more."""
    return await stranger(deps, Row("admin.denied", deps.clock.monotonic(), agent=ADMIN), refusal)


# People, and fences: parts of the transactions of `tasks.actions`, which says in which order rows are locked ----------


async def fence_agent(tx: Tx, agent: str, now: datetime) -> Refusal | None:
    """Let no exchange in flight give this agent a task; its row is held. A refusal for an unknown agent."""
    return None if is_id(agent) and await store.fence_agent(tx, agent, now) else unknown(agent)


async def fence_sponsor(tx: Tx, key: str, now: datetime) -> Sponsor:
    """Let no exchange in flight begin a task for this person; their row is held, and made if there is none."""
    return await store.fence_sponsor(tx, key, now)


async def hold_sponsors(tx: Tx, keys: Sequence[str]) -> None:
    """Hold the rows of these people until the transaction ends: nothing is begun or delegated for them meanwhile."""
    await store.hold_sponsors(tx, keys)


async def find_sponsor(tx: Tx, key: str) -> Sponsor:
    """A person as they are known here; one of whom nothing is known is blocked by nobody."""
    return await store.find_sponsor(tx, key) or Sponsor(key, {})


async def place_block(tx: Tx, sponsor: Sponsor, source: str, at: datetime, reason: str) -> bool:
    """Have `source` block a person whose row is held. False where it does so already, for the same reason."""
    placed = sponsor.blocks.get(source)
    if placed and placed["reason"] == reason:
        return False
    await store.set_block(tx, sponsor.key, source, at, reason)
    return True


async def lift_block(deps: Deps, key: str, source: str, via: str) -> Sponsor | Refusal:
    """Lift the block that `source` placed, and no other: the person as they stand then."""
    row = Row("sponsor.unblocked", deps.clock.monotonic(), sponsor=key, agent=via, facts={"source": source})
    async with recorded(deps, row) as tx:
        refused = decide_lift(await store.find_sponsor_held(tx, key), source)
        if refused is not None:
            return row.said(refused)
        await store.lift_block(tx, key, source)
        return await find_sponsor(tx, key)


def _row(deps: Deps, action: str, agent_id: object) -> Row:
    known = isinstance(agent_id, str) and is_id(agent_id)
    return Row(action, deps.clock.monotonic(), agent=ADMIN, facts={"agent": agent_id if known else None})


def _refused(row: Row, refusal: Refusal) -> Refusal:
    """Take a refusal down: which members were wrong, and nothing of what they held."""
    errors = refusal.facts.get("errors")
    if isinstance(errors, list):
        row.facts["invalid"] = [error["pointer"] for error in errors]
    return row.said(refusal)
