"""`/metrics`: what a process counted and what the database says of all, as text, and who may read it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from keel.cached import Cached
from keel.clock import Clock
from keel.hosts import is_loopback, is_loopback_address
from keel.ids import digest, same_digest
from keel.web.sources import FORWARDED

NOT_STORED = {"Cache-Control": "no-store"}


class Page:
    """The page in each form that is asked for, made at most once a second. `more` is what is not counted here."""

    def __init__(self, counted: Collector, more: Callable[[], Awaitable[Collector]], clock: Clock) -> None:
        self._counted = counted
        self._more = more
        self._clock = clock
        self._pages: dict[str, Cached[bytes]] = {}

    async def get(self, accept: str) -> tuple[bytes, str]:
        """The text and its media type: OpenMetrics where `accept` names it, else Prometheus's own."""
        _, media = choose_encoder("application/openmetrics-text" if "openmetrics" in accept else "text/plain")
        if media not in self._pages:
            self._pages[media] = Cached(self._clock, lambda: self._render(media))
        return await self._pages[media].get(), media

    async def _render(self, media: str) -> bytes:
        encode, _ = choose_encoder(media)
        registry = CollectorRegistry()
        registry.register(_Both(self._counted, await self._more()))
        return bytes(encode(registry))


class _Both(Collector):
    def __init__(self, *parts: Collector) -> None:
        self._parts = parts

    def collect(self) -> Iterator[Metric]:
        for part in self._parts:
            yield from part.collect()

    def describe(self) -> list[Metric]:
        """Nothing: describing by collecting would read everything twice."""
        return []


def refused(request: Request, token: str | None, setting: str) -> Response | None:
    """The answer to who may not read the numbers: without a token, which `setting` names, they are for this machine
    alone, asked directly.
    """
    if token is not None:
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and same_digest(digest(token), digest(given.strip())):
            return None
        return PlainTextResponse(f"The numbers need the bearer token of {setting}.\n", 401,
                                 headers={"WWW-Authenticate": "Bearer", **NOT_STORED})  # fmt: skip
    near = request.client is not None and is_loopback_address(request.client.host)
    proxied = any(name in FORWARDED for name, _ in request.scope["headers"])
    if near and is_loopback(_name(request)) and not proxied:
        return None
    said = f"The numbers are for this machine alone, asked directly. {setting} lets others read them, with that bearer "
    return PlainTextResponse(f"{said}token.\n", 403, headers=NOT_STORED)


def _name(request: Request) -> str:
    """The name in the request's Host header, without its port; "" for one that is no name."""
    hosts = request.headers.getlist("host")
    name, _, port = hosts[0].rpartition(":") if len(hosts) == 1 and ":" in hosts[0] else ("".join(hosts[:1]), "", "")
    return name.removeprefix("[").removesuffix("]").lower() if not port or port.isdecimal() else ""
