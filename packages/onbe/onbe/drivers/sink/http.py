"""A sink over HTTP: JSON lines by POST, with a bearer token. Any 2xx says that all of them are kept."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import httpx2

from keel.db import forbid_in_transaction
from onbe.drivers.sink.protocol import NotTaken

SECONDS = 15.0
"""How long a delivery may take, from its first byte to its answer."""


class HttpSink:
    """`url` takes the lines. No redirect is followed, which could lead the token elsewhere, and no body is read."""

    def __init__(self, url: str, token: str | None, client: httpx2.AsyncClient, seconds: float = SECONDS) -> None:
        self._url = url
        self._headers = {"Content-Type": "application/x-ndjson"}
        if token is not None:
            self._headers["Authorization"] = f"Bearer {token}"
        self._client = client
        self._seconds = seconds

    async def deliver(self, lines: Sequence[bytes]) -> None:
        """Post the lines. Raises NotTaken."""
        forbid_in_transaction("the sink")
        body = b"".join(line + b"\n" for line in lines)
        request = self._client.build_request("POST", self._url, content=body, headers=self._headers)
        try:
            async with asyncio.timeout(self._seconds):
                response = await self._client.send(request, stream=True, follow_redirects=False)
                await response.aclose()
        except TimeoutError:
            raise NotTaken(f"the sink did not answer within {self._seconds:g} s") from None
        except (httpx2.HTTPError, OSError) as error:
            raise NotTaken(f"the sink could not be reached ({type(error).__name__})") from None
        if not response.is_success:
            raise NotTaken(f"the sink answered with status {response.status_code}")
