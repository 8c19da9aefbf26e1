"""A real HTTP server on this machine that publishes keys as a test says, also as nobody should."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

Answer = Callable[[asyncio.StreamWriter], Awaitable[None]]


class Endpoint:
    """What it answers, by path; what it was asked, and over how many connections."""

    def __init__(self) -> None:
        self.answers: dict[str, Answer] = {}
        self.asked: list[str] = []
        self.heads: list[str] = []
        self.url = ""
        self.port = 0
        self.gate = asyncio.Event()
        """Answers wait for it."""
        self.gate.set()

    def says(
        self,
        path: str,
        body: Any,
        *,
        status: int = 200,
        headers: dict[str, str] | None = None,
        length: int | None = None,
    ) -> None:
        """Have a document, or the very bytes, at a path."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        told = {"Content-Type": "application/json", "Content-Length": str(len(data) if length is None else length)}
        head = "".join(f"{name}: {value}\r\n" for name, value in {**told, **(headers or {})}.items())

        async def answer(writer: asyncio.StreamWriter) -> None:
            writer.write(f"HTTP/1.1 {status} Said\r\n{head}Connection: close\r\n\r\n".encode() + data)
            await writer.drain()

        self.answers[path] = answer

    def does(self, path: str, answer: Answer) -> None:
        """Have a path answered by a function."""
        self.answers[path] = answer

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            path = head.split(" ")[1]
            self.asked.append(path)
            self.heads.append(head)
            await self.gate.wait()
            if path in self.answers:
                await self.answers[path](writer)
            else:
                writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def serving(host: str = "127.0.0.1", port: int = 0) -> AsyncIterator[Endpoint]:
    """An endpoint, for the length of the block."""
    endpoint = Endpoint()
    tasks: set[asyncio.Task[None]] = set()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(endpoint._serve(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    server = await asyncio.start_server(connected, host, port)
    endpoint.port = server.sockets[0].getsockname()[1]
    endpoint.url = f"http://{f'[{host}]' if ':' in host else host}:{endpoint.port}"
    try:
        yield endpoint
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
