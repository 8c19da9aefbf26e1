"""A carrier in memory: origins are functions of a test's."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

from keel.db import forbid_in_transaction
from rift.drivers.carrier.protocol import Carried, CarrierError

Origin = Callable[[str, str, Mapping[str, str], bytes], tuple[int, Mapping[str, str], bytes | AsyncIterator[bytes]]]
"""Method, url, headers and the whole body; to a status, headers by lower-case name, and a body or its parts."""


class FakeCarrier:
    """`origins` answer by what an address begins with; whatever has none cannot be reached.

    Those in `silent` take a request and never answer; those in `private` are not of the public internet.
    """

    kind = "fake"

    def __init__(self) -> None:
        self.origins: dict[str, Origin] = {}
        self.silent: set[str] = set()
        self.private: set[str] = set()

    @asynccontextmanager
    async def carry(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: AsyncIterator[bytes] | None = None,
        *,
        outside: bool = False,
    ) -> AsyncIterator[Carried]:
        forbid_in_transaction("a request to an origin")
        if outside and any(url.startswith(begins) for begins in self.private):
            raise CarrierError("the origin is not of the public internet")
        whole = b"".join([part async for part in body]) if body is not None else b""
        if any(url.startswith(begins) for begins in self.silent):
            await asyncio.Event().wait()
        for begins, origin in self.origins.items():
            if url.startswith(begins):
                status, told, answer = origin(method, url, headers, whole)
                yield Carried(status, told, _once(answer) if isinstance(answer, bytes) else answer)
                return
        raise CarrierError("the origin could not be asked")


async def _once(data: bytes) -> AsyncIterator[bytes]:
    if data:
        yield data
