"""One JSON document of somebody else's, fetched as if they meant ill: no redirect, no proxy, bounded in all."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import httpx2

from keel import jose
from keel.db import forbid_in_transaction
from keel.fetching import BadAnswer, body_within, fresh_seconds
from keel.hosts import Resolve
from keel.sizes import KIB
from onbe.drivers.keys.address import Rules, Target, target
from onbe.drivers.keys.protocol import KeysUnavailable

BODY_BYTES = 256 * KIB
SECONDS = 5.0
"""How long a fetch may take in all, from the name to the last byte."""


@dataclass(frozen=True, slots=True)
class Fetched:
    """A document, and for how many seconds its server says that it is fresh; None where it says nothing."""

    document: Mapping[str, Any]
    max_age: float | None


class Fetcher:
    """Fetches with one client, whose connections are never used twice.

    A connection is made to an address that was looked at, while TLS checks the name: a pool would know it by its
    address alone, and might ask one name over what was checked for another.
    """

    def __init__(self, rules: Rules, resolve: Resolve) -> None:
        self._rules, self._resolve = rules, resolve
        # The certificates that the environment names count; its proxies do not, which would resolve names themselves.
        self._client = httpx2.AsyncClient(
            verify=httpx2.create_ssl_context(trust_env=True),
            trust_env=False,
            follow_redirects=False,
            limits=httpx2.Limits(max_connections=64, max_keepalive_connections=0),
            timeout=SECONDS,
            headers={"Accept": "application/json, application/jwk-set+json", "Accept-Encoding": "identity"},
        )

    async def __aenter__(self) -> Fetcher:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._client.aclose()

    async def get(self, url: str, *, trusted: bool) -> Fetched:
        """A JSON object. Raises KeysUnavailable, whose text holds nothing that was fetched."""
        forbid_in_transaction("a fetch of keys")
        try:
            async with asyncio.timeout(SECONDS):
                return await self._from_any(await target(url, self._rules, self._resolve, trusted=trusted))
        except TimeoutError:
            why = f"it did not answer within {SECONDS:g} s"
        except httpx2.HTTPError as error:
            why = f"the connection failed ({type(error).__name__})"
        except OSError:
            why = "its name has no address"
        raise KeysUnavailable(f"{self._rules.url(url).host}: {why}")

    async def _from_any(self, place: Target) -> Fetched:
        *others, last = place.addresses
        for address in others:
            try:
                return await self._from(place.url, address)
            except (httpx2.ConnectError, httpx2.ConnectTimeout):
                continue
        return await self._from(place.url, last)

    async def _from(self, url: httpx2.URL, address: str) -> Fetched:
        request = self._client.build_request(
            "GET", url.copy_with(host=address), headers={"Host": url.netloc.decode("ascii")},
            extensions={"sni_hostname": url.raw_host.decode("ascii")},
        )  # fmt: skip
        response = await self._client.send(request, stream=True)
        try:
            return Fetched(_object(url.host, await _body(url.host, response)), fresh_seconds(response))
        finally:
            await response.aclose()


async def _body(host: str, response: httpx2.Response) -> bytes:
    if response.status_code != 200:
        raise KeysUnavailable(f"{host}: it answered with the status {response.status_code}")
    try:
        return await body_within(response, BODY_BYTES)
    except BadAnswer as error:
        raise KeysUnavailable(f"{host}: {error}") from None


def _object(host: str, body: bytes) -> Mapping[str, Any]:
    document = jose.parse(body)
    if document is None:
        raise KeysUnavailable(f"{host}: what it answered is no JSON object that is taken")
    return document
