"""What is done with hosts: take a worker's report, and tell what it says to whoever makes a box."""

from __future__ import annotations

from keel.db import Tx
from rift.deps import Deps
from rift.hosts import store
from rift.hosts.decide import decide_most, decide_shortage, decide_state
from rift.hosts.model import HostState, Reserves, Shortage


async def report(deps: Deps) -> HostState:
    """Have the driver look at its host, and keep what it saw. Raises DriverError when it cannot look."""
    room = await deps.boxes.room()
    state = HostState(deps.clock.now(), room.disk_free, room.memory_free, room.memory_total)
    async with deps.db.tx() as tx:
        await store.put(tx, state)
    return state


async def room(tx: Tx, deps: Deps, times: int = 1) -> tuple[int | None, Shortage | None]:
    """The most boxes of the host, and what it is short of when so many times the reserves are to stay free.

    None where nobody knows: a stale report holds nothing up.
    """
    state = decide_state(await store.last(tx), deps.clock.now())
    boxes = deps.settings.boxes
    reserves = Reserves(boxes.disk_reserve * times, boxes.memory_reserve * times)
    return decide_most(boxes.most, state), decide_shortage(state, reserves)
