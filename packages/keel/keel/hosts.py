"""Which machine a name is."""

from __future__ import annotations

import ipaddress


def is_loopback(host: str) -> bool:
    """Whether a host name or address is this machine, for any resolver."""
    return host == "localhost" or host.endswith(".localhost") or is_loopback_address(host)


def is_loopback_address(host: str) -> bool:
    """Whether an address is this machine's own; False for a name."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
