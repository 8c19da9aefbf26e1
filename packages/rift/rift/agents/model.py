"""What an agent says of itself and of its commands. Everything here came over the wire and is believed only so far."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Agent:
    """Who speaks: a box, which start of its agent, and the token bound to both."""

    box: str
    incarnation: int
    token: str


@dataclass(frozen=True, slots=True)
class Up:
    """The jail runs."""


@dataclass(frozen=True, slots=True)
class Failed:
    """The jail could not be made, or ended; the whole reason."""

    reason: str


@dataclass(frozen=True, slots=True)
class Ended:
    """A command's end: the exit code if there was one, why, how much it printed, and the last of it."""

    n: int
    exit: int | None
    reason: str | None
    size: int
    tail: bytes
    media: str | None = None


Event = Up | Failed | Ended
