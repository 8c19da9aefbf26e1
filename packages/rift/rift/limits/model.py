"""The limits of a repository's boxes: which there are, a repository's own, and how they are spelled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from keel import sizes
from rift.names import LIMITS

SIZES = frozenset({"memory", "disk"})
"""Those that are bytes; the others are counts."""


@dataclass(frozen=True, slots=True)
class Change:
    """What is asked for: texts by limit as they were typed, after all were made the defaults again if `default`."""

    texts: Mapping[str, str]
    default: bool = False

    @property
    def any(self) -> bool:
        """Whether it changes anything."""
        return self.default or bool(self.texts)


@dataclass(frozen=True, slots=True)
class RepoLimits:
    """What boxes of a repository may use: every limit's value, and which of them are its own."""

    repo: str
    values: Mapping[str, int]
    own: frozenset[str]
    changed: bool = False
    """Whether they were other ones until now."""


def option(name: str) -> str:
    """A limit as the command line has it: `--cpu-shares`."""
    return "--" + name.replace("_", "-")


def spelled(name: str, value: int) -> str:
    """A limit's value for a person: `4 GiB`, `1,024`."""
    return sizes.told(value) if name in SIZES else f"{value:,}"


def bounds(name: str) -> str:
    """What a limit takes, with its least and its most, for a sentence."""
    least, most = (spelled(name, value) for value in LIMITS[name])
    what = "a size in bytes, KiB, MiB, GiB or TiB" if name in SIZES else "a whole number"
    return f"{what} from {least} to {most}"
