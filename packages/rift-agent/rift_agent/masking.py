"""Secrets taken out of what a box shows: each unbroken run of bytes that are some value of a secret becomes `***`.

A value counts whole, and so does each of its lines, where it has LEAST bytes or more. What is told does not depend on
how the bytes came: only the end of what is there is held back, and only while it could be the beginning of a value.
A part of a value, or a value in another spelling, is not masked.

It is loaded with the first secret. `re` would cost an idle box memory and look at one value after the other; here many
values cost no more than a few: words of 4 or 8 bytes are looked up in a set, as each value holds some of them whole.
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
_SURE = 15
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
        # 15 bytes hold a whole aligned word of 8, 7 one of 4, and 6 a word of 4 that begins at an even place.
        self._single: list[bytes] = []
        self._words: list[_Words] = []
        short = [part for part in self.parts if len(part) == LEAST]
        longer = [part for part in self.parts if LEAST < len(part) < _SURE]
        longest = [part for part in self.parts if len(part) >= _SURE]
        self._look_for(short, _Words(short, "I", 0, 2), _Words(short, "I", 2, 2))
        self._look_for(longer, _Words(longer, "I", 0, 4))
        self._look_for(longest, _Words(longest, "Q", 0, 8))

    def _look_for(self, parts: list[bytes], *words: _Words) -> None:
        if len(parts) <= FEW:
            self._single += parts
        else:
            self._words += words

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


class _Words:
    """Many values at once: each holds, at one of its first `ways` places, one of the words that the data is read as
    from `shift` on.
    """

    def __init__(self, parts: list[bytes], kind: Literal["I", "Q"], shift: int, ways: int) -> None:
        width = 8 if kind == "Q" else 4
        self._kind, self._shift, self._width = kind, shift, width
        # word → where in a value it stands, and how long that is → the values
        self._found: dict[int, dict[Span, set[bytes]]] = {}
        for part in parts:
            for at in range(ways):
                word = int.from_bytes(part[at : at + width], _ORDER)
                self._found.setdefault(word, {}).setdefault((at, len(part)), set()).add(part)
        self._keys = set(self._found)

    def spans(self, data: bytes) -> Iterator[Span]:
        usable = (len(data) - self._shift) // self._width * self._width
        if usable <= 0:
            return
        words = memoryview(data)[self._shift : self._shift + usable].cast(self._kind)
        if self._keys.isdisjoint(words):
            return
        for index, word in [(index, word) for index, word in enumerate(words) if word in self._keys]:
            for (at, length), parts in self._found[word].items():
                start = self._shift + index * self._width - at
                if start >= 0 and data[start : start + length] in parts:
                    yield start, start + length


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
