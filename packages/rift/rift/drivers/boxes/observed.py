"""A box driver with its work timed and traced; otherwise the driver within."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TypeVar

from keel.clock import Clock
from keel.telemetry import tracing
from rift import meters
from rift.drivers.boxes.protocol import BoxDriver, BoxSpec, HostRoom, Presence, Started

Result = TypeVar("Result")


class ObservedBoxes:
    """`BoxDriver`, whatever makes the boxes."""

    def __init__(self, within: BoxDriver, clock: Clock) -> None:
        self._within = within
        self._clock = clock

    @property
    def kind(self) -> str:
        """As the driver within."""
        return self._within.kind

    async def start(self, spec: BoxSpec) -> Started:
        """As the driver within."""
        return await self._timed("start", spec.box, self._within.start(spec))

    async def park(self, box: str, epoch: int) -> None:
        """As the driver within."""
        await self._timed("park", box, self._within.park(box, epoch))

    async def resume(self, box: str, epoch: int) -> None:
        """As the driver within."""
        await self._timed("resume", box, self._within.resume(box, epoch))

    async def stop(self, box: str) -> None:
        """As the driver within."""
        await self._timed("stop", box, self._within.stop(box))

    async def destroy(self, box: str) -> None:
        """As the driver within."""
        await self._timed("destroy", box, self._within.destroy(box))

    async def inspect(self, box: str) -> Presence:
        """As the driver within."""
        return await self._within.inspect(box)

    async def inventory(self) -> list[str]:
        """As the driver within."""
        return await self._within.inventory()

    async def room(self) -> HostRoom:
        """As the driver within."""
        return await self._within.room()

    async def _timed(self, work: str, box: str, doing: Awaitable[Result]) -> Result:
        began, outcome = self._clock.monotonic(), "failed"
        with tracing.span(f"box {work}", box=box):
            try:
                result = await doing
                outcome = "ok"
            finally:
                meters.DRIVER_SECONDS.labels(work, outcome).observe(self._clock.monotonic() - began)
        return result
