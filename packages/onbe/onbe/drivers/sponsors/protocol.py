"""Asking the directory of people whether somebody is still active."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol

State = Literal["active", "disabled", "not_found"]


class CannotAnswer(Exception):
    """The directory gave no answer that can be relied on: never a yes. The text is for a log; no secret is in it."""


class Unreachable(CannotAnswer):
    """The directory itself failed, and not what it holds about one person: five in a row are why it is left alone."""

    def __init__(self, text: str, *, anyone: bool = False) -> None:
        super().__init__(text)
        self.anyone = anyone
        """Whether it failed before a person was named: no connection, no credential."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What the directory said, and when it was asked: the instant before the question was sent."""

    state: State
    at: datetime


class SponsorDirectory(Protocol):
    """A directory of people. Source: seed 002, The sponsor check."""

    async def ask(self, sponsor: str, no_older_than: datetime) -> Answer:
        """Whether the person is active; an answer from before, where one is known that is not older than that instant.

        Raises CannotAnswer.
        """
