"""The forge of a server without privileges: git runs with the keeper, which has the operator's credentials."""

from __future__ import annotations

from pathlib import Path

from rift.drivers.boxes.protocol import outside_transactions
from rift.drivers.data import Data
from rift.drivers.forge.protocol import Access, Gathered, Part, Service
from rift.drivers.orders import Remote


class RemoteForge(Remote):
    """Each method is the keeper's own."""

    kind = "local"

    @outside_transactions
    async def heads(self, url: str, access: Access | None = None) -> dict[str, str]:
        heads: dict[str, str] = await self._ask("forge.heads", url, access)
        return heads

    @outside_transactions
    async def default(self, url: str, access: Access | None = None) -> str | None:
        branch: str | None = await self._ask("forge.default", url, access)
        return branch

    @outside_transactions
    async def fetch(self, url: str, mirror: Path, access: Access | None = None) -> dict[str, str]:
        heads: dict[str, str] = await self._ask("forge.fetch", url, mirror, access)
        return heads

    @outside_transactions
    async def has(self, mirror: Path) -> bool:
        there: bool = await self._ask("forge.has", mirror)
        return there

    @outside_transactions
    async def pin(self, mirror: Path, box: str, commit: str) -> None:
        await self._ask("forge.pin", mirror, box, commit)

    @outside_transactions
    async def pins(self, mirror: Path) -> frozenset[str]:
        boxes: frozenset[str] = await self._ask("forge.pins", mirror)
        return boxes

    @outside_transactions
    async def unpin(self, mirror: Path, box: str) -> None:
        await self._ask("forge.unpin", mirror, box)

    @outside_transactions
    async def gather(self, url: str, mirror: Path, commit: str, access: Access | None = None) -> Gathered:
        gathered: Gathered = await self._ask("forge.gather", url, mirror, commit, access)
        return gathered

    @outside_transactions
    async def open(
        self, mirror: Path, url: str, service: Service, part: Part, version: int = 0, access: Access | None = None
    ) -> str:
        session: str = await self._ask("forge.open", mirror, url, service, part, version, access)
        return session

    @outside_transactions
    async def feed(self, session: str, data: Data, last: bool) -> None:
        await self._ask("forge.feed", session, data, last)

    @outside_transactions
    async def drain(self, session: str) -> Data | None:
        data: bytes | None = await self._ask("forge.drain", session)
        return data

    @outside_transactions
    async def close(self, session: str) -> None:
        await self._ask("forge.close", session)
