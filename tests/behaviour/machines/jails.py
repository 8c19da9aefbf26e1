"""What git in the jail of one box asks for at its door, and what it is told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import httpx2
from tests.behaviour.machines.harness import Place

from rift.agents.model import Agent
from rift.boxes.model import Box
from rift.drivers.forge.packets import FLUSH, Packets, packet

NEW, NONE = "b" * 40, "0" * 40
REFS = "/git/acme/app.git/info/refs?service=git-{}-pack"
PACK = b"PACK\0\0\0\2\0\0\0\0"


@dataclass
class Jail:
    """What git in the jail of one box asks for."""

    http: httpx2.AsyncClient
    agent: Agent
    box: Box
    handle: str

    async def ask(
        self, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None, **other: Any
    ) -> httpx2.Response:
        agent = other.get("agent", self.agent)
        token = {"Authorization": f"Bearer {other.get('token', agent.token)}"}
        where = f"/agent/v1/{agent.box}/{other.get('incarnation', agent.incarnation)}/door{path}"
        return await self.http.request(method, where, content=body, headers={**token, **(headers or {})})

    async def refs(self, service: str = "upload", **other: Any) -> httpx2.Response:
        return await self.ask("GET", REFS.format(service), **other)

    async def push(
        self, *updates: str, pack: bytes = PACK, repo: str = "acme/app.git", **other: Any
    ) -> httpx2.Response:
        return await self.raw(command_list(*updates) + pack, repo=repo, **other)

    async def raw(
        self, body: bytes, service: str = "receive", repo: str = "acme/app.git", **other: Any
    ) -> httpx2.Response:
        kind = {"Content-Type": f"application/x-git-{service}-pack-request"} | other.pop("headers", {})
        return await self.ask("POST", f"/git/{repo}/git-{service}-pack", body, kind, **other)


def command_list(*updates: str, able: str = "report-status side-band-64k") -> bytes:
    """Each update is `OLD NEW REF`."""
    lines = [one.encode() + (f"\0 {able}".encode() if number == 0 else b"") for number, one in enumerate(updates)]
    return b"".join(map(packet, lines)) + FLUSH


def told(answer: bytes) -> tuple[str, list[str]]:
    """What git shows of a push's answer: the remote's words, and the line of each ref."""
    bands, _ = Packets().take(answer)
    said = b"".join(one[1:] for one in bands if one[:1] == b"\2").decode()
    lines, _ = Packets().take(b"".join(one[1:] for one in bands if one[:1] == b"\1"))
    return said, [line.decode().rstrip("\n") for line in lines]


async def recorded(rift: Place) -> list[tuple[str, str]]:
    rows = await rift.rows("SELECT action, outcome FROM ledger WHERE via = 'box' ORDER BY seq")
    return [(row["action"], row["outcome"]) for row in rows]
