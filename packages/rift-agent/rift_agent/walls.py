"""What an open network may reach, as a ruleset of nftables for the jail's own network namespace. Loaded by one child.

Not by routes: what a socket bound to the interface sends (SO_BINDTODEVICE, IP_PKTINFO; neither needs a privilege) goes
out as if the destination were next door where the routing table says "prohibited". Nothing leaves past a filter.
"""

from __future__ import annotations

import ipaddress
from ipaddress import IPv4Network, IPv6Network

from rift_agent.addresses import BARRED_4, BARRED_6, CARRIERS, PUBLIC_6
from rift_agent.network import RESOLVER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Iterable, Union

    Net = Union[IPv4Network, IPv6Network]

_NAT64 = CARRIERS[1]
_REFUSED = "reject with icmpx type admin-prohibited"
_NEIGHBOURS = (
    "{ nd-router-solicit, nd-neighbor-solicit, nd-neighbor-advert, mld-listener-report, mld2-listener-report }"
)


def ruleset(own: Iterable[Net], reach: Iterable[str]) -> str:
    """The rules. `own` are the host's addresses, as networks, and `reach` the networks that its settings open.

    As for the proxy: loopback, link-local and multicast addresses are out of reach whatever the settings say, and an
    address of IPv4 inside one of IPv6 is judged by itself.
    """
    barred: list[tuple[Net, str]] = [*BARRED_4, *BARRED_6]
    never: list[Net] = [network for network, name in barred if not name.startswith(("private", "reserved"))]
    never += own
    opened: list[Net] = [ipaddress.ip_network(network, strict=False) for network in reach]
    closed: list[Net] = [network for network, _ in barred]
    lines = [
        'oifname "lo" accept',
        *(f"ip daddr {RESOLVER} {kind} dport 53 accept" for kind in ("udp", "tcp")),
        f"icmpv6 type {_NEIGHBOURS} accept",
        *_match([*never, *_carried(never)], _REFUSED),
        *_match([*opened, *_carried(opened)], "accept"),
        *_match([*closed, *_carried(closed)], _REFUSED),
        f"ip6 daddr {_NAT64} accept",
        f"ip6 daddr != {PUBLIC_6} {_REFUSED}",
        "meta nfproto { ipv4, ipv6 } accept",
    ]
    rules = "".join(f"    {line}\n" for line in lines)
    chain = f"  chain out {{\n    type filter hook output priority 0; policy drop;\n{rules}  }}\n"
    return f"table inet rift {{\n{chain}}}\n"


def _match(networks: list[Net], verdict: str) -> list[str]:
    four = ipaddress.collapse_addresses(network for network in networks if isinstance(network, IPv4Network))
    six = ipaddress.collapse_addresses(network for network in networks if isinstance(network, IPv6Network))
    found = (("ip", ", ".join(map(str, four))), ("ip6", ", ".join(map(str, six))))
    return [f"{word} daddr {{ {elements} }} {verdict}" for word, elements in found if elements]


def _carried(networks: Iterable[Net]) -> list[Net]:
    """The networks of IPv4 among these as NAT64 carries them."""
    base = int(_NAT64.network_address)
    return [
        IPv6Network((base + int(network.network_address), 96 + network.prefixlen))
        for network in networks
        if isinstance(network, IPv4Network)
    ]
