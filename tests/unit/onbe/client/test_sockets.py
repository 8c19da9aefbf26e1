"""Servers that misbehave below HTTP: slow ones, endless ones, liars. Each ends in an error, async and blocking."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import pytest
from tests.unit.onbe.client.stage import PERSON, RESOURCE, agent_key

from onbe_client import BadAnswer, OnbeClient, Retryable, Unreachable, sync

Conversation = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

PACKED = gzip.compress(b"{" + b" " * 5_000_000 + b"}")
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"


async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()


async def drip(writer: asyncio.StreamWriter, begin: bytes, piece: bytes) -> None:
    writer.write(begin)
    while not writer.is_closing():
        writer.write(piece)
        await writer.drain()
        await asyncio.sleep(0.02)


async def slow_head(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await drip(writer, HEAD + b"x: ", b"x")


async def slow_body(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await drip(writer, HEAD + b"content-length: 90000\r\n\r\n{", b" ")


async def endless_body(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(HEAD + b"transfer-encoding: chunked\r\n\r\n")
    while not writer.is_closing():
        writer.write(b"10000\r\n" + b" " * 65536 + b"\r\n")
        await writer.drain()


async def cut_body(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(HEAD + b'content-length: 100\r\n\r\n{"issuer":')
    await writer.drain()


async def no_http(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"SSH-2.0-OpenSSH_9.2\r\n")
    await writer.drain()


async def closed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.close()


async def packed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(HEAD + b"content-encoding: gzip\r\ncontent-length: %d\r\n\r\n" % len(PACKED) + PACKED)
    await writer.drain()


SERVERS: dict[str, tuple[Conversation, type[Retryable]]] = {
    "says nothing": (silent, Unreachable),
    "sends its head letter by letter": (slow_head, Unreachable),
    "sends its body letter by letter": (slow_body, Unreachable),
    "sends a body without end": (endless_body, BadAnswer),
    "ends in the middle of its body": (cut_body, Retryable),
    "is no web server": (no_http, BadAnswer),
    "hangs up": (closed, Retryable),
    "packs a large body into a small one": (packed, BadAnswer),
}


@asynccontextmanager
async def server(talk: Conversation) -> AsyncIterator[str]:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            await reader.readuntil(b"\r\n\r\n")
            await talk(reader, writer)
        writer.close()

    listening = await asyncio.start_server(handle, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    finally:
        listening.close()


@pytest.mark.parametrize("name", SERVERS)
async def test_a_server_that_misbehaves_is_given_up(name: str) -> None:
    talk, kind = SERVERS[name]
    async with server(talk) as issuer:
        key = agent_key().as_dict(private=True)
        async with OnbeClient(issuer, "reports", key, timeout=0.3, patience=0) as onbe:
            with pytest.raises(kind):
                await onbe.exchange(PERSON, RESOURCE)
        with sync.OnbeClient(issuer, "reports", key, timeout=0.3, patience=0) as blocking, pytest.raises(kind):
            await asyncio.to_thread(blocking.exchange, PERSON, RESOURCE)
