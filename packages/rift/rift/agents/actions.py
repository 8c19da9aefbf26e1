"""What the control plane does with an agent's messages. `None` and `False` mean: that agent is over, and must end."""

from __future__ import annotations

from collections.abc import Sequence

import structlog

from keel.db import Tx
from keel.ids import digest
from rift.agents import store
from rift.agents.model import Agent, Ended, Event, Failed, Up
from rift.boxes import actions as boxes
from rift.commands import actions as commands
from rift.commands.model import Told, Work
from rift.deadline import Deadline
from rift.deps import Deps

log = structlog.get_logger()

WAIT_MOST = 30.0
"""The longest that a call for work is parked, in seconds."""


async def work(deps: Deps, agent: Agent, told: Told, power: tuple[int, bool] | None, wait: float) -> Work | None:
    """Claim what waits for this agent and say it, or wait for some. The answer is the confirmation of the claim.

    A command stands in each answer until the agent says that it has it, so a lost answer loses nothing; the agent
    starts each number once.
    """
    deadline = Deadline(deps.clock, min(max(wait, 0.0), WAIT_MOST))
    with deps.signals.on(f"agent:{agent.box}") as signal:
        while True:
            found = await _claim(deps, agent, told)
            if found is None or found.news(power) or deadline.left() <= 0:
                return found
            await signal.wait(deadline.left())


async def events(deps: Deps, agent: Agent, reported: Sequence[Event]) -> bool:
    """Record what an agent reports, all of it or nothing. Saying it twice changes nothing."""
    async with deps.db.tx() as tx:
        if await _heard(tx, deps, agent) is None:
            return False
        for event in reported:
            await _apply(tx, deps, agent, event)
    return True


async def answer(deps: Deps, agent: Agent, id: str, first: int, size: int | None, data: bytes) -> bool:
    """Hand bytes to the call that asked for them, if it still waits."""
    async with deps.db.tx() as tx:
        if await _heard(tx, deps, agent) is None:
            return False
        await commands.answered(tx, id, agent.box, first, size, data)
    return True


async def _claim(deps: Deps, agent: Agent, told: Told) -> Work | None:
    async with deps.db.tx() as tx:
        heard = await _heard(tx, deps, agent)
        if heard is None:
            return None
        state, epoch = heard
        return await commands.claim(tx, deps, agent.box, agent.incarnation, told, (epoch, state == "parked"))


async def _heard(tx: Tx, deps: Deps, agent: Agent) -> tuple[str, int] | None:
    return await store.heard(tx, agent.box, agent.incarnation, digest(agent.token), deps.clock.now())


async def _apply(tx: Tx, deps: Deps, agent: Agent, event: Event) -> None:
    if isinstance(event, Up):
        await boxes.came_up(tx, deps, agent.box, agent.incarnation)
    elif isinstance(event, Failed):
        log.error("box.agent_failed", box=agent.box, reason=event.reason)
        await boxes.fail_in(tx, deps, agent.box, agent.incarnation, event.reason)
    elif isinstance(event, Ended):
        await commands.ended(
            tx,
            deps,
            agent.box,
            event.n,
            agent.incarnation,
            exit=event.exit,
            reason=event.reason,
            media=event.media,
            size=event.size,
            tail=event.tail,
        )
