"""A command, its three statuses, and a piece of its output. Source: the contract, MCP tools, Boxes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from rift.boxes.model import State as BoxState
from rift.names import SILENT_AFTER
from rift.secrets.model import Delivery

Kind = Literal["bash", "read", "write"]
State = Literal["queued", "claimed", "finished", "unrun", "lost"]
Status = Literal["finished", "did not run", "has not finished"]

ENDED: frozenset[State] = frozenset({"finished", "unrun", "lost"})

_ID = re.compile(r"(?P<box>.+)\.(?P<n>[1-9][0-9]{0,8})")


@dataclass(frozen=True, slots=True)
class CommandId:
    """`<vm>.<n>`: the box's id and a number, split at the last dot."""

    box: str
    n: int

    @classmethod
    def parse(cls, text: str) -> CommandId | None:
        """Read an id; None when the text is none."""
        found = _ID.fullmatch(text.strip())
        return cls(found["box"], int(found["n"])) if found else None

    def __str__(self) -> str:
        return f"{self.box}.{self.n}"


@dataclass(frozen=True, slots=True)
class Command:
    """A command as stored, without the content that a write carries."""

    box: str
    n: int
    kind: Kind
    input: str
    """The shell text of a bash command, the path of a read or a write."""
    timeout: int
    state: State
    stop_wanted: bool
    incarnation: int | None
    exit: int | None
    reason: str | None
    media: str | None
    size: int | None
    """Bytes of output, known once it ended."""
    tail: bytes | None
    """The last 8 KiB of them, of the last 64 commands of the box."""
    created_at: datetime
    claimed_at: datetime | None
    ended_at: datetime | None
    box_state: BoxState
    box_seen_at: datetime | None
    """How its box stood, and when the box's agent was last heard."""

    def silent(self, now: datetime) -> bool:
        """Whether its box's agent has not been heard for 60 s."""
        return self.box_seen_at is None or now - self.box_seen_at >= SILENT_AFTER

    @property
    def id(self) -> CommandId:
        return CommandId(self.box, self.n)

    @property
    def ended(self) -> bool:
        """Whether its record ended: it finished, never ran, or was lost for good."""
        return self.state in ENDED


@dataclass(frozen=True, slots=True)
class Report:
    """How a command stands, as an answer says it."""

    id: str
    status: Status
    reason: str | None
    exit: int | None
    ended: bool
    """Whether it stands in an answer's `ended`: finished, never ran, or lost. Not an id without a record."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of output: text cut at character boundaries, and where to read on.

    `size`: bytes there are so far. `lacking`: the bytes `[from, to)` that were asked for and cannot be given now,
    and why: `parked` (the box must be awake), `silent` (its agent is not heard), `gone` (kept nowhere any more).
    """

    output: str
    next_offset: int
    size: int
    lacking: tuple[int, int] | None = None
    why: Literal["parked", "silent", "gone"] | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """What one of the five command tools says of one command."""

    report: Report
    piece: Piece
    kind: Kind = "bash"
    input: str = ""
    media: str | None = None
    image: bytes | None = None

    @property
    def unread(self) -> bool:
        """Whether bytes remain that a rift_output call can give now."""
        dropped = self.piece.why == "gone" and self.piece.lacking is not None  # the oldest are gone, the rest is there
        return self.piece.next_offset < self.piece.size and (self.piece.why is None or dropped)


@dataclass(frozen=True, slots=True)
class End:
    """A command's end as its agent tells it: the exit code if any, why, how much it printed, the last of it."""

    n: int
    exit: int | None
    reason: str | None
    size: int
    tail: bytes
    media: str | None = None
    ran: bool = True
    """False: its stop came before the agent had started it, and now it never will."""
    times: tuple[float, ...] = ()
    """Of a traced one, by the agent's clock, in seconds since 1970: taken, begun (where it came to that), ended."""


@dataclass(frozen=True, slots=True)
class Ended:
    """A command as its end was recorded: its kind, when it came, when its agent took it, the call's traceparent."""

    n: int
    kind: Kind
    created_at: datetime
    claimed_at: datetime
    trace: str | None = None


@dataclass(frozen=True, slots=True)
class Handed:
    """Bytes that an agent handed over: from `first` on, of an output of `size` bytes so far (None: it has none)."""

    first: int
    size: int | None
    data: bytes


@dataclass(frozen=True, slots=True)
class Author:
    """Whose the commits are that a box makes, as git has it."""

    name: str
    email: str


@dataclass(frozen=True, slots=True)
class Told:
    """What an agent has heard already: commands it has, those it is stopping, questions it is answering."""

    known: frozenset[int] = frozenset()
    stopping: frozenset[int] = frozenset()
    answering: frozenset[str] = frozenset()
    secrets: int = 0
    """The version of the repository's secrets that it has; 0 before it got any."""
    author: Author | None = None
    """Whose it takes the box's commits to be."""


@dataclass(frozen=True, slots=True)
class Work:
    """What an agent is told: commands it now owns, commands to stop, questions, and whether its jail is frozen."""

    commands: tuple[dict[str, object], ...]
    stops: tuple[int, ...]
    asks: tuple[dict[str, object], ...]
    power: tuple[int, bool]
    secrets: int = 0
    """The version of the repository's secrets, which new commands are started with."""
    author: Author | None = None
    """Whose the box's commits are, where its commands are new and it takes them for somebody else's or nobody's."""
    delivery: Delivery | None = None
    """The secrets themselves, where its commands are new and it has another version."""

    def news(self, power: tuple[int, bool] | None) -> bool:
        """Whether there is anything to say to an agent whose power is this."""
        return bool(self.commands or self.stops or self.asks) or self.power != power
