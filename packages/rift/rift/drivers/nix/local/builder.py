"""Builds environments on this host."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from rift.drivers.boxes.local import LocalConfig
from rift.drivers.boxes.protocol import outside_transactions
from rift.drivers.nix.local import flakes
from rift.drivers.nix.protocol import Built, LogPiece

LACK = "Environments are not built by this version."


class LocalBuilder:
    """Builds by Nix."""

    kind: Literal["local"] = "local"

    def __init__(self, config: LocalConfig) -> None:
        self._config = config

    @outside_transactions
    async def lacking(self) -> str | None:
        return LACK

    @outside_transactions
    async def wanted(self, mirror: Path, commit: str) -> bool:
        return await flakes.ours(mirror, commit)

    @outside_transactions
    async def build(self, build: str, repo: str, mirror: Path, commit: str) -> Built | None:
        return None

    @outside_transactions
    async def log(self, build: str, offset: int) -> LogPiece:
        return LogPiece(b"", running=False)

    @outside_transactions
    async def keep(self, repo: str, builds: tuple[str, ...]) -> None:
        return

    @outside_transactions
    async def forget(self, repo: str) -> None:
        return
