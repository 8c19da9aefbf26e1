"""What the control plane does with an agent's messages. `None` and `False` mean: that agent is over, and must end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import structlog

from keel.db import Tx
from rift.agents import store
from rift.agents.model import Agent, Event, Refused, Up
from rift.audit import note
from rift.boxes import actions as boxes
from rift.commands import actions as commands
from rift.commands.model import End, Told, Work
from rift.deadline import Deadline
from rift.deps import Deps
from rift.secrets import actions as secrets

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
        woken = False
        while True:
            found = await _tell(deps, agent, told, certain=woken)
            if found is None or found.news(power) or deadline.left() <= 0 or signal.closing:
                return found
            woken = await signal.wait(deadline.left())


async def events(deps: Deps, agent: Agent, reported: Sequence[Event]) -> bool:
    """Record what an agent reports, in its order; False when it is over. Saying it twice changes nothing."""
    alone = len(reported) == 1 and isinstance(reported[0], End)  # one statement: it needs no transaction around it
    async with deps.db.look() if alone else deps.db.tx() as tx:
        for event in reported:
            if not await _apply(tx, deps, agent, event):
                return False
    return True


async def known(deps: Deps, agent: Agent) -> bool:
    """Whether this is the agent of a box as it is now; it counts as heard."""
    async with deps.db.look() as tx:
        return await _heard(tx, deps, agent)


async def answer(deps: Deps, agent: Agent, id: str, first: int, size: int | None, data: bytes) -> bool:
    """Hand bytes to the call that asked for them, if it still waits."""
    async with deps.db.tx() as tx:
        if not await _heard(tx, deps, agent):
            return False
        await commands.answered(tx, id, agent.box, first, size, data)
    return True


async def _tell(deps: Deps, agent: Agent, told: Told, *, certain: bool) -> Work | None:
    """What there is to say. Unless it is `certain` that there is something, a cheap look comes before the claim."""
    if not certain:
        async with deps.db.look() as tx:
            found = await commands.news(tx, deps, agent.box, agent.incarnation, agent.token_sha256, told)
        if found is None:
            return None
        now, something = found
        if not something:
            return Work((), (), (), now)
    async with deps.db.look() as tx:
        work = await commands.claim(tx, deps, agent.box, agent.incarnation, agent.token_sha256, told)
        if work is None or not work.commands or work.secrets == told.secrets:
            return work
        # Read after the claim: a secret that was set before a command was queued is among them.
        return replace(work, delivery=await secrets.delivery(tx, deps, agent.box))


async def _heard(tx: Tx, deps: Deps, agent: Agent) -> bool:
    return await store.heard(tx, agent.box, agent.incarnation, agent.token_sha256, deps.clock.now())


async def _apply(tx: Tx, deps: Deps, agent: Agent, event: Event) -> bool:
    if isinstance(event, End):
        return await commands.ended(tx, deps, agent.box, agent.incarnation, agent.token_sha256, event)
    if not await _heard(tx, deps, agent):
        return False
    if isinstance(event, Up):
        await boxes.came_up(tx, deps, agent.box, agent.incarnation)
    elif isinstance(event, Refused):
        await _record(tx, deps, agent, event)
    else:
        log.error("box.agent_failed", box=agent.box, reason=event.reason[:2000])
        ended = boxes.setup_failed if event.setup else boxes.agent_ended
        await ended(tx, deps, agent.box, agent.incarnation, event.reason)
    return True


async def _record(tx: Tx, deps: Deps, agent: Agent, event: Refused) -> None:
    """One row: whoever owns the box's task is the actor, as the connection was their agent's. Source: design, Audit."""
    found = await store.refusals_of(tx, agent.box, agent.incarnation, event.n)
    if found is None:
        return
    task, owner = found
    named = {"host": event.host, "port": event.port} if event.host else {}
    await note(
        tx, deps, "network", actor=owner, via="agent", task=task, box=agent.box, outcome=event.why,
        arguments={**named, "count": event.count},
    )  # fmt: skip
