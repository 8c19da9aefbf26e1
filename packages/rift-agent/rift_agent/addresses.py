"""The addresses a jail's proxy never connects to: the host itself, its networks, and everything that is not the public
internet.

Our own table, because what the standard library calls "global" differs between its versions. An address that carries
another (IPv4-mapped, NAT64) is judged by the one it carries.
"""

from __future__ import annotations

import ipaddress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Union

    Net = Union[ipaddress.IPv4Network, ipaddress.IPv6Network]

BARRED_4 = tuple(
    (ipaddress.IPv4Network(network), name)
    for network, name in (
        ("0.0.0.0/8", "unspecified"), ("10.0.0.0/8", "private"), ("100.64.0.0/10", "private (shared by a carrier)"),
        ("127.0.0.0/8", "loopback"), ("169.254.0.0/16", "link-local (cloud metadata)"), ("172.16.0.0/12", "private"),
        ("192.0.0.0/24", "reserved"), ("192.0.2.0/24", "reserved"), ("192.88.99.0/24", "reserved"),
        ("192.168.0.0/16", "private"), ("198.18.0.0/15", "reserved"), ("198.51.100.0/24", "reserved"),
        ("203.0.113.0/24", "reserved"), ("224.0.0.0/4", "multicast"), ("240.0.0.0/4", "reserved"),
    )
)  # fmt: skip
PUBLIC_6 = ipaddress.IPv6Network("2000::/3")
BARRED_6 = tuple(
    (ipaddress.IPv6Network(network), name)
    for network, name in (
        ("::/128", "unspecified"), ("::1/128", "loopback"), ("fe80::/10", "link-local"), ("fc00::/7", "private"),
        ("fec0::/10", "private"), ("ff00::/8", "multicast"), ("2001::/23", "reserved"), ("2001:db8::/32", "reserved"),
        ("3fff::/20", "reserved"), ("2002::/16", "reserved"),
    )
)  # fmt: skip
CARRIERS = (ipaddress.IPv6Network("::ffff:0:0/96"), ipaddress.IPv6Network("64:ff9b::/96"))  # IPv4 in the last 32 bits


def barred(address: str) -> str:
    """What kind of address this is, if it is one no jail may reach; "" for one of the public internet. Never raises."""
    try:
        number = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return "unreadable"
    if isinstance(number, ipaddress.IPv6Address):
        if any(number in network for network in CARRIERS):
            return barred(str(ipaddress.IPv4Address(int(number) & 0xFFFFFFFF)))
        named = next((name for network, name in BARRED_6 if number in network), "")
        return named or ("" if number in PUBLIC_6 else "reserved")
    return next((name for network, name in BARRED_4 if number in network), "")


def own() -> list[Net]:
    """The addresses of this host, as networks: each its own, and what else the kernel takes for itself."""
    found: list[Net] = []
    last = ""
    for line in _read("/proc/net/fib_trie").splitlines():
        words = line.split()
        if words[:1] == ["|--"]:
            last = words[1]
        elif words[1:] == ["host", "LOCAL"]:
            found.append(ipaddress.IPv4Network(last + words[0]))
    numbers = (line.split()[0] for line in _read("/proc/net/if_inet6").splitlines())
    found += (ipaddress.IPv6Network((int(number, 16), 128)) for number in numbers)
    return list(dict.fromkeys(found))


def is_own(address: str, networks: list[Net]) -> bool:
    """Whether an address is of one of the host's `own`, also as one of IPv6 that carries it."""
    number = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(number, ipaddress.IPv6Address) and any(number in network for network in CARRIERS):
        return is_own(str(ipaddress.IPv4Address(int(number) & 0xFFFFFFFF)), networks)
    return any(number in network for network in networks)


def _read(path: str) -> str:
    try:
        with open(path, encoding="ascii") as file:
            return file.read()
    except OSError:
        return ""


def reachable(address: str, reach: list[str]) -> bool:
    """Whether the host's own settings open an address that is private or reserved: the network of a company's mirror.

    `reach` holds networks, `10.1.0.0/16`. Loopback, link-local and multicast addresses stay barred, whatever it says.
    """
    if not barred(address).startswith(("private", "reserved")):
        return False
    number = ipaddress.ip_address(address.partition("%")[0])
    return any(number in ipaddress.ip_network(network, strict=False) for network in reach)


def listed(host: str, allow: list[str]) -> bool:
    """Whether a host (lower case, no dot at its end) is on an allow list; `*.x.y` allows every name below x.y, not x.y
    itself.
    """
    for entry in allow:
        entry = entry.lower().rstrip(".")
        if host == entry or (entry.startswith("*.") and host.endswith(entry[1:]) and len(host) > len(entry) - 1):
            return True
    return False
