"""What reading an origin comes to."""

from __future__ import annotations

from dataclasses import dataclass

from rift.repos.model import Change, Repo


@dataclass(frozen=True, slots=True)
class Synced:
    """What one look at a repository's origin found."""

    repo: Repo
    changes: tuple[Change, ...]
    failure: str | None
    """Why it could not be looked at."""
    skipped: bool = False
    """Whether somebody else was looking at this moment, so that this look was left to them."""
