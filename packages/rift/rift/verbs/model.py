"""Who stands behind a request at the door, what git asks there, and what it is answered."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from keel.refusal import Refusal
from rift.drivers.forge.packets import Push
from rift.repos.model import Repo

Service = Literal["upload-pack", "receive-pack"]


@dataclass(frozen=True, slots=True)
class Speaker:
    """Whose agent speaks: a box, which start of its agent, and the digest of the token bound to both."""

    box: str
    incarnation: int
    token_sha256: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Standing:
    """A box as it stands at this moment: whose task it is in, and whether that person may do anything."""

    box: str
    name: str
    state: str
    repo: str
    """The repository's id."""
    task: str | None
    open: bool
    """Whether that task is open."""
    owner: str | None
    """The task's owner (a user's id)."""
    disabled: bool
    """Whether a platform admin has put them out."""


@dataclass(frozen=True, slots=True)
class Admitted:
    """A request that may go on: as whom, for which task and box, to which repository."""

    box: str
    name: str
    task: str
    owner: str
    repo: Repo
    org: str
    """What the owner calls the repository's organization."""


@dataclass(frozen=True, slots=True)
class Over:
    """This agent, or this box, is over."""


@dataclass(frozen=True, slots=True)
class Rules:
    """Where a repository's boxes may not push."""

    repository: str
    default: str | None
    """Its default branch; None while it is not known, when nothing may be pushed."""
    watched: frozenset[str]
    push_default: bool
    push_watched: bool


@dataclass(frozen=True, slots=True)
class Asked:
    """One request of git's smart HTTP, as the door was asked: the repository by its name, the body plain."""

    repository: str
    """`OWNER/NAME`, as the jail wrote it."""
    service: Service
    refs: bool
    """Whether it is `GET info/refs`; else `POST git-SERVICE`."""
    version: int
    """That of the protocol, from the `Git-Protocol` header; 0 where there is none."""
    body: AsyncIterator[bytes] = field(repr=False)
    say: Callable[[Refusal], str] = field(repr=False)
    """A refusal as a terminal shows it."""


@dataclass(frozen=True, slots=True)
class ReadPush:
    """A push as it was read: what is asked, what the client can, its options, and its pack as it comes."""

    push: Push
    words: bytes
    shallow: Sequence[bytes]
    options: Sequence[bytes]
    pack: AsyncIterator[bytes] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Answer:
    """What goes back to the jail: a status, a content type, the body as it comes."""

    status: int
    type: str
    parts: AsyncIterator[bytes] = field(repr=False)
    length: int | None = None
