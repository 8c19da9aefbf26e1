"""The builder of a server without privileges: the keeper builds, under a user of each repository's own."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from rift.drivers.boxes.protocol import outside_transactions
from rift.drivers.nix.protocol import Built, LogPiece
from rift.drivers.orders import Remote


class RemoteBuilder(Remote):
    """Each method is the keeper's own."""

    kind: Literal["remote"] = "remote"

    @outside_transactions
    async def lacking(self) -> str | None:
        lack: str | None = await self._ask("builder.lacking")
        return lack

    @outside_transactions
    async def wanted(self, mirror: Path, commit: str) -> bool:
        wanted: bool = await self._ask("builder.wanted", mirror, commit)
        return wanted

    @outside_transactions
    async def build(self, build: str, repo: str, mirror: Path, commit: str) -> Built | None:
        built: Built | None = await self._ask("builder.build", build, repo, mirror, commit)
        return built

    @outside_transactions
    async def log(self, build: str, offset: int) -> LogPiece:
        piece: LogPiece = await self._ask("builder.log", build, offset)
        return piece

    @outside_transactions
    async def keep(self, repo: str, builds: tuple[str, ...]) -> None:
        await self._ask("builder.keep", repo, builds)

    @outside_transactions
    async def forget(self, repo: str) -> None:
        await self._ask("builder.forget", repo)
