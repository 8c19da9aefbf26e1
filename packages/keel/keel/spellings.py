"""How values of settings are spelled: types that a section's fields take, each refusing with what it should be."""

from __future__ import annotations

import ipaddress
import re
from pathlib import PurePosixPath
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator

from keel.hosts import is_loopback
from keel.settings import Words

_HOST_NAME = re.compile(r"(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.)*[a-z0-9](?:[a-z0-9-]*[a-z0-9])?", re.IGNORECASE)
_PEM = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*-----END [A-Z ]*PRIVATE KEY-----", re.DOTALL)


def _url(value: str) -> str:
    should = "an address like https://id.example.com/realms/main, without user, query or fragment"
    try:
        url = urlsplit(value.strip())
        host, _ = url.hostname, url.port
    except ValueError:
        raise ValueError(should) from None
    if not host or url.query or url.fragment or url.username or url.password or url.scheme not in ("http", "https"):
        raise ValueError(should)
    return value.strip().rstrip("/")


def _base_url(value: str) -> str:
    should = "an address like https://rift.example.com, https unless it is this machine, without a path"
    try:
        url = urlsplit(value.strip())
        host, _ = url.hostname, url.port
    except ValueError:
        raise ValueError(should) from None
    plain = url.scheme == "http" and host is not None and is_loopback(host)
    extra = url.path.rstrip("/") or url.query or url.fragment or url.username or url.password
    if not host or extra or not (url.scheme == "https" or plain):
        raise ValueError(should)
    return f"{url.scheme}://{url.netloc.lower()}"


def _issuer(value: str) -> str:
    return value.strip() if _url(value) else value


def _database_url(value: str) -> str:
    if urlsplit(value).scheme not in ("postgres", "postgresql"):
        raise ValueError("an address of a Postgres database, postgresql://USER:PASSWORD@HOST/DATABASE")
    return value


def _collector(value: str) -> str:
    url = urlsplit(value.strip())
    if url.scheme not in ("http", "https") or not url.hostname or url.query or url.fragment:
        raise ValueError("the address of a collector, as http://127.0.0.1:4318")
    return value.strip()


def _secret(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9_-]{20,200}", value):
        raise ValueError("at least 20 letters, digits, - and _, drawn by chance")
    return value


def _networks(value: tuple[str, ...]) -> tuple[str, ...]:
    try:
        return tuple(str(ipaddress.ip_network(network)) for network in value)
    except ValueError:
        raise ValueError("networks such as 10.1.0.0/16, separated by commas") from None


def _absolute(value: tuple[str, ...]) -> tuple[str, ...]:
    if not all(PurePosixPath(path).is_absolute() and ".." not in PurePosixPath(path).parts for path in value):
        raise ValueError("absolute paths, separated by commas")
    return tuple(str(PurePosixPath(path)) for path in value)


def _host_name(value: str) -> str:
    if not _HOST_NAME.fullmatch(value.strip()):
        raise ValueError("the name of a host, as smtp.example.com")
    return value.strip()


def _domains(value: tuple[str, ...]) -> tuple[str, ...]:
    if not all(_HOST_NAME.fullmatch(domain) for domain in value):
        raise ValueError("mail domains such as example.com, separated by commas")
    return tuple(domain.lower() for domain in value)


def _mail_address(value: str) -> str:
    local, _, domain = value.strip().partition("@")
    if not re.fullmatch(r"[\w.+-]+", local, re.ASCII) or not _HOST_NAME.fullmatch(domain):
        raise ValueError("a mail address such as rift@example.com")
    return value.strip()


def _urls(value: tuple[str, ...]) -> tuple[str, ...]:
    try:
        return tuple(_url(one) for one in value)
    except ValueError:
        raise ValueError("addresses like https://cache.example.com, separated by commas") from None


def _host_patterns(value: tuple[str, ...]) -> tuple[str, ...]:
    if not all(one == "*" or _HOST_NAME.fullmatch(one.removeprefix("*.")) for one in value):
        raise ValueError("hosts such as pypi.org, *.pypi.org for the names below one, or * alone, separated by commas")
    return tuple(one.lower() for one in value)


def _word(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}", value.strip()):
        raise ValueError("letters, digits, '.', '_' and '-'")
    return value.strip()


def _pem(value: str) -> str:
    key = value.replace("\\n", "\n").strip()
    if not _PEM.fullmatch(key):
        raise ValueError("a private key in PEM, from -----BEGIN to -----END, its line breaks as they are or as \\n")
    return key


def _signing_keys(value: tuple[str, ...]) -> tuple[str, ...]:
    if not all(re.fullmatch(r"[\w.-]+:[A-Za-z0-9+/]{43}=", one) for one in value):
        raise ValueError("keys as NAME:BASE64, separated by commas")
    return value


BaseUrl = Annotated[str, AfterValidator(_base_url)]
"""Where a whole server is: https unless it is this machine, no path."""
Url = Annotated[str, AfterValidator(_url)]
"""An address of http or https; the slash at its end is taken off."""
Issuer = Annotated[str, AfterValidator(_issuer)]
"""An OpenID provider as it is written: `iss` is compared whole, and some providers' ends with a slash."""
DatabaseUrl = Annotated[str, AfterValidator(_database_url)]
"""An address of a Postgres database."""
Collector = Annotated[str, AfterValidator(_collector)]
"""An address that traces go to."""
Secret = Annotated[str, AfterValidator(_secret)]
"""A secret that was drawn by chance."""
Networks = Annotated[Words, AfterValidator(_networks)]
"""Networks, as `10.1.0.0/16`."""
Paths = Annotated[Words, AfterValidator(_absolute)]
"""Absolute paths."""
HostName = Annotated[str, AfterValidator(_host_name)]
"""A host's name or its IPv4 address."""
MailDomains = Annotated[Words, AfterValidator(_domains)]
"""Domains of mail addresses, in lower case."""
MailAddress = Annotated[str, AfterValidator(_mail_address)]
"""A plain mail address."""
Urls = Annotated[Words, AfterValidator(_urls)]
"""Addresses of http or https."""
HostPatterns = Annotated[Words, AfterValidator(_host_patterns)]
"""Hosts, `*.` before one for the names below it, or `*` for every one."""
Word = Annotated[str, AfterValidator(_word)]
"""A name or an id without spaces."""
PrivateKey = Annotated[str, AfterValidator(_pem)]
"""A private key in PEM; in one line, its breaks are `\\n`."""
SigningKeys = Annotated[Words, AfterValidator(_signing_keys)]
"""Public keys of Nix caches."""
