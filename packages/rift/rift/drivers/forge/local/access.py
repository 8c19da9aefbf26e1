"""How git gets what opens an origin: by a descriptor that it inherits, so that no other process can read it.

The secret stands in memory alone (memfd). Git is told a credential helper for that origin's scheme, host and port,
which prints what the descriptor holds; to any other host, a redirect's included, git has nothing to say. While it is
so lent, none of the operator's own helpers is asked, nor told to store it. Command lines and environments hold the
descriptor's number only. Source: gitcredentials(7).
"""

from __future__ import annotations

import os
import re
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

from rift.drivers.forge.protocol import Access, ForgeError

_HOST = re.compile(r"[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]")
HIDDEN = "***"


@dataclass(frozen=True, slots=True)
class Lent:
    """What git is started with: `words` go before its command, `fds` are inherited."""

    words: tuple[str, ...] = ()
    fds: tuple[int, ...] = ()


def origin_of(url: str) -> str | None:
    """The scheme, host and port of an HTTP address, as one text; None for any other address."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return None
    host = f"[{parts.hostname}]" if parts.hostname and ":" in parts.hostname else parts.hostname or ""
    if parts.scheme.lower() not in ("http", "https") or not _HOST.fullmatch(host):
        return None
    default = 443 if parts.scheme.lower() == "https" else 80
    return f"{parts.scheme.lower()}://{host}:{port or default}"


@contextmanager
def lent(url: str, access: Access | None) -> Iterator[Lent]:
    """Have git know the access to this origin for the length of the block. Raises ForgeError."""
    origin = origin_of(url)
    if access is None or origin is None:
        yield Lent()
        return
    if not (access.user.isprintable() and access.password.isprintable()):
        raise ForgeError("what opens this origin holds a line break or the like")
    descriptor = os.memfd_create("access", os.MFD_CLOEXEC)
    try:
        os.write(descriptor, f"username={access.user}\npassword={access.password}\n".encode())
        helper = f'!f() {{ test "$1" = get && cat /proc/self/fd/{descriptor}; }}; f'
        words = ("-c", "credential.helper=", "-c", f"credential.{origin}.helper={helper}")
        yield Lent(words, (descriptor,))
    finally:
        os.close(descriptor)


def without(text: str, access: Access | None) -> str:
    """The text without the secret, should a server repeat it."""
    if access is None or not access.password:
        return text
    pair = b64encode(f"{access.user}:{access.password}".encode()).decode()
    return text.replace(access.password, HIDDEN).replace(pair, HIDDEN)
