"""The token on the requests of an httpx2 client, and nowhere else."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Generator
from typing import Protocol
from urllib.parse import urlsplit

import httpx2

from onbe_client.errors import Misconfigured
from onbe_client.metadata import trouble


class Awaited(Protocol):
    """An async session."""

    @property
    def resource(self) -> str | None: ...

    def access_token(self) -> Awaitable[str]: ...


class Blocking(Protocol):
    """A blocking session."""

    @property
    def resource(self) -> str | None: ...

    def access_token(self) -> str: ...


class TaskAuth(httpx2.Auth):
    """`httpx2.AsyncClient(auth=TaskAuth(session))`: each request carries a good token of the session's task.

    A token is sent to the origin of the task's resource alone, where that is an address, and by https alone but to
    this machine; another request raises Misconfigured before anything is sent. `anywhere` takes both rules away.
    """

    def __init__(self, session: Awaited, *, anywhere: bool = False) -> None:
        self._session = session
        self._anywhere = anywhere

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        if not self._anywhere:
            fit(request, self._session.resource)
        request.headers["Authorization"] = f"Bearer {await self._session.access_token()}"
        yield request

    def sync_auth_flow(self, request: httpx2.Request) -> Generator[httpx2.Request, httpx2.Response, None]:
        raise Misconfigured("session_async", "A blocking httpx2.Client needs a session of onbe_client.sync.")


class BlockingTaskAuth(httpx2.Auth):
    """The same for `httpx2.Client` and a session of `onbe_client.sync`."""

    def __init__(self, session: Blocking, *, anywhere: bool = False) -> None:
        self._session = session
        self._anywhere = anywhere

    def sync_auth_flow(self, request: httpx2.Request) -> Generator[httpx2.Request, httpx2.Response, None]:
        if not self._anywhere:
            fit(request, self._session.resource)
        request.headers["Authorization"] = f"Bearer {self._session.access_token()}"
        yield request

    def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        raise Misconfigured("session_blocking", "An httpx2.AsyncClient needs a session of onbe_client.OnbeClient.")


def fit(request: httpx2.Request, resource: str | None) -> None:
    """Raises Misconfigured for a request that must not carry the token."""
    url = request.url
    what = trouble(f"{url.scheme}://{url.netloc.decode('ascii', 'replace')}")
    if what:
        raise Misconfigured("request_unfit", f"The token is not sent: the request's address {what}.")
    if resource is not None and urlsplit(resource).scheme in ("http", "https"):
        own = httpx2.URL(resource)
        if (url.scheme, url.host, url.port) != (own.scheme, own.host, own.port):
            raise Misconfigured(
                "request_unfit", "The token is not sent: the request goes elsewhere than to its resource."
            )
