"""What a change of limits comes to, from plain values."""

from __future__ import annotations

import re
from collections.abc import Mapping

from keel.refusal import Refusal
from rift.limits import refusals
from rift.limits.model import SIZES, UNITS, Change, RepoLimits
from rift.names import LIMITS


def read_limit(name: str, text: str) -> int | None:
    """The value that a text means: a whole number, of bytes also with a unit as in `1.5GiB`; None where it is none."""
    found = re.fullmatch(r"(\d{1,20})(\.\d{1,6})?\s*([A-Za-z]*)", text.strip(), re.ASCII)
    if found is None:
        return None
    unit = UNITS.get(found[3].upper())
    if name not in SIZES:
        return None if found[2] or found[3] else int(found[1])
    if unit is None or (found[2] and unit == 1):
        return None
    return int(found[1]) * unit + int(float(found[2] or 0) * unit)


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
