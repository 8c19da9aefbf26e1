"""A one-time link: who has it is the person of its address, once and for a short while."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Link:
    """A link for an address. Its secret is in the letter alone; what is kept is its digest."""

    email: str
    invitation: str | None
    """The invitation that using it accepts; without one it signs in and no more."""
    next: str
    """The path of the page to go on to; empty for the first page."""
    created_at: datetime
    expires_at: datetime
    used_at: datetime | None
