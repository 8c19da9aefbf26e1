"""What the steps know of each other."""

from __future__ import annotations

import base64
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from keel.clock import Clock
from onbe.demo.client import Agent, Server

NOTES = "https://notes.demo.example"
"""The tool server of the story; it answers inside this process."""
SCRIBE, HELPER = "onbe-demo-scribe", "onbe-demo-helper"
READ, WRITE = "notes:read", "notes:write"


@dataclass(slots=True)
class Task:
    """A task that an agent holds: its id, its grant, its newest token."""

    id: str
    grant: str = field(repr=False)
    token: str = field(repr=False)


@dataclass(slots=True)
class Scene:
    """Who plays, where, and what has come about so far."""

    server: Server
    clock: Clock
    scribe: Agent
    helper: Agent
    patience: float
    """How long to wait for the seal of a record, in seconds."""
    person: str = ""
    signed_in: str = field(default="", repr=False)
    """The person's own token."""
    registered: bool = False
    """Whether there is something to put away."""
    newest: int = 0
    """The number of the newest record before the demo."""
    task: Task | None = None
    child: Task | None = None
    refused: list[tuple[str, str]] = field(default_factory=list)
    """Every refusal so far: the agent, and the reason that must be on its record."""

    @property
    def at_work(self) -> Task:
        """The task that the scribe holds."""
        assert self.task is not None
        return self.task


Act = Callable[[Scene, list[str]], Awaitable[None]]
"""What a step does: it fills the list with the lines to show, and raises Wrong when something is not as it should."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step: what is told, and what is done."""

    title: str
    act: Act


def claims_of(token: str) -> Mapping[str, Any]:
    """What a token says, unverified, to be shown: it is verified by whom it is for."""
    part = token.split(".")[1]
    said: Mapping[str, Any] = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    return said
