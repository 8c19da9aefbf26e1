"""What may be an email address and what may be a client's name."""

from __future__ import annotations

import re
import unicodedata

CLIENT_MOST = 64
"""The longest name of a client, in characters."""

_EMAIL_MOST = 254
_LOCAL_MOST = 64
_EMAIL = re.compile(
    r"[^\s@<>()\[\],;:\\\"]+@(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.)*[a-z0-9](?:[a-z0-9-]*[a-z0-9])?", re.IGNORECASE
)


def email_of(text: str) -> str | None:
    """The address without the blanks around it, or None when it is none.

    One `@`, something printable before it, a host name after it. A host without a dot (`admin@localhost`) is taken:
    whether mail arrives is not decided here.
    """
    email = text.strip()
    local = email.partition("@")[0]
    if len(email) > _EMAIL_MOST or len(local) > _LOCAL_MOST or not email.isprintable():
        return None
    return email if _EMAIL.fullmatch(email) else None


def client_of(text: str) -> str:
    """A client's name fit for a list: one trimmed line of at most 64 printable characters. May be empty."""
    line = "".join(" " if character.isspace() else character for character in text)
    kept = "".join(character for character in line if not unicodedata.category(character).startswith("C"))
    return " ".join(kept.split())[:CLIENT_MOST].strip()
