"""The box driver of a server without privileges: the keeper of this host makes the boxes."""

from __future__ import annotations

from rift.drivers.boxes.protocol import BoxSpec, HostRoom, Presence, Started, outside_transactions
from rift.drivers.orders import Remote


class RemoteBoxes(Remote):
    """Each method is the keeper's own; boxes are of the kind that it makes."""

    kind = "local"

    @outside_transactions
    async def start(self, spec: BoxSpec) -> Started:
        started: Started = await self._ask("boxes.start", spec)
        return started

    @outside_transactions
    async def park(self, box: str, epoch: int) -> None:
        await self._ask("boxes.park", box, epoch)

    @outside_transactions
    async def resume(self, box: str, epoch: int) -> None:
        await self._ask("boxes.resume", box, epoch)

    @outside_transactions
    async def stop(self, box: str) -> None:
        await self._ask("boxes.stop", box)

    @outside_transactions
    async def destroy(self, box: str) -> None:
        await self._ask("boxes.destroy", box)

    @outside_transactions
    async def inspect(self, box: str) -> Presence:
        presence: Presence = await self._ask("boxes.inspect", box)
        return presence

    @outside_transactions
    async def inventory(self) -> list[str]:
        boxes: list[str] = await self._ask("boxes.inventory")
        return boxes

    @outside_transactions
    async def room(self) -> HostRoom:
        room: HostRoom = await self._ask("boxes.room")
        return room
