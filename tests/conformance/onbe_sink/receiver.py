"""A receiver of JSON lines on a port of this machine, that does as a test says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field


@dataclass
class Receiver:
    """What came, request by request: the head, and the lines. `status` is what it answers; None leaves without a word,
    `slow` never answers.
    """

    port: int = 0
    status: int | None = 204
    slow: bool = False
    heads: list[str] = field(default_factory=list)
    taken: list[list[bytes]] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/ledger"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                self.heads.append(head)
                length = next(int(line[15:]) for line in head.lower().split("\r\n") if line[:15] == "content-length:")
                body = await reader.readexactly(length)
                if self.slow:
                    await reader.read()  # until the other side gives up
                    return
                if self.status is None:
                    return
                if self.status < 300:
                    self.taken.append(body.splitlines())
                where = "Location: http://127.0.0.1:1/elsewhere\r\n" if 300 <= self.status < 400 else ""
                length_told = "" if self.status == 204 else "Content-Length: 0\r\n"
                writer.write(f"HTTP/1.1 {self.status} As told\r\n{where}{length_told}\r\n".encode())
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def receiving(port: int = 0) -> AsyncIterator[Receiver]:
    """A receiver for the length of the block."""
    made = Receiver()
    server = await asyncio.start_server(made.serve, "127.0.0.1", port)
    made.port = server.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        server.close()
