"""What may never be shown, and the one function that takes it out of a text."""

from __future__ import annotations

import re

from keel.ids import ALPHABET
from keel.refusal import YOUR_HANDLE
from keel.secrecy import masked, without_headers
from rift.names import (
    BEARER_PREFIX,
    CEREMONY_PREFIX,
    CODE_PREFIX,
    LINK_PREFIX,
    REFRESH_PREFIX,
    SESSION_PREFIX,
    TASK_PREFIX,
)

HANDLE = re.compile(rf"{TASK_PREFIX}[{ALPHABET}]{{8}}\.[\w-]{{8,}}")
"""What a handle looks like."""
_SECRETS = (BEARER_PREFIX, REFRESH_PREFIX, SESSION_PREFIX, LINK_PREFIX, CEREMONY_PREFIX, CODE_PREFIX)
TOKEN = re.compile(rf"(?:{'|'.join(_SECRETS)})[\w-]{{32,}}")
"""What a bearer token, or another secret of a person's, looks like, cut short for showing too."""
CREDENTIALS = re.compile(
    r"(?<=://)[^\s/?#@:\"'<>]*:[^\s/?#\"'<>]*(?=@)|(?<=http://)[^\s/?#\"'<>]+(?=@)|(?<=https://)[^\s/?#\"'<>]+(?=@)"
)
"""User and password in an address, to the last `@` before its path, as a password may hold one; in one of http also a
name alone, which is a token there."""
_AGENT_TOKEN = re.compile(r"(?<![\w/.-])[A-Za-z0-9_-]{43}(?![\w/-])")
"""The tokens of boxes' agents carry no mark: 32 bytes in base64url, standing alone."""


def without_secrets(text: str) -> str:
    """The text with a placeholder where a handle, a token or an address's password stood, in whatever argument."""
    text = CREDENTIALS.sub("<your credentials>", text)
    return TOKEN.sub("<your token>", HANDLE.sub(YOUR_HANDLE, text))


def for_logs(text: str) -> str:
    """The text as a log may have it: without handles, tokens, passwords in addresses and the values of rows."""
    return _AGENT_TOKEN.sub("<left out>", without_headers(without_secrets(masked(text))))
