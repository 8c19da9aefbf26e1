"""Who calls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Role = Literal["member", "admin"]


@dataclass(frozen=True, slots=True)
class Caller:
    """The person behind a token, at the moment of the call."""

    user: str
    email: str
    admin: bool
    """Whether they are the platform admin."""
    token: str
    """The token's id (never its secret)."""
    client: str
    """The name the client declared when it was authorized."""

    @property
    def label(self) -> str:
        """What a task shows as its holder: `mcp:` and the client's name (seed: Tasks, The holder)."""
        return f"mcp:{self.client}"
