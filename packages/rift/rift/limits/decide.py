"""What a change of limits comes to, from plain values."""

from __future__ import annotations

import re
from collections.abc import Mapping

from keel import sizes
from keel.refusal import Refusal
from rift.limits import refusals
from rift.limits.model import SIZES, Change, RepoLimits
from rift.names import LIMITS


def read_limit(name: str, text: str) -> int | None:
    """The value that a text means: a whole number, of bytes also with a unit as in `1.5GiB`; None where it is none."""
    if name in SIZES:
        return sizes.read(text)
    return int(text) if re.fullmatch(r"\d{1,20}", text.strip(), re.ASCII) else None


def decide_change(repo: str, own: Mapping[str, int], change: Change) -> dict[str, int] | Refusal:
    """A repository's own limits after a change, or why it cannot be: the first that is no number or out of bounds."""
    after = {} if change.default else dict(own)
    for name, text in change.texts.items():
        value = read_limit(name, text)
        least, most = LIMITS[name]
        if value is None or not least <= value <= most:
            return refusals.bad_limit(name, text.strip(), repo)
        after[name] = value
    return after


def settle(repo: str, own: Mapping[str, int], defaults: Mapping[str, int], *, changed: bool = False) -> RepoLimits:
    """What holds for a repository's boxes: its own limits where it has some, else the defaults."""
    return RepoLimits(repo, {name: own.get(name, defaults[name]) for name in LIMITS}, frozenset(own), changed)
