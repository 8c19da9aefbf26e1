"""What may never be shown, and the one function that takes it out of a text."""

from __future__ import annotations

import re

from keel.secrecy import masked, without_headers
from onbe.names import GRANT_PREFIX

GRANT = re.compile(rf"{GRANT_PREFIX}[\w-]{{16,}}")
"""What a task grant looks like, cut short for showing too."""
JWT = re.compile(r"\beyJ[\w-]{8,}(\.[\w-]*){0,4}")
"""What a token or an assertion looks like: its header is a JSON object in base64url."""
_PEM = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL)
_FIELD = re.compile(
    r"\b(client_secret|refresh_token|subject_token|actor_token|client_assertion)(=|\W{1,4})[\w.~%+/=-]{6,}"
)


def for_logs(text: str) -> str:
    """The text as a log may have it: without tokens, grants, keys, passwords in addresses and the values of rows."""
    text = _PEM.sub("<private key>", without_headers(masked(text)))
    text = without_tokens(text)
    return _FIELD.sub(lambda found: f"{found[1]}{found[2]}<left out>", text)


def without_tokens(text: str) -> str:
    """The text without the tokens and grants in it: what was sent as something else may be one, by mistake."""
    return GRANT.sub("<grant>", JWT.sub("<token>", text))
