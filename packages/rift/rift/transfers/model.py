"""What git-lfs asks at the door, and where one file goes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True, slots=True)
class Asked:
    """A request of the LFS API: `path` below `info/lfs/`."""

    repository: str
    method: Literal["GET", "POST"]
    path: str
    query: str
    body: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Api:
    """Where an origin's LFS API is, and what opens it."""

    base: str
    authorization: str = field(repr=False)
    """The header's value; "" for none."""


@dataclass(frozen=True, slots=True)
class Transfer:
    """Where one file goes: the origin's own address and headers for it, kept from the jail in a sealed token."""

    method: Literal["GET", "PUT", "POST"]
    href: str
    headers: Mapping[str, str] = field(repr=False)
    expires: float
    """Seconds since 1970."""
    oid: str
    size: int
    """In bytes, as the batch asked for it."""


@dataclass(frozen=True, slots=True)
class Sent:
    """One file's bytes on their way from the jail."""

    method: str
    token: str = field(repr=False)
    type: str = ""
    length: str = ""
    """As the header has it; "" where it comes in chunks."""
    body: AsyncIterator[bytes] | None = field(default=None, repr=False)
