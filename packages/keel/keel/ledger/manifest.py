"""What an archive of a month holds, and the signed word that it was made. Pure.

A month's records are not one piece of the chain: what was written around midnight may be sealed before or after what
the next month began with. So an archive names its positions, in runs.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

from keel.ledger.canonical import Row, instant, jcs
from keel.ledger.checkpoint import BadFile

TYPE = "keel.archive"
_RUN = re.compile(r"([1-9][0-9]{0,18})-([1-9][0-9]{0,18})")
ACTION = "ledger.archived"
"""The action of the record that an archive was made."""
VIA = "cli"
"""The `via` of that record: the archiving is a command of the owner's."""


def month_of(at: datetime) -> str:
    """The month that an instant is in, in UTC: `2026-11`."""
    return f"{at.astimezone(UTC):%Y-%m}"


def bounds(month: str) -> tuple[datetime, datetime]:
    """When a month begins, and when the next one does. Raises ValueError on what is no month."""
    year, _, number = month.partition("-")
    if not (len(year) == 4 and len(number) == 2 and year.isdecimal() and number.isdecimal() and month.isascii()):
        raise ValueError("a month is written as 2026-11")
    since = datetime(int(year), int(number), 1, tzinfo=UTC)
    after = (since.year + 1, 1) if since.month == 12 else (since.year, since.month + 1)
    return since, datetime(*after, 1, tzinfo=UTC)


class Positions:
    """Positions of the ledger, ascending, as runs: `1-7,9-23`."""

    def __init__(self, runs: list[tuple[int, int]] | None = None) -> None:
        self._firsts = [first for first, _ in runs or ()]
        self._lasts = [last for _, last in runs or ()]

    def add(self, position: int) -> None:
        """Add one behind all others. Raises ValueError where it is not."""
        if self._lasts and position <= self._lasts[-1]:
            raise ValueError("positions ascend")
        if self._lasts and position == self._lasts[-1] + 1:
            self._lasts[-1] = position
        else:
            self._firsts.append(position)
            self._lasts.append(position)

    def __contains__(self, position: int) -> bool:
        run = bisect_right(self._firsts, position) - 1
        return run >= 0 and position <= self._lasts[run]

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return iter(zip(self._firsts, self._lasts, strict=True))

    def __len__(self) -> int:
        return sum(last - first + 1 for first, last in self)

    def __str__(self) -> str:
        return ",".join(f"{first}-{last}" for first, last in self)


def positions(text: str) -> Positions:
    """Positions from their text. Raises BadFile on what is none, or not in the one way of writing it."""
    runs, before = [], -1
    for run in text.split(","):
        found = _RUN.fullmatch(run)
        if found is None:
            raise BadFile("it does not say which positions it holds")
        first, last = int(found[1]), int(found[2])
        if not before + 1 < first <= last:
            raise BadFile("its positions are not in order")
        runs.append((first, last))
        before = last
    return Positions(runs)


@dataclass(frozen=True, slots=True)
class Content:
    """What an archive holds: a month's records, by their positions, and the root over their leaves in that order."""

    month: str
    positions: str
    count: int
    root: bytes

    def told(self) -> dict[str, Any]:
        """Its members as JSON holds them."""
        return {**asdict(self), "root": self.root.hex()}

    def body(self, key: str) -> bytes:
        """The bytes that are signed at the end of the file, with that key's id."""
        return jcs({**self.told(), "key": key, "type": f"{TYPE}.content", "v": 1})


def content(told: object) -> Content:
    """The content from what a file says. Raises BadFile."""
    try:
        assert isinstance(told, Mapping)
        month, where, count, root = told["month"], told["positions"], told["count"], bytes.fromhex(told["root"])
        bounds(month)
        if not isinstance(count, int) or len(positions(where)) != count or len(root) != 32:
            raise ValueError
        return Content(month, where, count, root)
    except (AssertionError, KeyError, TypeError, ValueError, AttributeError, OverflowError):
        raise BadFile("it does not say what it holds") from None


@dataclass(frozen=True, slots=True)
class Manifest:
    """The word of the ledger's key that a month went to a file, and as which record that was written down."""

    content: Content
    at: datetime
    file_sha256: bytes
    record: int
    """The seq of the record `ledger.archived`, which is sealed like any other."""
    key: str
    signature: bytes = b""

    @property
    def body(self) -> bytes:
        """The bytes that are signed."""
        return jcs({
            **self.content.told(), "at": instant(self.at), "file_sha256": self.file_sha256.hex(), "key": self.key,
            "record": self.record, "type": TYPE, "v": 1,
        })  # fmt: skip

    @property
    def facts(self) -> dict[str, Any]:
        """What its record says: enough that no other manifest fits it."""
        told = self.content.told()
        told["positions_sha256"] = sha256(told.pop("positions").encode()).hexdigest()
        return {**told, "file_sha256": self.file_sha256.hex()}

    @property
    def row(self) -> Row:
        """Its record, to the letter: what it must be, whether it is in the ledger or in an archive by now."""
        ordered = sorted(self.facts.items(), key=lambda one: (len(one[0]), one[0]))  # as Postgres writes its jsonb
        arguments = ", ".join(f"{json.dumps(name)}: {json.dumps(value)}" for name, value in ordered)
        return Row(self.record, self.at, None, VIA, ACTION, None, None, "ok", 0, f"{{{arguments}}}", None)
