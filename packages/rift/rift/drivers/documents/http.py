"""Documents over https, fetched as if whoever wrote the address meant ill.

Anybody who may sign in may have this server fetch from an address of theirs, which must not make it ask for what only
it can reach (server-side request forgery): every address that a name has is looked at, and one of these is connected
to, while TLS checks the name.
"""

from __future__ import annotations

import asyncio
import ipaddress
import ssl
from collections.abc import Sequence

import httpx2

from keel.db import forbid_in_transaction
from keel.fetching import BadAnswer, Reply, body_within, fresh_seconds
from keel.hosts import Network, Resolve, may_reach, system_resolve
from keel.sizes import KIB
from rift.drivers.documents.protocol import Document, DocumentUnavailable

BODY_BYTES = 64 * KIB
SECONDS = 5.0
"""How long a fetch may take in all, from the name to the last byte."""
ADDRESSES = 4
"""How many addresses of a name are tried."""
AT_ONCE = 8
"""So many are read at once; the next waits for its turn, within its time."""


class HttpDocuments:
    """`Documents` over https. `reach`: networks that are read from although they are not public."""

    def __init__(self, reach: Sequence[str] = (), resolve: Resolve = system_resolve) -> None:
        self._reach: tuple[Network, ...] = tuple(map(ipaddress.ip_network, reach))
        self._resolve = resolve
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._certificates: ssl.SSLContext | None = None

    async def read(self, url: str) -> Document:
        forbid_in_transaction("a look at a client's document")
        try:
            async with asyncio.timeout(SECONDS), self._turns:
                return await self._read(httpx2.URL(url))
        except TimeoutError:
            why = f"it did not answer within {SECONDS:g} s"
        except httpx2.HTTPError as error:
            why = f"the connection failed ({type(error).__name__})"
        except (httpx2.InvalidURL, ValueError):
            why = "its address is none"
        except OSError:
            why = "its name has no address"
        raise DocumentUnavailable(why)

    async def _read(self, url: httpx2.URL) -> Document:
        if url.scheme != "https" or url.userinfo or url.fragment:
            raise DocumentUnavailable("its address is none of https")
        host = url.raw_host.decode("ascii")
        *others, last = await self._addresses(host, url.port or 443)
        if self._certificates is None:
            # The certificates that the environment names count; its proxies do not, which would resolve names anew.
            self._certificates = await asyncio.to_thread(httpx2.create_ssl_context, trust_env=True)
        # A client for each: a pool would know a connection by its address alone, and ask one name over another's.
        async with httpx2.AsyncClient(
            verify=self._certificates, trust_env=False, follow_redirects=False, timeout=SECONDS,
            headers={"Accept": "application/json", "Accept-Encoding": "identity"},
        ) as client:  # fmt: skip
            for address in others:
                try:
                    return await _from(client, url, host, address)
                except (httpx2.ConnectError, httpx2.ConnectTimeout):
                    continue
            return await _from(client, url, host, last)

    async def _addresses(self, host: str, port: int) -> Sequence[str]:
        """The addresses of a name, if all of them may be connected to."""
        found = list(await self._resolve(host, port))[:ADDRESSES]
        if not found:
            raise DocumentUnavailable("its name has no address")
        for one in found:
            try:
                public = may_reach(one, self._reach)
            except ValueError:
                raise DocumentUnavailable("its name has an address that is none") from None
            if not public:
                raise DocumentUnavailable("its name has an address that is not of the public internet")
        return found


async def _from(client: httpx2.AsyncClient, url: httpx2.URL, host: str, address: str) -> Document:
    request = client.build_request(
        "GET", url.copy_with(host=address), headers={"Host": url.netloc.decode("ascii")},
        extensions={"sni_hostname": host},
    )  # fmt: skip
    response = await client.send(request, stream=True)
    try:
        return Document(Reply(response.status_code, await _body(response)).document(), fresh_seconds(response))
    except BadAnswer:
        raise DocumentUnavailable("what it answered is no JSON object") from None
    finally:
        await response.aclose()


async def _body(response: httpx2.Response) -> bytes:
    if response.status_code != 200:
        raise DocumentUnavailable(f"it answered with the status {response.status_code}")
    try:
        return await body_within(response, BODY_BYTES)
    except BadAnswer as error:
        raise DocumentUnavailable(str(error)) from None
