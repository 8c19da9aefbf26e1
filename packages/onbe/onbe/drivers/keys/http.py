"""Published keys over HTTP, cached: one fetch for any number of callers, and no flood for an endpoint of anybody's.

How old keys may be: they are fresh as long as their server's `Cache-Control` says, within 1 and 15 minutes, 5 where it
says nothing. A key id that is not among them has them fetched again, at most every 10 seconds. While the endpoint
fails, it is tried every 10 seconds, and the keys of before are good until an hour after they were fetched. So a key
that its owner takes away is good here for 15 minutes at most, and for an hour by whoever can keep its endpoint down.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Generic, TypeVar

from keel import jose
from keel.clock import Clock
from keel.db import forbid_in_transaction
from keel.hosts import Resolve, system_resolve
from onbe.drivers.keys.address import Rules
from onbe.drivers.keys.fetch import Fetched, Fetcher
from onbe.drivers.keys.protocol import KeysUnavailable
from onbe.settings import OnbeSettings

FRESH, FRESH_LEAST, FRESH_MOST = 300.0, 60.0, 900.0
"""For how many seconds keys are used without a question."""
COOLDOWN = 10.0
"""Seconds between two fetches from one address: for a key id that is not there, and while it fails."""
STALE = 3600.0
"""Until how many seconds after their fetch keys may be used while their endpoint fails."""
PATIENCE = 1.0
"""For how long a caller who could use the keys of before waits for newer ones."""
KEYS = 64
"""The most keys in one set."""
PLACES = 1024
"""How many addresses are remembered."""

Keys = Sequence[Mapping[str, Any]]
Value = TypeVar("Value")


@dataclass(slots=True)
class Entry(Generic[Value]):
    """What is known of one address. Instants are of the monotonic clock."""

    value: Value | None = None
    fetched: float = 0.0
    fresh_until: float = 0.0
    tried: float = float("-inf")
    """When the last fetch ended, well or not."""
    failure: str = ""
    """Why the last fetch failed; empty when it did not."""
    running: asyncio.Task[None] | None = None


class Cache(Generic[Value]):
    """Values by address: each fetched by one task for all who wait."""

    def __init__(self, clock: Clock, fetch: Callable[[Any], Awaitable[tuple[Value, float | None]]]) -> None:
        self._clock, self._fetch = clock, fetch
        self._entries: OrderedDict[Any, Entry[Value]] = OrderedDict()
        self._running: set[asyncio.Task[None]] = set()

    async def get(self, place: Any, wanted: Callable[[Value], bool] = lambda value: True) -> Value:
        """The value at a place; newer than what is known, if it may be, where that is not `wanted`.

        Raises KeysUnavailable.
        """
        entry = self._entry(place)
        now = self._clock.monotonic()
        if entry.value is not None and now < entry.fresh_until and wanted(entry.value):
            return entry.value
        if entry.running is None and now - entry.tried >= COOLDOWN:
            entry.running = asyncio.create_task(self._renew(place, entry))
            self._running.add(entry.running)
            entry.running.add_done_callback(self._running.discard)
        if entry.running is not None:
            running = entry.running
            usable = entry.value is not None and wanted(entry.value) and now - entry.fetched < STALE
            # Many wait for one task: one of them that gives up does not end it for the others.
            done, _ = await asyncio.wait({running}, timeout=PATIENCE if usable else None)
            if done and not running.cancelled():
                running.result()
        old = self._clock.monotonic() - entry.fetched >= STALE
        if entry.value is None or old or (entry.failure and not wanted(entry.value)):
            raise KeysUnavailable(entry.failure)
        return entry.value

    async def close(self) -> None:
        """End what is being fetched."""
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    def _entry(self, place: Any) -> Entry[Value]:
        entry = self._entries.setdefault(place, Entry())
        self._entries.move_to_end(place)
        while len(self._entries) > PLACES:
            self._entries.popitem(last=False)
        return entry

    async def _renew(self, place: Any, entry: Entry[Value]) -> None:
        try:
            value, fresh = await self._fetch(place)
        except KeysUnavailable as error:
            entry.failure = str(error)
        else:
            now = self._clock.monotonic()
            fresh = FRESH if fresh is None else min(max(fresh, FRESH_LEAST), FRESH_MOST)
            entry.value, entry.fetched, entry.fresh_until, entry.failure = value, now, now + fresh, ""
        finally:
            entry.tried, entry.running = self._clock.monotonic(), None


class HttpKeys:
    """`PublishedKeys` over HTTP. Used as an async context manager, in one event loop."""

    def __init__(self, settings: OnbeSettings, clock: Clock, resolve: Resolve = system_resolve) -> None:
        self._rules = Rules.of(settings)
        self._issuer, self._jwks_uri = settings.subjects.issuer, settings.subjects.jwks_uri
        self._fetcher = Fetcher(self._rules, resolve)
        self._sets = Cache(clock, self._fetch_set)
        self._issuers = Cache(clock, self._fetch_issuer)

    async def __aenter__(self) -> HttpKeys:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._sets.close()
        await self._issuers.close()
        await self._fetcher.__aexit__(kind, error, trace)

    async def at(self, uri: str, kid: str | None) -> Keys:
        """The public keys at an agent's jwks_uri. Raises KeysUnavailable."""
        return await self._keys(uri, kid, trusted=False)

    async def of_issuer(self, issuer: str, kid: str | None) -> Keys:
        """The public keys of an identity provider. Raises KeysUnavailable."""
        configured = self._jwks_uri if issuer == self._issuer else None
        return await self._keys(configured or await self._issuers.get(issuer), kid, trusted=True)

    async def _keys(self, uri: str, kid: str | None, *, trusted: bool) -> Keys:
        forbid_in_transaction("a look at published keys")
        # What the operator chose may be where an agent may not go: neither hears what was fetched for the other.
        known = await self._sets.get((uri, trusted), lambda keys: bool(_of(keys, kid)))
        return _of(known, kid)

    async def _fetch_set(self, place: tuple[str, bool]) -> tuple[Keys, float | None]:
        uri, trusted = place
        fetched = await self._fetcher.get(uri, trusted=trusted)
        return _usable(self._rules.url(uri).host, fetched), fetched.max_age

    async def _fetch_issuer(self, issuer: str) -> tuple[str, float | None]:
        """Its jwks_uri, by OpenID Connect Discovery 1.0, 4.3: the document is the issuer's own."""
        url = f"{issuer.rstrip('/')}/.well-known/openid-configuration"
        fetched = await self._fetcher.get(url, trusted=True)
        host, document = self._rules.url(url).host, fetched.document
        if document.get("issuer") != issuer:
            raise KeysUnavailable(f"{host}: its discovery document is another issuer's")
        uri = document.get("jwks_uri")
        if not isinstance(uri, str):
            raise KeysUnavailable(f"{host}: its discovery document has no jwks_uri")
        self._rules.url(uri)
        return uri, fetched.max_age


def _usable(host: str, fetched: Fetched) -> Keys:
    """The keys of a set that anything can be verified with. Raises KeysUnavailable for what is no set."""
    keys = fetched.document.get("keys")
    if not isinstance(keys, list) or len(keys) > KEYS or not all(isinstance(key, dict) for key in keys):
        raise KeysUnavailable(f"{host}: what it answered is no set of at most {KEYS} keys")
    return tuple(key for key in keys if jose.algorithm(key) is not None)


def _of(keys: Keys, kid: str | None) -> Keys:
    return keys if kid is None else tuple(key for key in keys if key.get("kid") == kid)
