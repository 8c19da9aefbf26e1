"""The carrier over HTTP."""

from __future__ import annotations

import ipaddress
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import httpx2

from keel.db import forbid_in_transaction
from keel.fetching import without_cookies
from keel.hosts import Resolve, may_reach, system_resolve
from rift.drivers.carrier.protocol import Carried, CarrierError

TIMES = httpx2.Timeout(connect=15.0, read=600.0, write=120.0, pool=15.0)
"""An origin may think about a large push for minutes without a word."""
CONNECTIONS = 256


class HttpCarrier:
    """`Carrier` by one client, whose connections are kept for the next request. `reach`: networks that are opened."""

    kind = "http"

    def __init__(self, reach: Sequence[str] = (), resolve: Resolve = system_resolve) -> None:
        self._reach = tuple(map(ipaddress.ip_network, reach))
        self._resolve = resolve
        self._client: httpx2.AsyncClient | None = None

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
        host = _host(url)
        if outside and not await self._may_reach(host):
            raise CarrierError(f"{host} is not of the public internet")
        if self._client is None:
            limits = httpx2.Limits(max_connections=CONNECTIONS)
            self._client = without_cookies(httpx2.AsyncClient(follow_redirects=False, timeout=TIMES, limits=limits))
        try:
            request = self._client.build_request(method, url, headers={"Accept-Encoding": "identity", **headers},
                                                 content=body)  # fmt: skip
        except (httpx2.InvalidURL, ValueError) as error:  # as an address of an origin's that is none
            raise CarrierError(f"{host} could not be asked ({type(error).__name__})") from error
        try:
            response = await self._client.send(request, stream=True)
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise CarrierError(f"{host} could not be asked ({type(error).__name__})") from error
        try:
            told = {name.lower(): value for name, value in response.headers.items()}
            yield Carried(response.status_code, told, _parts(response, host))
        finally:
            await response.aclose()

    async def _may_reach(self, host: str) -> bool:
        """Whether all addresses of a name may be reached. One that is looked up by the host's own proxy alone is that
        proxy's to refuse. The address is not held to: what answers shows a certificate for the name, and no host of a
        private network has one for a name whose addresses a stranger may change meanwhile.
        """
        try:
            return all(may_reach(one, self._reach) for one in await self._resolve(host, 443))
        except OSError:
            return True
        except ValueError:
            return False


def _host(url: str) -> str:
    try:
        return urlsplit(url).hostname or "the origin"
    except ValueError:
        return "the origin"


async def _parts(response: httpx2.Response, host: str) -> AsyncIterator[bytes]:
    try:
        async for part in response.aiter_raw():
            yield part
    except httpx2.HTTPError as error:
        raise CarrierError(f"{host} went away in the middle of its answer ({type(error).__name__})") from error
