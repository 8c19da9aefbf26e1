"""What a query of the audit asks for, with everything that is wrong with it; where a page goes on. Pure."""

from __future__ import annotations

import base64
import hashlib
import re
import struct
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from onbe.records.model import By, Place, Problem, Series, Span, Wanted

PAGE_MOST = 200
SUMMED_MOST = timedelta(days=31)
"""The longest time that is summed up at once: every record of it is counted."""
SUMMED_UNASKED = timedelta(days=1)
WORD_LENGTH = 512
NUMBER_MOST = 2**62

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_PLACE = struct.Struct(">qq8s")
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_BY: Mapping[str, By] = {"agent": "agent", "sponsor": "sponsor", "reason": "reason"}

BATCH_ROWS = 500
BATCH_BYTES = 1024 * 1024
"""The most that a sink is given at once; a record that is larger goes alone."""
WAIT_LEAST, WAIT_MOST = timedelta(seconds=1), timedelta(minutes=5)
"""How long a sink that took nothing is left alone, at first and at most."""

Value = TypeVar("Value")
Query = Sequence[tuple[str, str]]
"""A query string's parameters, in their order."""


@dataclass(slots=True)
class _Reading:
    """The parameters of one query, and what is wrong with them."""

    query: Query
    known: Sequence[str]
    problems: list[Problem] = field(default_factory=list)

    def __post_init__(self) -> None:
        counted = Counter(name for name, _ in self.query)
        for name, times in counted.items():
            if name not in self.known:
                self.bad(_shown(name), f"is not a parameter; there are {', '.join(self.known)}")
            elif times > 1:
                self.bad(name, "stands there more than once")

    def bad(self, parameter: str, sentence: str) -> None:
        self.problems.append(Problem(parameter, sentence))

    def take(self, name: str, read: Callable[[str], Value | None], should: str) -> Value | None:
        """A parameter's value; None where it is absent, or wrong, which is noted."""
        given = [value for found, value in self.query if found == name]
        if len(given) != 1:
            return None
        value = read(given[0])
        if value is None:
            self.bad(name, f"should be {should}")
        return value

    def word(self, name: str) -> str | None:
        return self.take(name, _word, f"1 to {WORD_LENGTH} characters")

    def instant(self, name: str) -> datetime | None:
        return self.take(name, _instant, "an instant with its zone, such as 2026-11-30T16:20:00Z")

    def number(self, name: str, least: int, most: int) -> int | None:
        def read(text: str) -> int | None:
            plain = text.isascii() and text.isdigit() and len(text) <= 19
            return int(text) if plain and least <= int(text) <= most else None

        return self.take(name, read, f"a whole number from {least} to {most}")


def wanted(query: Query, reasons: Iterable[str]) -> Wanted | list[Problem]:
    """What a page's query asks for, or all that is wrong with it. `reasons` is the closed list of them."""
    reading = _Reading(query, ("sponsor", "agent_id", "task_id", "from", "to", "decision", "limit", "cursor"))
    known = {"allow", "deny", *reasons}
    asked = Wanted(
        sponsor=reading.word("sponsor"),
        agent=reading.word("agent_id"),
        task=reading.word("task_id"),
        since=reading.instant("from"),
        until=reading.instant("to"),
        decision=reading.take(
            "decision", lambda text: text if text in known else None, "allow, deny, or a reason of the list of reasons"
        ),
        limit=reading.number("limit", 1, PAGE_MOST) or 50,
    )
    _in_order(reading, asked.since, asked.until)
    after = reading.take(
        "cursor", lambda text: place(text, asked), "what `next` of the page before is, with the same parameters"
    )
    return reading.problems or replace(asked, after=after)


def span(query: Query, now: datetime) -> Span | list[Problem]:
    """What is to be summed up, or all that is wrong with the query: the last day, where it does not say."""
    reading = _Reading(query, ("by", "from", "to"))
    by: By | None = reading.take("by", _BY.get, "agent, sponsor or reason")
    if all(name != "by" for name, _ in query):
        reading.bad("by", "is needed: agent, sponsor or reason")
    since, until = reading.instant("from"), reading.instant("to")
    if not reading.problems:
        until = until or (now if since is None or since < now else since + SUMMED_UNASKED)
        since = since or until - SUMMED_UNASKED
        _in_order(reading, since, until)
        if until - since > SUMMED_MOST:
            reading.bad("from", f"should be at most {SUMMED_MOST.days} days before to")
    if reading.problems or by is None or since is None or until is None:
        return reading.problems
    return Span(by, since, until)


def series(query: Query) -> Series | list[Problem]:
    """Which checkpoints are asked for, or all that is wrong with the query."""
    reading = _Reading(query, ("after", "limit"))
    after, limit = reading.number("after", 0, NUMBER_MOST), reading.number("limit", 1, PAGE_MOST)
    return reading.problems or Series(after or 0, limit or 50)


def number(text: str) -> int | list[Problem]:
    """The number of a record, or that it is none."""
    reading = _Reading([("seq", text)], ("seq",))
    return reading.number("seq", 1, NUMBER_MOST) or reading.problems


# Where a page goes on


def cursor(wanted: Wanted, last: Place) -> str:
    """The name of the place after a page: opaque, and good for the same query alone."""
    at, seq = last
    micros = (at - _EPOCH) // timedelta(microseconds=1)
    packed = _PLACE.pack(micros, seq, _seal(wanted, micros, seq))
    return base64.urlsafe_b64encode(packed).decode()


def place(text: str, wanted: Wanted) -> Place | None:
    """Where a cursor says that a page goes on; None for what is no cursor of this query's.

    The seal in it is no secret: whoever makes up a cursor reads from another place on what they may read anyway. It is
    there so that one which was cut, mixed up or kept from another query is told instead of giving a wrong page.
    """
    try:
        micros, seq, seal = _PLACE.unpack(base64.b64decode(text.encode("ascii"), b"-_", validate=True))
        at = _EPOCH + timedelta(microseconds=micros)
    except (ValueError, OverflowError, struct.error):
        return None
    return (at, seq) if seal == _seal(wanted, micros, seq) and 0 < seq < NUMBER_MOST else None


def going_on(wanted: Wanted, text: str | None) -> Wanted:
    """The query, from the place of a cursor on. Raises ValueError where that is none of this query's."""
    after = None if text is None else place(text, wanted)
    if text is not None and after is None:
        raise ValueError("the cursor is not one that the same query gave")
    return replace(wanted, after=after)


def _seal(wanted: Wanted, micros: int, seq: int) -> bytes:
    asked = (wanted.sponsor, wanted.agent, wanted.task, wanted.since, wanted.until, wanted.decision, micros, seq)
    return hashlib.sha256(repr(asked).encode("utf-8", "backslashreplace")).digest()[:8]


def _in_order(reading: _Reading, since: datetime | None, until: datetime | None) -> None:
    if since is not None and until is not None and since >= until:
        reading.bad("to", "should be after from")


def _word(text: str) -> str | None:
    return text if 0 < len(text) <= WORD_LENGTH and not _UNSTORABLE.search(text) else None


def _instant(text: str) -> datetime | None:
    try:
        at = datetime.fromisoformat(text)
        utc = at.astimezone(UTC)
        return utc if at.tzinfo and 1970 <= utc.year < 9999 else None  # the calendar's ends leave no day to count
    except (ValueError, OverflowError):
        return None


def _shown(name: str) -> str:
    """A parameter's name for an answer: what a stranger typed, short and printable."""
    return "".join(letter if letter.isprintable() else "?" for letter in name[:40]) or "(no name)"


# What a sink is given


def batch(position: int, sealed: int, failures: int) -> tuple[int, int] | None:
    """The positions that come next, first and last; None where the sink has all that is sealed.

    The more deliveries in a row it did not take, the fewer records are in the next one: where one is what it stumbles
    over, that one alone is soon what waits.
    """
    most = max(1, BATCH_ROWS >> min(failures, 16))
    return None if position >= sealed else (position + 1, min(sealed, position + most))


def fitting(lines: Sequence[bytes]) -> int:
    """How many of the lines go into one delivery: at least one."""
    size = 0
    for count, line in enumerate(lines):
        size += len(line) + 1
        if size > BATCH_BYTES:
            return max(1, count)
    return len(lines)


def pause(failures: int) -> timedelta:
    """How long to wait after so many failures in a row."""
    return min(WAIT_MOST, WAIT_LEAST * (1 << max(0, min(failures - 1, 16))))
