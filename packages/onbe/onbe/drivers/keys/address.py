"""Where keys may be fetched from: every address that a name has is looked at, and one of them is connected to.

An agent's `jwks_uri` is written by whoever registers agents, and must not make this server ask for them what only it
can reach (server-side request forgery): it leads to public addresses alone, but for the networks of
`Onbe:Agents:KeyNetworks` and, in development, this machine. What the operator configures may lead anywhere.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import httpx2

from onbe.drivers.keys.protocol import KeysUnavailable
from onbe.settings import OnbeSettings, is_loopback

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""The addresses of a host name, as texts. Raises OSError."""

URL_LENGTH = 2048
ADDRESSES = 4
"""How many addresses of a name are tried."""
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


@dataclass(frozen=True, slots=True)
class Target:
    """A URL that was looked at, and the addresses that it may be asked for at."""

    url: httpx2.URL
    addresses: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Rules:
    """Which addresses are allowed."""

    insecure: bool
    """http:// also to other machines."""
    development: bool
    networks: tuple[Network, ...]

    @classmethod
    def of(cls, settings: OnbeSettings) -> Rules:
        """Those of the settings."""
        networks = tuple(map(ipaddress.ip_network, settings.agents.key_networks))
        return cls(settings.allow_insecure_http, settings.development.enabled, networks)

    def url(self, text: str) -> httpx2.URL:
        """A URL that keys may be fetched from. Raises KeysUnavailable."""
        try:
            url = httpx2.URL(text) if len(text) <= URL_LENGTH else None
        except (httpx2.InvalidURL, ValueError):
            url = None
        if url is None or url.userinfo or url.fragment or url.scheme not in ("http", "https") or not _host_taken(url):
            raise KeysUnavailable("the address of the keys is no URL that is taken")
        if url.scheme == "http" and not self.insecure and not is_loopback(url.host):
            raise KeysUnavailable(f"{url.host}: the address of the keys is not https")
        return url

    def allows(self, address: Address) -> bool:
        """Whether an agent's keys may be fetched from an address."""
        if any(address.version == network.version and address in network for network in self.networks):
            return True
        if address.is_loopback:
            return self.development
        return is_public(address)


def is_public(address: Address) -> bool:
    """Whether an address is one of the open internet."""
    if address.version == 6:
        if address in NAT64:
            return is_public(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
        if address not in PUBLIC:
            return False
    return not any(address.version == network.version and address in network for network in SPECIAL)


def host_of(url: httpx2.URL) -> str:
    """The host of a URL, as it is looked up: in ASCII."""
    return url.raw_host.decode("ascii")


def _host_taken(url: httpx2.URL) -> bool:
    return bool(re.fullmatch(r"[a-zA-Z0-9._:-]+", host_of(url))) and (url.port or 1) < 65536


async def target(text: str, rules: Rules, resolve: Resolve, *, trusted: bool) -> Target:
    """Where a URL leads. `trusted`: the operator chose it. Raises KeysUnavailable, OSError."""
    url = rules.url(text)
    port = url.port or (443 if url.scheme == "https" else 80)
    found = await resolve(host_of(url), port)
    if not trusted:
        for one in found:
            try:
                allowed = rules.allows(ipaddress.ip_address(one))
            except ValueError:
                allowed = False
            if not allowed:
                raise KeysUnavailable(f"{url.host}: it has an address that agents' keys are not fetched from")
    if not found:
        raise KeysUnavailable(f"{url.host}: it has no address")
    return Target(url, tuple(found[:ADDRESSES]))


async def system_resolve(host: str, port: int) -> Sequence[str]:
    """The addresses of a name, as the system finds them."""
    loop = asyncio.get_running_loop()
    try:
        found = await loop.run_in_executor(_threads, lambda: socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
    except UnicodeError as error:
        raise OSError(str(error)) from None
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))
