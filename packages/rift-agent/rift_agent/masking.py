"""Secrets taken out of what a box shows: each unbroken run of bytes that are some value of a secret becomes `***`.

A value counts whole, and so does each of its lines, where it has LEAST bytes or more. What is told does not depend on
how the bytes came: only the end of what is there is held back, and only while it could be the beginning of a value.
A part of a value, or a value in another spelling, is not masked.

It is loaded with the first secret. `re` would cost an idle box memory and look at one value after the other; here many
values cost no more than a few: words of 4 bytes, as far apart as the shortest value allows, are looked up in a set, as
each value holds one of them whole.
"""

from __future__ import annotations

from bisect import bisect_left

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Iterable, Iterator, Literal

    Span = tuple[int, int]

MASK = b"***"
LEAST = 6
FEW = 6  # so many values are looked for one by one
NEAR = 512  # the beginnings of values are compared as texts up to this length; of longer ones, their first bytes first
_ANCHOR = 64
_WIDTH = 4
_EVERY_MOST = 16
_PLACES = 10_000  # about so many words are looked for, whatever the values: each is some hundred bytes of memory
_ORDER: Literal["little", "big"] = "little" if memoryview(b"\1\0").cast("H")[0] == 1 else "big"


class Secrets:
    """The values that are masked; never changed once made."""

    def __init__(self, values: Iterable[bytes]) -> None:
        parts = set()
        for value in values:
            parts.add(value)
            parts.update(line.strip(b"\r") for line in value.split(b"\n"))
        self.parts = sorted(part for part in parts if len(part) >= LEAST)
        self.longest = max(map(len, self.parts), default=0)
        self._first = {part[0] for part in self.parts}
        self._long = [part for part in self.parts if len(part) > NEAR]
        # The few shortest, which would have every word be looked at, are looked for one by one.
        shortest = sorted(self.parts, key=len)
        few, many = shortest[:FEW], shortest[FEW:]
        if many:
            every = _every(many)
            self._single = [part for part in few if _every([part]) < every]
            self._words = _words([*few[len(self._single) :], *many], every)
        else:
            self._single, self._words = few, []

    @property
    def sought(self) -> int:
        """How many words are kept to find the values by."""
        return sum(len(words.keys) for words in self._words)

    def spans(self, data: bytes) -> list[Span]:
        """Where `data` holds values: in order, those that overlap as one."""
        found = [span for part in self._single if part in data for span in _occurrences(data, part)]
        for words in self._words:
            found += words.spans(data)
        if len(found) < 2:
            return found
        found.sort()
        merged = [found[0]]
        for start, end in found[1:]:
            if start < merged[-1][1]:
                merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
            else:
                merged.append((start, end))
        return merged

    def pending(self, data: bytes) -> int:
        """Where the longest end of `data` begins that is the beginning of a value, and not all of it; else its size."""
        size = len(data)
        found = size
        for part in self._long:
            at = data.find(part[:_ANCHOR], max(0, size - len(part) + 1), found)
            while 0 <= at < found:
                if part.startswith(data[at:]):
                    found = at
                at = data.find(part[:_ANCHOR], at + 1, found)
        for at in range(max(0, size - min(self.longest - 1, NEAR)), found):
            if data[at] in self._first and self._begins(data[at:]):
                return at
        return found

    def _begins(self, text: bytes) -> bool:
        index = bisect_left(self.parts, text)
        if index < len(self.parts) and self.parts[index] == text:
            index += 1
        return index < len(self.parts) and self.parts[index].startswith(text)

    def whole(self, data: bytes) -> bytes:
        """All of `data`, masked."""
        mask = Mask(self)
        return mask.feed(data) + mask.flush()

    def text(self, text: str) -> str:
        """The same of a text."""
        return self.whole(text.encode("utf-8", "surrogateescape")).decode("utf-8", "surrogateescape")

    def names(self, host: str) -> bool:
        """Whether a name, which is told in lower case, holds a value."""
        name = host.lower().encode("utf-8", "replace")
        return any(part.lower() in name for part in self.parts)


def _every(parts: list[bytes]) -> int:
    """How far apart the words may be, in words, of which each of these holds one whole, the shortest first; 0: not even
    each aligned word is enough. 7 bytes hold one of every word, 11 one of every second, and so on.
    """
    held = (len(parts[0]) - _WIDTH + 1) // _WIDTH
    return min(held, max(1, min(_EVERY_MOST, _PLACES // (_WIDTH * len(parts)))))


def _words(parts: list[bytes], every: int) -> list[_Words]:
    """What looks for many values. Six bytes hold a word that begins at an even place."""
    if every:
        return [_Words(parts, 0, _WIDTH * every, every)]
    return [_Words(parts, 0, 2, 1), _Words(parts, 2, 2, 1)]


class _Words:
    """Many values at once: each holds, at one of its first `ways` places, one of the words of the data: of those that
    begin at `shift`, each `every`th.
    """

    def __init__(self, parts: list[bytes], shift: int, ways: int, every: int) -> None:
        self._shift, self._every = shift, every
        # word → where in a value it stands, and how long that is → the values
        self._found: dict[int, dict[Span, set[bytes]]] = {}
        for part in sorted(parts, key=len, reverse=True):
            for at in range(ways):
                word = int.from_bytes(part[at : at + _WIDTH], _ORDER)
                self._found.setdefault(word, {}).setdefault((at, len(part)), set()).add(part)
        self.keys = set(self._found)

    def spans(self, data: bytes) -> Iterable[Span]:
        """Where values begin, each with where the longest of them there ends."""
        usable = (len(data) - self._shift) // _WIDTH * _WIDTH
        if usable <= 0:
            return ()
        words = memoryview(data)[self._shift : self._shift + usable].cast("I")[:: self._every]
        if self.keys.isdisjoint(words):
            return ()
        ends: dict[int, int] = {}
        apart = _WIDTH * self._every
        for index, word in [(index, word) for index, word in enumerate(words) if word in self.keys]:
            for (at, length), parts in self._found[word].items():
                start = self._shift + index * apart - at
                if start >= 0 and start not in ends and data[start : start + length] in parts:
                    ends[start] = start + length
        return ends.items()


class Mask:
    """One stream of bytes, masked as it comes. `secrets` may be replaced by one of more values meanwhile."""

    __slots__ = ("_covered", "_held", "secrets")

    def __init__(self, secrets: Secrets) -> None:
        self.secrets = secrets
        self._held = b""
        self._covered = 0  # bytes of what is held that belong to a value whose mask was told

    def feed(self, data: bytes) -> bytes:
        """What may be shown after these bytes came."""
        if self._held:
            data = self._held + data
        return self._cut(data, self.secrets.pending(data))

    def flush(self) -> bytes:
        """What was held back: nothing comes after it."""
        return self._cut(self._held, len(self._held))

    def _cut(self, data: bytes, upto: int) -> bytes:
        """What may be shown of the bytes before `upto`; those after it are held."""
        spans = self.secrets.spans(data)
        end = self._covered
        if not spans and not end and upto == len(data):
            self._held = b""
            return data
        shown: list[bytes] = []
        for start, stop in spans:
            if start >= upto:
                break
            if start >= end:
                shown += (data[end:start], MASK)
            end = max(end, stop)
        if end < upto:
            shown.append(data[end:upto])
            end = upto
        self._held, self._covered = data[upto:], end - upto
        return b"".join(shown)


def _occurrences(data: bytes, part: bytes) -> Iterator[Span]:
    """Where a value stands in `data`: those that overlap as one."""
    start = data.find(part)
    while start >= 0:
        at, end = start, start + len(part)
        while (more := data.rfind(part, at + 1, end + len(part) - 1)) >= 0:
            at, end = more, more + len(part)
        yield start, end
        start = data.find(part, end)
