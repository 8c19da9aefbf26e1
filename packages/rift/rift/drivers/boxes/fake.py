"""A box driver without jails, for tests: real state, agents in this process, and failures on demand."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass

from rift.drivers.boxes.fake_agent import FakeAgent, FakeBox, Post
from rift.drivers.boxes.protocol import BoxSpec, DriverError, HostRoom, Presence, Started, outside_transactions

__all__ = ["FakeBoxes", "Post"]


@dataclass(slots=True)
class _Kept:
    box: FakeBox
    incarnation: int
    agent: asyncio.Task[None] | None = None

    @property
    def runs(self) -> bool:
        return self.agent is not None and not self.agent.done()


class FakeBoxes:
    """Boxes in memory. `post` reaches the control plane (see `fake_agent.Post`).

    Failures on demand: `fail_starts` (how starts fail, a text or an error each, first come first served), `fail_jails`
    (how the jails of agents that do start fail), `fail_power` and `fail_destroy` (the same for parking, resuming,
    removing), `silence`/`unsilence` (an agent unreachable for a while), `kill_agent` (it dies). `host` is what `room`
    tells.
    """

    kind = "fake"

    def __init__(self, post: Post) -> None:
        self._post = post
        self._boxes: dict[str, _Kept] = {}
        self._changing = asyncio.Lock()
        self.specs: list[BoxSpec] = []
        self.fail_starts: list[str | DriverError] = []
        self.fail_jails: list[str] = []
        self.fail_power: list[str] = []
        self.fail_destroy: list[str] = []
        self.lacks: tuple[str, ...] = ()
        self.host = HostRoom(disk_free=2**40, memory_free=2**38, memory_total=2**39)

    @outside_transactions
    async def start(self, spec: BoxSpec) -> Started:
        self.specs.append(spec)
        _fail(self.fail_starts)
        async with self._changing:
            return await self._start(spec)

    async def _start(self, spec: BoxSpec) -> Started:
        kept = self._boxes.get(spec.box)
        if kept is not None and kept.runs:
            if kept.incarnation == spec.incarnation:
                return Started(self.lacks)
            if kept.incarnation > spec.incarnation:
                raise DriverError(f"Incarnation {kept.incarnation} of box {spec.box} runs; {spec.incarnation} is over.")
            await self._end(kept)
        if kept is None:
            checkout = f"/home/dev/{spec.short_repository}"
            box = FakeBox(checkout, {f"{checkout}/.git/HEAD": f"ref: refs/heads/{spec.ref}\n".encode()})
            kept = self._boxes[spec.box] = _Kept(box, spec.incarnation)
        kept.incarnation = spec.incarnation
        kept.box.power(max(spec.epoch, kept.box.epoch), False)
        failure = self.fail_jails.pop(0) if self.fail_jails else None
        base, own = f"/agent/v1/{spec.box}/{spec.incarnation}", spec.equipment
        setup = (own.setup, own.setup_seconds) if own else ("", 0.0)
        agent = FakeAgent(kept.box, base, spec.token, self._post, failure, setup)
        kept.agent = asyncio.create_task(agent.run(), name=f"agent of {spec.box}")
        return Started(self.lacks)

    @outside_transactions
    async def park(self, box: str, epoch: int) -> None:
        self._power(box, epoch, frozen=True)

    @outside_transactions
    async def resume(self, box: str, epoch: int) -> None:
        self._power(box, epoch, frozen=False)

    def _power(self, box: str, epoch: int, *, frozen: bool) -> None:
        _fail(self.fail_power)
        kept = self._boxes.get(box)
        if kept is None:
            raise DriverError(f"There is no box {box} on this host.")
        if not kept.runs:
            raise DriverError("The box's agent does not listen.")
        kept.box.power(epoch, frozen)

    @outside_transactions
    async def stop(self, box: str) -> None:
        async with self._changing:
            if box in self._boxes:
                await self._end(self._boxes[box])

    @outside_transactions
    async def destroy(self, box: str) -> None:
        _fail(self.fail_destroy)
        async with self._changing:
            if box in self._boxes:
                await self._end(self._boxes[box])
                del self._boxes[box]

    @outside_transactions
    async def inspect(self, box: str) -> Presence:
        kept = self._boxes.get(box)
        if kept is None:
            return Presence("absent")
        if not kept.runs:
            return Presence("stopped", kept.incarnation)
        return Presence("parked" if kept.box.frozen else "running", kept.incarnation)

    @outside_transactions
    async def inventory(self) -> list[str]:
        return sorted(self._boxes)

    @outside_transactions
    async def room(self) -> HostRoom:
        return self.host

    async def _end(self, kept: _Kept) -> None:
        if kept.agent is not None:
            kept.agent.cancel()
            with suppress(asyncio.CancelledError):
                await kept.agent
            kept.agent = None

    # What only tests do.

    async def close(self) -> None:
        """End all agents."""
        for kept in self._boxes.values():
            await self._end(kept)

    def release(self, box: str, name: str) -> None:
        """Let `sleep-until-released NAME` in a box go on."""
        self._boxes[box].box.gate(name).set()

    def files(self, box: str) -> dict[str, bytes]:
        """The box's files by full path; changing them changes the box."""
        return self._boxes[box].box.files

    def silence(self, box: str) -> None:
        """Cut the box's agent off: it works on and is not heard."""
        self._boxes[box].box.silent = asyncio.Event()

    def unsilence(self, box: str) -> None:
        """Let the box's agent be heard again, with everything it has to say."""
        kept = self._boxes[box].box
        if kept.silent is not None:
            kept.silent.set()
            kept.silent = None

    async def kill_agent(self, box: str) -> None:
        """End the box's agent as a crash would; its files stay, and the control plane is told nothing."""
        await self._end(self._boxes[box])


def _fail(reasons: list[str] | list[str | DriverError]) -> None:
    if reasons:
        reason = reasons.pop(0)
        raise reason if isinstance(reason, DriverError) else DriverError(reason)
