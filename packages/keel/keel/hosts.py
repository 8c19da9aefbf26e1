"""Which machine a name is, and which addresses are of the open internet."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""The addresses of a host name, as texts. Raises OSError."""

PUBLIC = ipaddress.ip_network("2000::/3")
"""Where public addresses of IPv6 are; those of IPv4 are everywhere."""
SPECIAL = tuple(map(ipaddress.ip_network, (
    "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
    "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
    "224.0.0.0/4", "240.0.0.0/4",
    "168.63.129.16/32",  # looks public, and is a cloud's own service for its machines (Azure)
    "2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20",
)))  # fmt: skip
"""Not of the open internet (IANA's registries of special-purpose addresses; what Python knows of them has changed)."""
NAT64 = ipaddress.ip_network("64:ff9b::/96")
"""Stands for the address of IPv4 in its last 32 bits (RFC 6052)."""

# A name server that never answers holds a thread until the system gives it up: not one of those that others share.
_threads = ThreadPoolExecutor(8, "resolve")


def is_loopback(host: str) -> bool:
    """Whether a host name or address is this machine, for any resolver."""
    return host == "localhost" or host.endswith(".localhost") or is_loopback_address(host)


def is_loopback_address(host: str) -> bool:
    """Whether an address is this machine's own; False for a name."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_public(address: Address) -> bool:
    """Whether an address is one of the open internet."""
    if address.version == 6:
        if address in NAT64:
            return is_public(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
        if address not in PUBLIC:
            return False
    return not any(address.version == network.version and address in network for network in SPECIAL)


def may_reach(address: str, reach: Sequence[Network]) -> bool:
    """Whether an address is one of the open internet or of these networks. Raises ValueError for what is none."""
    one = ipaddress.ip_address(address)
    return is_public(one) or any(one.version == network.version and one in network for network in reach)


async def system_resolve(host: str, port: int) -> Sequence[str]:
    """The addresses of a name, as the system finds them."""
    loop = asyncio.get_running_loop()
    try:
        found = await loop.run_in_executor(_threads, lambda: socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
    except UnicodeError as error:
        raise OSError(str(error)) from None
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))
