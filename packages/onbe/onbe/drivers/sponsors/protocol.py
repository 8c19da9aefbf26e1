"""Asking the directory of people whether somebody is still active."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol

State = Literal["active", "disabled", "not_found"]


class CannotAnswer(Exception):
    """The directory gave no answer that can be relied on: never a yes. The text is for a log; no secret is in it."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What the directory said, and when it was asked."""

    state: State
    at: datetime


class SponsorDirectory(Protocol):
    """A directory of people. Source: seed 002, The sponsor check."""

    async def ask(self, sponsor: str, no_older_than: datetime) -> Answer:
        """Whether the person is active; an answer from before, where one is known that is not older than that instant.

        Raises CannotAnswer.
        """
