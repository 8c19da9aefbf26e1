"""JWTs of others, checked: the algorithm is the key's, and nothing in a header is trusted.

Pure; the cryptography is joserfc's. `peek` looks at a token before it is verified, to find the keys; `verified` gives
its header and claims, or says what is wrong. Times, issuers and audiences are judged by `tokens.decide`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Trouble = Literal["malformed", "algorithm", "key_unknown", "signature"]


@dataclass(frozen=True, slots=True)
class Peek:
    """What an unverified token says of itself, good for finding keys and for nothing else."""

    kid: str | None
    issuer: str | None


@dataclass(frozen=True, slots=True)
class Jwt:
    """A JWT whose signature holds."""

    header: Mapping[str, Any]
    claims: Mapping[str, Any]


def peek(token: str) -> Peek | None:
    """Key id and issuer of a token; None for what is no JWT that is taken here."""
    raise NotImplementedError


def verified(token: str, keys: Sequence[Mapping[str, Any]]) -> Jwt | Trouble:
    """The token, if one of these public JWKs signed it."""
    raise NotImplementedError
