"""What may never be shown, and the one function that takes it out of a text."""

from __future__ import annotations

import re

from keel.ids import ALPHABET
from keel.refusal import YOUR_HANDLE
from rift.names import BEARER_PREFIX, TASK_PREFIX

HANDLE = re.compile(rf"{TASK_PREFIX}[{ALPHABET}]{{8}}\.[\w-]{{8,}}")
"""What a handle looks like."""
TOKEN = re.compile(rf"{BEARER_PREFIX}[\w-]{{32,}}")
"""What a bearer token looks like, cut short for showing too."""
CREDENTIALS = re.compile(
    r"(?<=://)[^\s/?#@:\"'<>]*:[^\s/?#\"'<>]*(?=@)|(?<=http://)[^\s/?#\"'<>]+(?=@)|(?<=https://)[^\s/?#\"'<>]+(?=@)"
)
"""User and password in an address, to the last `@` before its path, as a password may hold one; in one of http also a
name alone, which is a token there."""
USERINFO = re.compile(r"(?<=://)[^/\s'\"]+@")
"""What stands before the host of an address, whatever it is: where a text is ours to shorten, a name says nothing."""
_HEADER = re.compile(r"\b(bearer|basic)\s+[\w.~+/=-]{6,}", re.IGNORECASE)
_PASSWORD = re.compile(r"\bpassword\s*=\s*('[^']*'|\S+)", re.IGNORECASE)
_ROW = re.compile(r"(Failing row contains|Key) ?\([^\n]*")
"""Where Postgres repeats the values of a row in an error."""
_AGENT_TOKEN = re.compile(r"(?<![\w/.-])[A-Za-z0-9_-]{43}(?![\w/-])")
"""The tokens of boxes' agents carry no mark: 32 bytes in base64url, standing alone."""


def without_secrets(text: str) -> str:
    """The text with a placeholder where a handle, a token or an address's password stood, in whatever argument."""
    text = CREDENTIALS.sub("<your credentials>", text)
    return TOKEN.sub("<your token>", HANDLE.sub(YOUR_HANDLE, text))


def masked(text: str) -> str:
    """The text with `***` for what stands before the host of each address in it."""
    return USERINFO.sub("***@", text)


def for_logs(text: str) -> str:
    """The text as a log may have it: without handles, tokens, passwords in addresses and the values of rows."""
    text = without_secrets(masked(text))
    text = _HEADER.sub(lambda found: f"{found[1]} <left out>", text)
    text = _PASSWORD.sub("password=***", text)
    return _AGENT_TOKEN.sub("<left out>", _ROW.sub(lambda found: f"{found[1]} <left out>", text))
