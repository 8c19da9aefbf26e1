"""The names that this server answers to: who comes by another one was sent by a page that is not ours."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from rift.settings import RiftSettings, is_loopback


class Hosts:
    """Public names, as `rift.example` (any port) or `rift.example:8443`; loopback names are always answered."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = frozenset(name.lower() for name in names)

    def known(self, host: str) -> bool:
        """Whether a Host header, or what an Origin has after its scheme, is one of ours."""
        host = host.lower()
        try:
            parts = urlsplit(f"//{host}")
            name, _ = parts.hostname or "", parts.port
        except ValueError:
            return False
        if parts.netloc != host or "@" in host or not name:
            return False
        return host in self._names or name in self._names or is_loopback(name)

    def known_origin(self, origin: str) -> bool:
        """Whether an Origin header is one of ours."""
        scheme, _, place = origin.partition("://")
        return scheme.lower() in ("http", "https") and self.known(place)

    def refused(self, request: Request) -> Response | None:
        """What is answered to who asks by a name that is none of ours; None where it is one."""
        if self.known(request.headers.get("host", "")):
            return None
        return PlainTextResponse("This server does not answer to that Host.", 421)

    def sent(self, request: Request) -> bool:
        """Whether the browser says that a page of ours sent it; a program that is no browser says nothing."""
        origin, fetched = request.headers.get("origin"), request.headers.get("sec-fetch-site")
        return (origin is None or self.known_origin(origin)) and fetched in (None, "same-origin", "none")


def hosts_of(settings: RiftSettings, public: str) -> Hosts:
    """Those of a server whose public address is `public`."""
    url = urlsplit(public)
    return Hosts([*settings.server.hosts, url.netloc, url.hostname or ""])
