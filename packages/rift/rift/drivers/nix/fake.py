"""A builder in memory: what a commit's flake comes to is what a test says."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Literal

from rift.drivers.boxes.protocol import outside_transactions
from rift.drivers.nix.protocol import LOG_PIECE, BuildError, BuildInterrupted, Built, LogPiece


class FakeBuilder:
    """By commit: `flakes` are what builds come to, `broken` the reasons why they fail, `says` what is in their logs.

    A commit in none of these has no flake of ours. One in `held` is not built before its event is set. `lack` is what
    the host lacks, `interrupted` how the next builds, or collections, are ended from outside. `began`, `ended` and
    `cancelled` are builds, in their order; `kept` are those that a repository's store was last told to keep; `made` is
    what the host has, by the build that it came of.
    """

    kind: Literal["fake"] = "fake"

    def __init__(self) -> None:
        self.flakes: dict[str, Built] = {}
        self.broken: dict[str, str] = {}
        self.says: dict[str, bytes] = {}
        self.held: dict[str, asyncio.Event] = {}
        self.lack: str | None = None
        self.interrupted: list[str] = []
        self.began: list[str] = []
        self.ended: list[str] = []
        self.cancelled: list[str] = []
        self.kept: dict[str, tuple[str, ...]] = {}
        self.made: dict[str, Built] = {}
        self._logs: dict[str, bytes] = {}
        self._repos: dict[str, str] = {}

    @outside_transactions
    async def lacking(self) -> str | None:
        return self.lack

    @outside_transactions
    async def wanted(self, mirror: Path, commit: str) -> bool:
        return commit in self.flakes or commit in self.broken

    @outside_transactions
    async def build(self, build: str, repo: str, mirror: Path, commit: str) -> Built | None:
        if commit not in self.flakes and commit not in self.broken:
            return None
        if self.lack is not None:
            raise BuildError(self.lack)
        self.began.append(build)
        self._logs[build], self._repos[build] = self.says.get(commit, b""), repo
        try:
            if commit in self.held:
                await self.held[commit].wait()
        except asyncio.CancelledError:
            self.cancelled.append(build)
            raise
        finally:
            self.ended.append(build)
        if self.interrupted:
            raise BuildInterrupted(self.interrupted.pop(0))
        if commit in self.broken:
            raise BuildError(self.broken[commit])
        self._repos[build], self.made[build] = repo, self.flakes[commit]
        return self.flakes[commit]

    def say(self, build: str, more: bytes) -> None:
        """Let a build say more."""
        self._logs[build] += more

    @outside_transactions
    async def log(self, build: str, offset: int) -> LogPiece:
        data = self._logs.get(build, b"")[offset : offset + LOG_PIECE]
        return LogPiece(data, self.began.count(build) > self.ended.count(build))

    @outside_transactions
    async def keep(self, repo: str, builds: tuple[str, ...]) -> None:
        if self.interrupted:
            raise BuildInterrupted(self.interrupted.pop(0))
        self.kept[repo] = builds
        self._drop(repo, builds)

    @outside_transactions
    async def forget(self, repo: str) -> None:
        self.kept.pop(repo, None)
        self._drop(repo, ())

    def _drop(self, repo: str, kept: tuple[str, ...]) -> None:
        for build in [build for build, owner in self._repos.items() if owner == repo and build not in kept]:
            del self._repos[build]
            self._logs.pop(build, None)
            self.made.pop(build, None)
