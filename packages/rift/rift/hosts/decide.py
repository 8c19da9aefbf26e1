"""What a host can hold, from plain values."""

from __future__ import annotations

from datetime import datetime

from rift.hosts.model import HostState, Reserves, Shortage
from rift.names import BOX_MEMORY, BOXES_LEAST, HOST_HEARD


def decide_state(state: HostState | None, now: datetime) -> HostState | None:
    """The report, if it is fresh enough to be believed."""
    return state if state is not None and now - state.at <= HOST_HEARD else None


def decide_shortage(state: HostState | None, reserves: Reserves) -> Shortage | None:
    """What there is too little of to make a box; None where there is enough, or where nobody knows."""
    if state is None:
        return None
    disk = (state.disk_free, reserves.disk) if state.disk_free < reserves.disk else None
    memory = (state.memory_free, reserves.memory) if state.memory_free < reserves.memory else None
    return Shortage(disk, memory) if disk or memory else None


def decide_most(most: int | None, state: HostState | None) -> int | None:
    """How many boxes the host holds at most: as set, else by its memory; None where neither is known."""
    if most is not None or state is None:
        return most
    return max(BOXES_LEAST, state.memory_total // BOX_MEMORY)
