"""Everything at once: calls, agents and upkeep together never wait for each other in a circle, and nothing fails."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest
from tests.behaviour.machines.harness import HEAD, Place

from keel.refusal import Refusal
from rift.agents import actions as agents
from rift.agents.model import Up
from rift.boxes.model import LIVING, TRANSITIONS
from rift.commands.model import End
from rift.pools import actions as pools

CROWD = 60


async def what_anybody_does(rift: Place, chance: random.Random, handles: list[str]) -> Callable[[], Awaitable[object]]:
    """One thing that a caller, an agent or upkeep may do now."""
    living = [box for box in await rift.all_boxes() if box.state in LIVING and box.incarnation]
    box = chance.choice(living)
    handle = next((one for one in handles if box.task and one.startswith(box.task)), chance.choice(handles))
    agent, n = rift.agent(box.id), max(1, box.next_command - chance.randint(1, 3))
    return chance.choice(
        [
            lambda: rift.bash(handle, box.id),
            lambda: rift.bash(handle, box.id),
            lambda: rift.suspend(handle, box.id),
            lambda: rift.output(handle, (f"{box.id}.{n}", 0)),
            lambda: rift.stop(handle, f"{box.id}.{n}"),
            lambda: rift.new_box(handle),
            lambda: rift.destroy(handle, box.id),
            lambda: rift.poll(agent),
            lambda: rift.poll(agent, n),
            lambda: agents.events(rift.deps, agent, [Up(), End(n, 0, None, 1, b"x")]),
            lambda: agents.events(rift.deps, agent, [End(n, 0, None, 1, b"x")]),
            lambda: pools.fill(rift.deps, rift.repo.id, "main"),
            lambda: rift.move_head(chance.choice([HEAD, "b" * 40])),
            lambda: rift.worker.jobs["commands.expire"](rift.deps),
            lambda: rift.worker.jobs["tasks.close_quiet"](rift.deps),
            lambda: rift.worker.jobs["boxes.upkeep"](rift.deps),
            lambda: rift.worker.jobs["boxes.park"](rift.deps, box=box.id),
            lambda: rift.worker.jobs["boxes.revive"](rift.deps, box=box.id),
        ]
    )


@pytest.mark.parametrize("seed", range(5))
async def test_a_crowd_at_one_moment_gets_answers_and_no_failure(rift: Place, seed: int) -> None:
    chance = random.Random(seed)
    handles = [(await rift.open_task()).handle for _ in range(3)]
    await rift.warm(2)
    for handle in handles:
        for _ in range(2):
            await rift.running_box(handle)
    rift.clock.advance(601)
    things = [await what_anybody_does(rift, chance, handles) for _ in range(CROWD)]
    async with asyncio.timeout(60):
        got = await asyncio.gather(*(thing() for thing in things), return_exceptions=True)
    assert [one for one in got if isinstance(one, BaseException)] == []
    assert any(isinstance(one, Refusal) for one in got)
    await rift.work()
    rows = await rift.rows("SELECT box, count(*) AS n FROM commands WHERE state IN ('queued', 'claimed') GROUP BY box")
    assert all(row["n"] <= 4 for row in rows)
    for row in rows:
        assert (await rift.box(row["box"])).state in ("starting", "running")
    living = [box for box in await rift.all_boxes() if TRANSITIONS[box.state] and box.state != "destroying"]
    assert len({box.number for box in living}) == len(living)
