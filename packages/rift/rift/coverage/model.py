"""What the App covers in an account: the list as it is at GitHub, the rows as they are here, the way between."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Listing:
    """A list of an account's repositories that has begun, or goes on."""

    installation: int
    org: str
    epoch: int
    page: int
    """The page that comes next."""
    failures: int
    """How often in a row it could not be listed to the end."""


@dataclass(frozen=True, slots=True)
class Listed:
    """A repository as GitHub lists it. The id stays when it is renamed or moved."""

    github_id: int
    owner: str
    name: str
    default_branch: str | None
    archived: bool

    @property
    def full(self) -> str:
        """`OWNER/NAME`."""
        return f"{self.owner}/{self.name}"


@dataclass(frozen=True, slots=True)
class Known:
    """A repository's row, as far as GitHub says what stands there."""

    id: str
    org: str
    account: int
    github_id: int
    owner: str
    name: str
    default_branch: str | None
    archived: bool
    covered: bool


@dataclass(frozen=True, slots=True)
class Plan:
    """What makes the rows what the list says."""

    insert: tuple[Listed, ...]
    update: tuple[tuple[Known, Listed], ...]
    uncover: tuple[Known, ...]
    untaken: tuple[str, ...]
    """What cannot be had here, each with the reason."""


@dataclass(frozen=True, slots=True)
class Heard:
    """What a webhook asks to look at again. It is believed in nothing else."""

    installation: int
    repository: int | None
    """Whose heads may have moved (GitHub's id); None where the list of what is covered may be another."""


@dataclass(frozen=True, slots=True)
class Covered:
    """What came of listing an account."""

    new: int = 0
    changed: int = 0
    uncovered: int = 0
    stands: str = "listed"
    """`listed`, `suspended`, `removed`, or `waits` with the failure."""
    failure: str | None = None
