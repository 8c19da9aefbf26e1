"""What is done with agents and the people they act for."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from keel.db import Tx
from keel.refusal import Refusal
from onbe.audit import Row, recorded
from onbe.deps import Deps
from onbe.directory import store
from onbe.directory.decide import decide_lift
from onbe.directory.model import Sponsor

# People, and fences: parts of the transactions of `tasks.actions`, which says in which order rows are locked ----------


async def fence_agent(tx: Tx, agent: str, now: datetime) -> bool:
    """Let no exchange in flight give this agent a task; its row is held. False for an unknown agent."""
    return await store.fence_agent(tx, agent, now)


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
