"""A forge in memory: repositories are what a test says they are."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from rift.drivers.boxes.protocol import outside_transactions
from rift.drivers.forge.protocol import Access, ForgeError


@dataclass(slots=True)
class FakeMirror:
    """What has been fetched: the heads, every commit ever seen, and the pins."""

    heads: dict[str, str] = field(default_factory=dict)
    commits: set[str] = field(default_factory=set)
    pins: dict[str, str] = field(default_factory=dict)


class FakeForge:
    """`repositories` are `{url: {branch: commit}}`; `broken` are `{url: reason}` and fail with it."""

    kind = "fake"

    def __init__(self) -> None:
        self.repositories: dict[str, dict[str, str]] = {}
        self.broken: dict[str, str] = {}
        self.mirrors: dict[Path, FakeMirror] = {}

    @outside_transactions
    async def heads(self, url: str, access: Access | None = None) -> dict[str, str]:
        return dict(self._repository(url))

    @outside_transactions
    async def fetch(self, url: str, mirror: Path, access: Access | None = None) -> dict[str, str]:
        heads = dict(self._repository(url))
        kept = self.mirrors.setdefault(mirror, FakeMirror())
        kept.heads = heads
        kept.commits |= set(heads.values())
        return dict(heads)

    @outside_transactions
    async def has(self, mirror: Path) -> bool:
        return mirror in self.mirrors

    @outside_transactions
    async def pin(self, mirror: Path, box: str, commit: str) -> None:
        kept = self.mirrors.get(mirror)
        if kept is None or commit not in kept.commits:
            raise ForgeError(f"{commit} is not in the mirror")
        kept.pins[box] = commit

    @outside_transactions
    async def pins(self, mirror: Path) -> frozenset[str]:
        return frozenset(self.mirrors[mirror].pins if mirror in self.mirrors else ())

    @outside_transactions
    async def unpin(self, mirror: Path, box: str) -> None:
        if mirror in self.mirrors:
            self.mirrors[mirror].pins.pop(box, None)

    def _repository(self, url: str) -> dict[str, str]:
        if url in self.broken:
            raise ForgeError(f"{url} cannot be read: {self.broken[url]}")
        if url not in self.repositories:
            raise ForgeError(f"{url} cannot be read: no such repository")
        return self.repositories[url]
