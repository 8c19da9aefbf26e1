"""The issuer's address and what it says of itself (RFC 8414)."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from onbe_client.errors import BadAnswer, Misconfigured


def is_loopback(host: str) -> bool:
    """Whether a host name or address is this machine, for any resolver."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def trouble(url: str, *, insecure: bool = False) -> str | None:
    """Why an address is not one to send credentials to; None where it is: https, or http to this machine."""
    if not url.isascii() or not url.isprintable() or any(letter in url for letter in ' <>"\\'):
        return "is not an address"
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return "is not an address"
    if parts.scheme not in ("https", "http") or not host or parts.username or parts.password or parts.fragment:
        return "is not an address like https://onbe.example.com"
    if parts.scheme == "http" and not insecure and not is_loopback(host):
        return "is not https"
    return None


def issuer_of(url: str, *, insecure: bool = False) -> str:
    """An issuer's address without a slash at its end; raises Misconfigured."""
    what = trouble(url, insecure=insecure)
    if what is None and urlsplit(url).query:
        what = "has a query"
    if what:
        raise Misconfigured("issuer_unfit", f"The issuer {what}.")
    return url.rstrip("/")


@dataclass(frozen=True, slots=True)
class Metadata:
    """Where an issuer's endpoints are; None for those that it does not name."""

    issuer: str
    token_endpoint: str
    jwks_uri: str | None = None
    revocation_endpoint: str | None = None
    introspection_endpoint: str | None = None


def places(issuer: str) -> tuple[str, str]:
    """The addresses of the metadata, in the order they are tried (RFC 8414, 3; OpenID Connect Discovery, 4)."""
    parts = urlsplit(issuer)
    return (
        f"{parts.scheme}://{parts.netloc}/.well-known/oauth-authorization-server{parts.path}",
        f"{issuer}/.well-known/openid-configuration",
    )


def read(document: Mapping[str, Any], issuer: str, *, insecure: bool = False) -> Metadata:
    """The metadata, if they are this issuer's own (exactly: RFC 8414, 3.3) and name fit addresses.

    An issuer reached by https names https addresses alone. Raises BadAnswer, or Misconfigured for another's.
    """
    if document.get("issuer") != issuer:
        raise Misconfigured("issuer_mismatch", "The metadata there are of another issuer than the one configured.")
    found: dict[str, str | None] = {}
    for name in ("token_endpoint", "jwks_uri", "revocation_endpoint", "introspection_endpoint"):
        value = document.get(name)
        if value is None and name != "token_endpoint":
            continue
        what = trouble(value, insecure=insecure) if isinstance(value, str) else "is missing"
        if what is None and issuer.startswith("https:") and not str(value).startswith("https:"):
            what = "is not https"
        if what:
            raise BadAnswer("bad_metadata", f"The issuer's {name} {what}.")
        found[name] = value
    return Metadata(issuer=issuer, token_endpoint=str(found.pop("token_endpoint")), **found)
