"""A passkey of a person."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Passkey:
    """A key in a device (or in a person's password manager), whose public half is here."""

    id: str
    user: str
    """The id of whose it is."""
    email: str
    credential: bytes = field(repr=False)
    """What the device calls it."""
    public_key: bytes = field(repr=False)
    """In COSE's form."""
    sign_count: int
    """How often it has signed, as it said last; 0 of one that does not count."""
    transports: Sequence[str]
    """How browsers reach it, as `internal` or `usb`."""
    name: str
    created_at: datetime
    used_at: datetime | None
