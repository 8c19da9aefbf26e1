"""What a forge does, whichever it is."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol


class ForgeError(Exception):
    """A forge could not do what it was asked; `reason` is fit to be shown to a person and holds no credential."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class ForgeInterrupted(ForgeError):
    """What the forge had begun was ended from outside: tried again, it may well go better."""


@dataclass(frozen=True, slots=True)
class Access:
    """What opens an origin over HTTP. It is sent to that origin's own scheme, host and port, and nowhere else."""

    user: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Gathered:
    """What a checkout of a commit needs beside its own objects was brought; `lacks`: one sentence for each thing that
    could not be.
    """

    lacks: tuple[str, ...] = ()


class Forge(Protocol):
    """Heads are `{short branch name: full commit name}`. Each method raises ForgeError, and only that.

    None of them may be called inside a database transaction (they raise then).
    """

    @property
    def kind(self) -> str:
        """A short word for lists and settings: `local`, `fake`."""

    async def heads(self, url: str, access: Access | None = None) -> dict[str, str]:
        """The branches of the repository as they are now; empty for an empty repository."""

    async def fetch(self, url: str, mirror: Path, access: Access | None = None) -> dict[str, str]:
        """Bring the bare mirror up to date, made when absent, and return its heads.

        A branch that is gone from the repository goes from the heads; objects, once fetched, stay. A mirror that was
        lost is made anew.
        """

    async def has(self, mirror: Path) -> bool:
        """Whether the mirror is there with what was fetched. False for one that was lost, whole or its objects."""

    async def pin(self, mirror: Path, box: str, commit: str) -> None:
        """Keep the commit in the mirror for this box, whatever happens to its branch. Raises when it is not there."""

    async def pins(self, mirror: Path) -> frozenset[str]:
        """The boxes that have a pin in the mirror; none where there is no mirror."""

    async def unpin(self, mirror: Path, box: str) -> None:
        """Forget the box's pin; there may be none."""
