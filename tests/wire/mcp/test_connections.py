"""Connections within bounds, with clients that are as slow, as large or as many as they like: raw sockets."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial

import pytest
from starlette.types import Receive, Scope, Send
from tests.wire.serving import served

from keel.testing.waiting import eventually
from keel.web.connections import EXCESS, Bounds

BOUNDS = Bounds(
    connections=8, head_bytes=8192, headers=20, head_seconds=0.6, body_seconds=0.6, body_rate=64 * 1024, pipelined=3,
    unread_seconds=0.4, unread_rate=64 * 1024, linger_seconds=0.4,
)  # fmt: skip
MIB = 1024 * 1024
OK = b"HTTP/1.1 200 "


@dataclass
class Seen:
    """What the application behind the connections saw."""

    answered: int = 0
    going: int = 0
    sent: int = 0
    bodies: list[int] = field(default_factory=list)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """`/read` reads its body, `/big` answers 64 MiB, `/kept` 40 KiB, `/ignore` answers unread, else `ok`."""
        if scope["type"] == "lifespan":
            for kind in ("startup", "shutdown"):
                await receive()
                await send({"type": f"lifespan.{kind}.complete"})
            return
        self.going += 1
        try:
            await self.answer(scope["path"], receive, send)
        finally:
            self.going -= 1

    async def answer(self, path: str, receive: Receive, send: Send) -> None:
        if path == "/read":
            size, more = 0, True
            while more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    return
                size += len(message["body"])
                more = message["more_body"]
            self.bodies.append(size)
        pieces = {"/big": 1024, "/kept": 0}.get(path, 0)
        rest = b"x" * (40 * 1024) if path == "/kept" else b"ok"
        length = pieces * 65536 + len(rest)
        await send(
            {"type": "http.response.start", "status": 200, "headers": [(b"content-length", str(length).encode())]}
        )
        for _ in range(pieces):
            await send({"type": "http.response.body", "body": b"x" * 65536, "more_body": True})
            self.sent += 65536
        await send({"type": "http.response.body", "body": rest})
        self.answered += 1


@pytest.fixture
async def seen() -> Seen:
    return Seen()


@pytest.fixture
async def port(seen: Seen) -> AsyncIterator[int]:
    async with served(seen, BOUNDS) as url:
        yield int(url.rpartition(":")[2])


class Peer:
    """A client that does as it likes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def drip(self, bytes: bytes, every: float = 0.05) -> bytes:
        """Send a byte now and then until the server says something or hangs up; what it says."""
        for byte in bytes:
            try:
                self.writer.write(byte.to_bytes())
                async with asyncio.timeout(every):
                    return await self.reader.read(4096)
            except TimeoutError:
                continue
            except ConnectionError:
                return b""
        raise AssertionError("the server took it all")

    async def ask(self, path: str = "/", body: bytes = b"", method: str = "POST") -> bytes:
        """One request; the head of its answer, the body read away."""
        head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
        self.writer.write(head.encode() + body)
        return await self.answer()

    async def answer(self) -> bytes:
        head = await self.reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
        await self.reader.readexactly(length)
        return head

    async def over(self) -> None:
        """Wait for the server's end of it."""
        async with asyncio.timeout(20):
            try:
                while await self.reader.read(65536):
                    pass
            except ConnectionError:
                pass


@asynccontextmanager
async def peer(port: int) -> AsyncIterator[Peer]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield Peer(reader, writer)
    finally:
        writer.close()


@pytest.mark.parametrize("sent", [b"P", b"POST / HTTP/1.1\r\nX-Long: " + b"a" * 400, b"\r\n" * 400])
async def test_a_head_that_drips_is_over_in_time_and_told_why(port: int, sent: bytes) -> None:
    async with peer(port) as slow:
        said = await slow.drip(sent + b"b" * 400 if sent != b"\r\n" * 400 else sent)
        assert said == b"" or said.startswith((b"HTTP/1.1 408 ", b"HTTP/1.1 400 "))
        await slow.over()


async def test_a_connection_that_says_nothing_is_over_in_time(port: int) -> None:
    async with peer(port) as mute:
        await mute.over()


async def test_a_head_that_drips_after_a_good_request_is_over_too(port: int) -> None:
    async with peer(port) as slow:
        assert (await slow.ask()).startswith(OK)
        assert (await slow.drip(b"GET / HTTP/1.1\r\nX: " + b"a" * 400)).startswith(b"HTTP/1.1 408 ")


async def test_blank_lines_between_requests_keep_no_connection(port: int) -> None:
    async with peer(port) as slow:
        assert (await slow.ask()).startswith(OK)
        assert (await slow.drip(b"\r\n" * 400))[:12] in (b"", b"HTTP/1.1 408")


@pytest.mark.parametrize("length", [b"Content-Length: 100000", b"Transfer-Encoding: chunked"])
async def test_a_body_that_drips_is_over_in_time_and_its_request_too(port: int, seen: Seen, length: bytes) -> None:
    async with peer(port) as slow:
        slow.writer.write(b"POST /read HTTP/1.1\r\nHost: x\r\n" + length + b"\r\n\r\n")
        said = await slow.drip((b"1\r\na\r\n" if b"chunked" in length else b"a") * 400)
        assert said.startswith(b"HTTP/1.1 408 ")
        assert b"64 KiB a second" in said
        await slow.over()
    await eventually(lambda: seen.going == 0)
    assert seen.bodies == []


async def test_a_body_that_nobody_reads_keeps_its_connection_no_longer_than_its_answer(port: int) -> None:
    async with peer(port) as slow:
        slow.writer.write(b"POST /ignore HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n")
        assert (await slow.answer()).startswith(OK)
        await slow.drip(b"a" * 4000)


def passed(instant: float) -> bool:
    return asyncio.get_running_loop().time() >= instant


async def test_a_body_that_comes_fast_enough_is_read_however_long_it_takes(port: int, seen: Seen) -> None:
    async with peer(port) as steady:
        steady.writer.write(b"POST /read HTTP/1.1\r\nHost: x\r\nContent-Length: 524288\r\n\r\n")
        began = asyncio.get_running_loop().time()
        for n in range(1, 17):  # 32 KiB each 0.1 s: five times the least rate, in three times `body_seconds`
            steady.writer.write(b"a" * 32768)
            await eventually(partial(passed, began + n * 0.1))
        assert (await steady.answer()).startswith(OK)
    assert seen.bodies == [524288]


@pytest.mark.parametrize(
    "head",
    [
        b"X-Large: " + b"a" * 9000,
        b"\r\n".join(b"X-%d: 1" % n for n in range(40)),
        b"X-Huge: " + b"a" * 4_000_000,
        b"\r\n".join(b"X-%d: %s" % (n, b"a" * 600) for n in range(18)),
    ],
)
async def test_a_head_too_large_is_refused_with_the_number(port: int, seen: Seen, head: bytes) -> None:
    async with peer(port) as large:
        large.writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n" + head + b"\r\n\r\n")
        said = await large.reader.read(4096)
        assert said.startswith(b"HTTP/1.1 431 ")
        assert b"8192 bytes" in said or b"20 headers" in said
    assert seen.answered == 0


async def test_a_target_too_large_is_refused(port: int, seen: Seen) -> None:
    async with peer(port) as large:
        large.writer.write(b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await large.reader.read(4096)).startswith(b"HTTP/1.1 431 ")
    assert seen.answered == 0


async def test_a_thousand_requests_in_one_breath_are_not_kept(port: int, seen: Seen) -> None:
    async with peer(port) as eager:
        eager.writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 1000)
        await eager.over()
    assert seen.answered <= 1 + BOUNDS.pipelined


async def test_a_few_requests_in_one_breath_are_answered_in_their_order(port: int, seen: Seen) -> None:
    async with peer(port) as eager:
        eager.writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 3)
        for _ in range(3):
            assert (await eager.answer()).startswith(OK)
    assert seen.answered == 3


async def test_connections_beyond_the_most_are_told_so_and_the_others_stay(port: int) -> None:
    held = [await asyncio.open_connection("127.0.0.1", port) for _ in range(BOUNDS.connections - 1)]
    try:
        async with peer(port) as last, peer(port) as more:
            assert (await last.ask()).startswith(OK)
            head = await more.ask()
            assert head.startswith(b"HTTP/1.1 503 ")
            assert b"retry-after: 5" in head.lower()
            assert (await last.ask()).startswith(OK)
    finally:
        for _, writer in held:
            writer.close()

    async def again() -> bool:
        async with peer(port) as one:
            return (await one.ask()).startswith(OK)

    await eventually(again)


async def test_a_flood_of_connections_costs_no_more_than_their_being_closed(port: int) -> None:
    flood = [await asyncio.open_connection("127.0.0.1", port) for _ in range(BOUNDS.connections + EXCESS)]
    try:
        async with peer(port) as beyond:
            await beyond.over()
    finally:
        for _, writer in flood:
            writer.close()


def unreading(port: int, path: str) -> socket.socket:
    """A client that asks and never reads."""
    raw = socket.socket()
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    raw.connect(("127.0.0.1", port))
    raw.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    return raw


async def test_a_client_that_stops_reading_is_given_up_and_its_answer_with_it(port: int, seen: Seen) -> None:
    with unreading(port, "/big"):
        await eventually(lambda: seen.going == 1)
        await eventually(lambda: seen.going == 0)
        assert seen.sent < 64 * MIB or seen.answered == 1  # after it was given up, the rest goes nowhere
    async with peer(port) as other:
        assert (await other.ask()).startswith(OK)


async def test_a_client_that_reads_slowly_but_reads_gets_all_of_it(port: int, seen: Seen) -> None:
    async with peer(port) as steady:
        assert (await steady.ask("/big", method="GET")).startswith(OK)
    assert seen.answered == 1


async def test_an_answer_that_fits_a_buffer_and_is_never_read_keeps_no_connection(seen: Seen) -> None:
    async with served(seen, Bounds(connections=1, linger_seconds=0.3)) as url:
        port = int(url.rpartition(":")[2])
        raw = socket.socket()
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        raw.connect(("127.0.0.1", port))
        with raw:
            raw.sendall(b"GET /kept HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            await eventually(lambda: seen.answered == 1)

            async def free() -> bool:
                async with peer(port) as one:
                    return (await one.ask()).startswith(OK)

            await eventually(free)


async def test_a_normal_client_is_served_beside_many_that_drip(seen: Seen) -> None:
    async with served(seen, Bounds(connections=400, head_seconds=1.0)) as url:
        port = int(url.rpartition(":")[2])
        drips = [await asyncio.open_connection("127.0.0.1", port) for _ in range(300)]
        async with peer(port) as normal:
            for n in range(20):
                for _, writer in drips:
                    writer.write(b"POST /"[n % 6 : n % 6 + 1])
                assert (await normal.ask()).startswith(OK)
        for reader, writer in drips:
            with suppress(ConnectionError):
                said = await reader.read(100)
                assert said.startswith(b"HTTP/1.1 40") or not said
            writer.close()


class Escaped(asyncio.Protocol):
    """What uvicorn would hand a connection to that asks to be a websocket's, had it a library for them."""

    def __init__(self, config: object, server_state: object, app_state: object, _loop: object = None) -> None:
        """As those of uvicorn are made."""

    def data_received(self, data: bytes) -> None:
        """Whatever comes, within no bounds."""


@pytest.mark.parametrize("protocol", ["websocket", "WebSocket", "h2c", "TLS/1.0", "x"])
async def test_no_connection_leaves_its_bounds_by_becoming_another_protocols(
    seen: Seen, protocol: str, caplog: pytest.LogCaptureFixture
) -> None:
    head = (
        f"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: {protocol}\r\n"
        "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    ).encode()
    async with served(seen, BOUNDS, ws=Escaped) as url:
        port = int(url.rpartition(":")[2])
        for _ in range(4 * BOUNDS.connections):  # each is counted off again: the last is served as the first
            async with peer(port) as one:
                one.writer.write(head)
                async with asyncio.timeout(10):
                    assert (await one.answer()).startswith(OK)
        async with peer(port) as last:
            last.writer.write(head)
            assert (await last.answer()).startswith(OK)
            await last.over()
    assert [line for line in caplog.messages if "pgrade" in line or "WebSocket" in line] == []
