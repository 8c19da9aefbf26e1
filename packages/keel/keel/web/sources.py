"""From where a request comes: the address that its limits are counted by.

Source: RFC 7239, 8.1 (what a proxy says is worth as much as the proxy); RFC 4291 (a site has a /64 at least).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence

from starlette.types import Scope

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

HOPS_MOST = 32
"""So many proxies are looked back through."""
FORWARDED = frozenset({b"forwarded", b"via", b"x-forwarded-for", b"x-forwarded-host", b"x-real-ip"})
"""What a proxy adds: whoever asked is then somebody else, wherever the proxy runs."""


def networks(names: Iterable[str]) -> tuple[Network, ...]:
    """Networks by their names, which are right."""
    return tuple(ipaddress.ip_network(name) for name in names)


def source(scope: Scope, trusted: Sequence[Network]) -> str | None:
    """Whom a request is counted for; None for who asks from this machine itself, by no proxy.

    That is the peer or, where the peer is a trusted proxy, the rightmost address of X-Forwarded-For that is none of
    those: what stands left of it, anybody may have written. An IPv6 address stands for its /64.
    """
    client = scope.get("client")
    peer = _address(client[0]) if client else None
    if peer is None:
        return "unknown" if client else None  # a Unix socket has no address
    if peer.is_loopback and not any(name in FORWARDED for name, _ in scope["headers"]):
        return None
    found = peer
    if _within(peer, trusted):
        said = b",".join(value for name, value in scope["headers"] if name == b"x-forwarded-for").decode("latin-1")
        for hop in reversed(said.split(",")[-HOPS_MOST:]):
            address = _address(_without_port(hop.strip()))
            if address is None:
                break  # the proxy that wrote it answers for it
            found = address
            if not _within(address, trusted):
                break
    return _name(found)


def _address(text: str) -> Address | None:
    try:
        found = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return (found.ipv4_mapped or found) if isinstance(found, ipaddress.IPv6Address) else found


def _without_port(hop: str) -> str:
    if hop.startswith("["):
        return hop[1:].partition("]")[0]
    return hop.partition(":")[0] if hop.count(":") == 1 else hop


def _within(address: Address, trusted: Sequence[Network]) -> bool:
    return any(address in network for network in trusted)


def _name(address: Address) -> str:
    if isinstance(address, ipaddress.IPv6Address):
        return str(ipaddress.IPv6Network((address, 64), strict=False))
    return str(address)
