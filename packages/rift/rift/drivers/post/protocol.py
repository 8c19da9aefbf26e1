"""What sends letters, whichever it is."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol


def one_line(text: str) -> str:
    """A text on one line, without what prints nothing: a line break in a header would begin another header."""
    spaced = "".join(" " if character.isspace() else character for character in text)
    kept = "".join(character for character in spaced if not unicodedata.category(character).startswith("C"))
    return " ".join(kept.split())


class PostError(Exception):
    """A message was not sent; `reason` is fit to be shown to a person and holds no password.

    Tried again later, it may well go: a server that is away or busy, or settings that do not fit and can be mended.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class MessageRefused(PostError):
    """The server refused this message for good (RFC 5321, 4.2.1: a 5yz answer to its recipient or its content)."""


@dataclass(frozen=True, slots=True)
class Message:
    """A letter with its text. What came from people in it may be hostile: no header grows a second line for it."""

    id: str
    """What its Message-ID begins with; no two tries have the same."""
    to: str
    """An email address as `people.decide.email_of` takes it; its host may be an international name."""
    subject: str
    text: str
    """Stands alone: many read nothing else."""
    html: str
    at: datetime
    reply_to: str | None = None
    """Who gets an answer; without one, the address that it comes from."""


class Post(Protocol):
    """Sends one message at a time. None of it may be called inside a database transaction (it raises then)."""

    @property
    def kind(self) -> str:
        """A short word for lists: `smtp`, `fake`."""

    async def send(self, message: Message) -> str:
        """Hand a message over; what the server said to it. Raises MessageRefused or PostError, and only these.

        Once it returns, the server has it. One that raised may still have been taken: the answer can be lost.
        """
