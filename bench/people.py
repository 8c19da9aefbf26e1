"""An identity provider for the bench, in a process of its own: its keys, and a SCIM directory where all are active.

`python -m bench.people JWKS` serves them on a free port and prints it. It answers as little as it can for little, so
that on a machine with two cores its part of the load is small.
"""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import suppress
from typing import cast


class _People(asyncio.Protocol):
    """`/jwks.json`, and any `/scim/Users/{id}`."""

    def __init__(self, jwks: bytes) -> None:
        self._jwks, self._got = jwks, b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._got += data
        while b"\r\n\r\n" in self._got:
            head, _, self._got = self._got.partition(b"\r\n\r\n")
            path = head.split(b" ", 2)[1]
            if path == b"/jwks.json":
                body = self._jwks
            else:
                body = json.dumps({"id": path.rpartition(b"/")[2].decode(), "active": True}).encode()
            self._transport.write(
                b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body
            )


async def _serve(jwks: bytes) -> None:
    server = await asyncio.get_running_loop().create_server(lambda: _People(jwks), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    import uvloop

    with suppress(KeyboardInterrupt):
        uvloop.run(_serve(sys.argv[1].encode()))
