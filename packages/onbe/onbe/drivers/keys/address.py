"""Where keys may be fetched from: every address that a name has is looked at, and one of them is connected to.

An agent's `jwks_uri` is written by whoever registers agents, and must not make this server ask for them what only it
can reach (server-side request forgery): it leads to public addresses alone, but for the networks of
`Onbe:Agents:KeyNetworks` and, in development, this machine. What the operator configures may lead anywhere.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass

import httpx2

from keel.hosts import Address, Resolve, is_public
from onbe.drivers.keys.protocol import KeysUnavailable
from onbe.settings import OnbeSettings, is_loopback

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

URL_LENGTH = 2048
ADDRESSES = 4
"""How many addresses of a name are tried."""


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
