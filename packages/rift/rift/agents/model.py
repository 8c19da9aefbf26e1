"""What an agent says of itself and of its commands. Everything here came over the wire and is believed only so far."""

from __future__ import annotations

from dataclasses import dataclass

from keel.ids import digest
from rift.commands.model import End


@dataclass(frozen=True, slots=True)
class Agent:
    """Who speaks: a box, which start of its agent, and the token bound to both."""

    box: str
    incarnation: int
    token: str

    @property
    def token_sha256(self) -> bytes:
        """What is stored in the token's place."""
        return digest(self.token)


@dataclass(frozen=True, slots=True)
class Up:
    """The jail runs."""


@dataclass(frozen=True, slots=True)
class Failed:
    """The jail could not be made, or ended; the whole reason."""

    reason: str
    setup: bool = False
    """Whether it is the repository's setup that failed: another try would say the same."""


WHYS = frozenset({"not_listed", "private_address", "bad_port", "malformed", "too_slow", "busy", "others"})
"""Why a box's proxy refuses a connection; `others` are those it only counted."""


@dataclass(frozen=True, slots=True)
class Refused:
    """Connections that the box's proxy refused: a row of the ledger."""

    n: int
    """Counts these events of one start of the agent, so that one told twice is recorded once."""
    host: str
    """As the jail asked for it; "" where it named none that could be read."""
    port: int
    why: str
    """One of WHYS."""
    count: int


Event = Up | Failed | End | Refused
