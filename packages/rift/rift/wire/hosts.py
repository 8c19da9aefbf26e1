"""The names that this server answers to: who comes by another one was sent by a page that is not ours."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import urlsplit

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


def hosts_of(settings: RiftSettings, public: str) -> Hosts:
    """Those of a server whose public address is `public`."""
    url = urlsplit(public)
    return Hosts([*settings.server.hosts, url.netloc, url.hostname or ""])
