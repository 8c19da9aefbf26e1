"""Each test of the suite runs once with each carrier; a kit is an origin that a test writes, and what it was asked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import pytest

from rift.drivers.carrier.fake import FakeCarrier
from rift.drivers.carrier.http import HttpCarrier
from rift.drivers.carrier.protocol import Carrier


@dataclass
class Origin:
    """What it answers, and each request that came: method, path, headers by lower-case name, body."""

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    asked: list[tuple[str, str, Mapping[str, str], bytes]] = field(default_factory=list)


class Kit(Protocol):
    """A carrier, and an origin that it reaches at `url`."""

    carrier: Carrier
    origin: Origin
    url: str
    nowhere: str
    """Where nobody answers."""

    def hush(self) -> None:
        """Have the origin take requests and never answer."""

    def be_private(self) -> None:
        """Have the origin be one of no public address."""


class FakeKit:
    """An origin that is a function."""

    def __init__(self) -> None:
        self.fake = FakeCarrier()
        self.carrier: Carrier = self.fake
        self.origin = Origin()
        self.url, self.nowhere = "http://origin.example", "http://nowhere.example"
        self.fake.origins[f"{self.url}/"] = self.answer

    def answer(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, Mapping[str, str], bytes]:
        told = {name.lower(): value for name, value in headers.items()}
        self.origin.asked.append((method, url.removeprefix(self.url), told, body))
        answered = {name.lower(): value for name, value in self.origin.headers.items()}
        return self.origin.status, answered, self.origin.body

    def hush(self) -> None:
        self.fake.silent.add(self.url)

    def be_private(self) -> None:
        self.fake.private.add(self.url)


class HttpKit:
    """An origin that is a server on a port of the loopback."""

    def __init__(self) -> None:
        self.carrier: Carrier = HttpCarrier()
        self.origin = Origin()
        self.url = self.nowhere = ""
        self.silent = False
        self.gone = asyncio.Event()
        """A caller has gone away without its answer."""

    def hush(self) -> None:
        self.silent = True

    def be_private(self) -> None:
        pass  # it is on the loopback

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await self._one(reader, writer):
                pass
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").splitlines()
        method, path, _ = head[0].split()
        told = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:] if line)}
        body = await _body(reader, told)
        self.origin.asked.append((method, path, told, body))
        if self.silent:
            await reader.read()
            self.gone.set()
            return False
        answered = {**self.origin.headers, "Content-Length": str(len(self.origin.body))}
        lines = [f"HTTP/1.1 {self.origin.status} Said", *(f"{name}: {value}" for name, value in answered.items())]
        writer.write("".join(f"{line}\r\n" for line in lines).encode() + b"\r\n" + self.origin.body)
        await writer.drain()
        return True


async def _body(reader: asyncio.StreamReader, told: Mapping[str, str]) -> bytes:
    if "transfer-encoding" not in told:
        return await reader.readexactly(int(told.get("content-length", "0")))
    whole = b""
    while size := int(await reader.readline(), 16):
        whole += await reader.readexactly(size)
        await reader.readline()
    await reader.readline()
    return whole


@pytest.fixture
async def http() -> AsyncIterator[HttpKit]:
    """The carrier over HTTP, for what only it does."""
    kit = HttpKit()
    server = await asyncio.start_server(kit.serve, "127.0.0.1", 0)
    taken = await asyncio.start_server(kit.serve, "127.0.0.1", 0)
    kit.url, kit.nowhere = (f"http://127.0.0.1:{one.sockets[0].getsockname()[1]}" for one in (server, taken))
    taken.close()
    await taken.wait_closed()
    yield kit
    server.close()


@pytest.fixture(params=["fake", "http"])
def kit(request: pytest.FixtureRequest, http: HttpKit) -> Kit:
    """One of the carriers under test."""
    return FakeKit() if request.param == "fake" else http
