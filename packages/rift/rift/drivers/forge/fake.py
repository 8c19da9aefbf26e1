"""A forge in memory: repositories are what a test says they are."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path

from rift.drivers.boxes.protocol import outside_transactions
from rift.drivers.data import Data
from rift.drivers.forge import packets
from rift.drivers.forge.packets import BadRequest, Packets
from rift.drivers.forge.protocol import Access, ForgeError, Gathered, Part, Service


@dataclass(slots=True)
class FakeMirror:
    """What has been fetched: the heads, every commit ever seen, and the pins."""

    heads: dict[str, str] = field(default_factory=dict)
    commits: set[str] = field(default_factory=set)
    pins: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class FakeSession:
    """A request of the smart protocol: what came of it, and what there is of its answer."""

    url: str
    mirror: Path
    service: Service
    lines: list[bytes] = field(default_factory=list)
    packets: Packets = field(default_factory=Packets)
    begun: bool = False
    answer: list[bytes] = field(default_factory=list)
    ended: bool = False


class FakeForge:
    """`repositories` are `{url: {branch: commit}}`; `broken` are `{url: reason}` and fail with it. `defaults` are what
    HEAD names, `{url: branch}`; `main` where a url is not in it.

    `missing` are what a commit's checkout lacks, `ungathered` the reasons why nothing can be gathered for one. Its
    `upload-pack` serves nothing but the refs; its `receive-pack` does the updates of branches without looking at their
    pack, but for those that `refusing` has a reason for. The repositories (by url) in `silent` never answer a session.
    """

    kind = "fake"

    def __init__(self) -> None:
        self.repositories: dict[str, dict[str, str]] = {}
        self.broken: dict[str, str] = {}
        self.defaults: dict[str, str | None] = {}
        self.mirrors: dict[Path, FakeMirror] = {}
        self.missing: dict[str, tuple[str, ...]] = {}
        self.ungathered: dict[str, str] = {}
        self.refusing: dict[str, str] = {}
        self.silent: set[str] = set()
        self.sessions: dict[str, FakeSession] = {}
        self.gathered: list[tuple[str, str]] = []
        self.opened: list[tuple[str, Service, Part, Access | None]] = []

    @outside_transactions
    async def heads(self, url: str, access: Access | None = None) -> dict[str, str]:
        return dict(self._repository(url))

    @outside_transactions
    async def default(self, url: str, access: Access | None = None) -> str | None:
        branch = self.defaults.get(url, "main")
        return branch if branch in self._repository(url) else None

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

    @outside_transactions
    async def gather(self, url: str, mirror: Path, commit: str, access: Access | None = None) -> Gathered:
        if mirror not in self.mirrors or commit not in self.mirrors[mirror].commits:
            raise ForgeError(f"{commit} is not in the mirror")
        if commit in self.ungathered:
            raise ForgeError(self.ungathered[commit])
        self.gathered.append((url, commit))
        return Gathered(self.missing.get(commit, ()))

    @outside_transactions
    async def open(
        self, mirror: Path, url: str, service: Service, part: Part, version: int = 0, access: Access | None = None
    ) -> str:
        if part == "refs" or mirror not in self.mirrors:
            await self.fetch(url, mirror, access)
        self.opened.append((url, service, part, access))
        session = FakeSession(url, mirror, service)
        if part == "refs":
            refs = {f"refs/heads/{branch}": commit for branch, commit in self.mirrors[mirror].heads.items()}
            able = "report-status delete-refs side-band-64k atomic" if service == "receive-pack" else "side-band-64k"
            session.answer.append(packets.advertised(service, refs, able))
            session.ended = True
        number = f"{len(self.opened):032x}"
        self.sessions[number] = session
        return number

    @outside_transactions
    async def feed(self, session: str, data: Data, last: bool) -> None:
        found = self._session(session)
        if not found.begun:
            lines, found.begun = found.packets.take(data)
            found.lines += lines
        if last and not found.ended:
            found.ended = True
            if found.service == "receive-pack" and found.lines:
                found.answer.append(self._push(found))

    @outside_transactions
    async def drain(self, session: str) -> Data | None:
        found = self._session(session)
        if found.url in self.silent:
            await asyncio.sleep(0.01)
            return b""
        if found.answer:
            return found.answer.pop(0)
        if not found.ended:
            await asyncio.sleep(0)  # whoever feeds has a turn
        return None if found.ended and not found.answer else b""

    @outside_transactions
    async def close(self, session: str) -> None:
        self.sessions.pop(session, None)

    def _session(self, session: str) -> FakeSession:
        if session not in self.sessions:
            raise ForgeError("There is no such session with git; it may have ended by itself.")
        return self.sessions[session]

    def _push(self, session: FakeSession) -> bytes:
        try:
            asked = packets.push(session.lines)
        except BadRequest as error:
            raise ForgeError(f"This push cannot be read: {error}.") from error
        heads, failures = self._repository(session.url), {}
        for update in asked.updates:
            branch = update.ref.removeprefix("refs/heads/")
            if update.ref in self.refusing:
                failures[update.ref] = self.refusing[update.ref]
            elif heads.get(branch, "0" * len(update.old)) != update.old:
                failures[update.ref] = "the branch moved meanwhile: fetch, and push again"
            elif update.deletes:
                del heads[branch]
            else:
                heads[branch] = update.new
        return packets.report(asked, failures)

    def _repository(self, url: str) -> dict[str, str]:
        if url in self.broken:
            raise ForgeError(f"{url} cannot be read: {self.broken[url]}")
        if url not in self.repositories:
            raise ForgeError(f"{url} cannot be read: no such repository")
        return self.repositories[url]
