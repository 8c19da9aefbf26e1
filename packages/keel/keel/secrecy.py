"""What is a secret wherever it stands, taken out of a text. Each product adds what its own secrets look like."""

from __future__ import annotations

import re

USERINFO = re.compile(r"(?<=://)[^/\s'\"]+@")
"""What stands before the host of an address, whatever it is: where a text is ours to shorten, a name says nothing."""
_HEADER = re.compile(r"\b(bearer|basic)\s+[\w.~+/=-]{6,}", re.IGNORECASE)
_PASSWORD = re.compile(r"\bpassword\s*=\s*('[^']*'|\S+)", re.IGNORECASE)
_ROW = re.compile(r"(Failing row contains|Key) ?\([^\n]*")
"""Where Postgres repeats the values of a row in an error."""


def masked(text: str) -> str:
    """The text with `***` for what stands before the host of each address in it."""
    return USERINFO.sub("***@", text)


def without_headers(text: str) -> str:
    """The text without credentials of HTTP headers, passwords of connection strings, and the values of rows."""
    text = _HEADER.sub(lambda found: f"{found[1]} <left out>", text)
    text = _PASSWORD.sub("password=***", text)
    return _ROW.sub(lambda found: f"{found[1]} <left out>", text)
