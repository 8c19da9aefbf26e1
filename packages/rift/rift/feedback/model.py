"""An item of feedback: a draft until its person submits it, then in the inbox until an admin has handled it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

Category = Literal["bug", "improvement"]
CATEGORIES: tuple[Category, ...] = ("bug", "improvement")

Show = Literal["open", "handled", "all"]
"""Which items of the inbox: not handled yet, handled, both."""


@dataclass(frozen=True, slots=True)
class Said:
    """What an item says, as somebody wrote it."""

    category: Category
    text: str
    context: str = ""
    """For the engineer; may be empty."""


@dataclass(frozen=True, slots=True)
class Item:
    """One item. Nobody but its person sees it before it is submitted."""

    id: str
    user_id: str
    email: str
    """The person's address, as it is now."""
    client: str
    """The name of the client whose agent drafted it."""
    category: Category
    text: str
    context: str
    created_at: datetime
    edited_at: datetime | None
    """When the person last changed it; None where it is as the agent drafted it."""
    submitted_at: datetime | None
    handled_at: datetime | None


@dataclass(frozen=True, slots=True)
class Added:
    """What a call added to a draft: how many items, and how many the draft now has."""

    added: int
    total: int


@dataclass(frozen=True, slots=True)
class Inbox:
    """A page of submitted items, newest first; whether there are older ones; how many are not handled yet, in all."""

    items: Sequence[Item]
    more: bool
    open: int
