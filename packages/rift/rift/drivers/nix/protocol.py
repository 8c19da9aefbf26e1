"""What a builder of environments does, whoever builds. Source: design, Environments; docs/nix-guide.md."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from keel.sizes import KIB
from rift.drivers.data import Data

LOG_PIECE = 256 * KIB
"""The most bytes of a log in one answer."""
VARIABLES_MOST, VARIABLES_BYTES = 256, 48 * KIB
"""What a box's first message holds beside Rift's own variables: so many, of so many bytes, PATH's packages too."""
SETUP_BYTES = 64 * KIB
"""The longest setup."""


class BuildError(Exception):
    """An environment cannot be built; `reason` is the whole text, fit to be shown to whoever wrote the flake."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class BuildInterrupted(BuildError):
    """What was begun was ended from outside, or refused by the host: tried again, it may well go better."""


@dataclass(frozen=True, slots=True)
class Built:
    """What a flake's `fixed-labs.rift.<system>` came to.

    `paths` are the packages' folders below /nix/store, in the flake's order; `env` are its variables; `setup` is the
    script. `store` is the folder of the host that boxes see, read-only, as /nix/store. No more than a box takes, by the
    bounds above.
    """

    store: Path
    paths: tuple[str, ...]
    env: tuple[tuple[str, str], ...]
    setup: str


@dataclass(frozen=True, slots=True)
class LogPiece:
    """Bytes of a build's log from an offset on, and whether the build goes on."""

    data: Data
    running: bool


class Builder(Protocol):
    """`repo` is a repository's id, `build` the id of one build. Each method raises BuildError, and only that.

    None of them may be called inside a database transaction (they raise then).
    """

    @property
    def kind(self) -> Literal["local", "fake", "remote"]:
        """A short word for lists."""

    async def lacking(self) -> str | None:
        """Why this host builds no environments, as a sentence with its mend; None where it does."""

    async def wanted(self, mirror: Path, commit: str) -> bool:
        """Whether a commit of a mirror may have an environment of its own: a cheap look, for every new head.

        False where `build` would come to None: there is no flake.nix, or `fixed-labs` does not occur in it.
        """

    async def build(self, build: str, repo: str, mirror: Path, commit: str) -> Built | None:
        """Evaluate and build the flake at a commit of a mirror; None where the repository has none of ours.

        A flake in which `fixed-labs` does not occur is none of ours, Nix or not. Cancelled, it ends what it began.
        Never as root, never outside a sandbox; one repository's build touches no other's store.
        """

    async def log(self, build: str, offset: int) -> LogPiece:
        """What a build has said from an offset on, at most 256 KiB; nothing of one unknown here."""

    async def keep(self, repo: str, builds: tuple[str, ...]) -> None:
        """Of a repository's store, what these builds came to is kept, and the rest is collected."""

    async def forget(self, repo: str) -> None:
        """Remove all that was ever built for a repository."""
