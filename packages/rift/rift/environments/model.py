"""What the boxes of one commit have, and how it came to be. Source: design, Environments; docs/nix-guide.md."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from keel.sizes import KIB, MIB

State = Literal["waiting", "building", "ready", "failed", "cancelled"]

TRANSITIONS: dict[State, frozenset[State]] = {
    "waiting": frozenset({"building", "cancelled"}),
    "building": frozenset({"building", "waiting", "ready", "failed", "cancelled"}),
    "ready": frozenset({"waiting", "cancelled"}),
    "failed": frozenset({"waiting"}),
    "cancelled": frozenset({"waiting"}),
}
"""Where an environment may go from each state. `building` to itself: taken up again, as who built it is gone. `ready`
to `waiting`: what was built is gone from the host; to `cancelled`: nothing uses it any more, and it is collected.
"""

Step = Literal["", "gather", "gathered", "build"]
"""What is done of it, or next: what a checkout needs is gathered, then it waits for a place (`gathered`), is built."""

HELD_FOR = timedelta(seconds=20)
"""Who builds an environment has it to themselves for so long, and says again and again that they still do."""
TRIES = 3
"""How often one is begun that is interrupted, before that is its failure."""

LOG_HEAD = LOG_TAIL = 8 * MIB
"""What is kept of a long log of a build that failed: its beginning and its end."""
LOG_READY = 64 * KIB
"""What is kept of the log of one that succeeded: its end."""
FAILURE_MOST = MIB
"""The longest failure; of a longer one the middle is left out."""


@dataclass(frozen=True, slots=True)
class Made:
    """What a flake came to: `store` is the host's folder that boxes see as /nix/store, `paths` are packages in it."""

    store: str
    paths: tuple[str, ...]
    env: tuple[tuple[str, str], ...]
    setup: str


@dataclass(frozen=True, slots=True)
class Environment:
    """What the boxes of one commit of a repository have."""

    id: str
    repo: str
    commit: str
    state: State
    epoch: int
    """Counts those who built it; what an older one says is not written."""
    until: datetime | None
    """Until when whoever builds it has it to themselves."""
    step: Step
    tries: int
    made: Made | None
    """Of one that is ready; None: the base environment."""
    lacks: str
    """What a checkout of the commit lacks, in sentences; "" for nothing."""
    failure: str | None
    stays: bool
    """Of one that failed: whether it would fail again, so that it is not tried before somebody asks for it."""
    wanted_at: datetime
    began_at: datetime | None
    ended_at: datetime | None

    @property
    def build(self) -> str:
        """The id of its newest build, as the builder has it."""
        return f"{self.id}-{self.epoch}"

    def doing(self, now: datetime) -> str:
        """What is being done of it before boxes can have it, in words; "" where nothing is."""
        if self.state != "building":
            return "its environment waits to be built" if self.state == "waiting" else ""
        what = "building the environment" if self.step == "build" else "bringing what its checkout needs"
        lasted = now - self.began_at if self.began_at else timedelta(0)
        return f"{what}, {max(0, int(lasted.total_seconds()))} s so far"


@dataclass(frozen=True, slots=True)
class Open:
    """One that waits or is built, as whoever builds next looks at it."""

    id: str
    commit: str
    state: State
    step: Step
    until: datetime | None
    wanted_at: datetime
    needed: bool
    """Whether a watched ref of a repository that may give boxes has its commit as head, or a box of it starts, or lost
    it and is to start anew.
    """


@dataclass(frozen=True, slots=True)
class Next:
    """What to do with those that are open: which to build, and which nobody waits for any more."""

    build: Open | None
    cancel: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Held:
    """One that is built by us: `needed` as for `Open`."""

    needed: bool


@dataclass(frozen=True, slots=True)
class LogPart:
    """A part of a build's log: bytes from `first` on, of `size` so far. `epoch` tells one build from the next."""

    epoch: int
    first: int
    data: bytes
    size: int
    running: bool
