"""Finding words in the pages: plain matching over headings and texts, small enough to look at all of it each time."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from rift.wire.docs import pages, render

ASKED_MOST = 200
"""So many characters of a question are looked at."""
WORDS_MOST = 8
FOUND_MOST = 30
AROUND = 90
"""Characters shown before and after the first word that was found."""


@dataclass(frozen=True, slots=True)
class Found:
    """A section in which every word stands: where, under which title, and some of its text, cut into words that were
    asked for (`True`) and what is between them."""

    address: str
    page: str
    title: str
    parts: tuple[tuple[str, bool], ...]


@dataclass(frozen=True, slots=True)
class _Place:
    address: str
    page: str
    title: str
    text: str
    head: str
    body: str


def search(asked: str) -> list[Found]:
    """The sections that hold every word of `asked`, those with it in their heading first."""
    words = list(dict.fromkeys(asked[:ASKED_MOST].casefold().split()))[:WORDS_MOST]
    if not words:
        return []
    scored = []
    for number, place in enumerate(_places()):
        if all(word in place.head or word in place.body for word in words):
            score = sum(5 * (word in place.head) + min(place.body.count(word), 3) for word in words)
            scored.append((-score, number, place))
    return [_found(place, words) for _, _, place in sorted(scored, key=lambda one: one[:2])[:FOUND_MOST]]


@cache
def _places() -> tuple[_Place, ...]:
    return tuple(_all())


def _all() -> Iterator[_Place]:
    for one in pages.listed():
        made = render.page(one.name)
        for section in made.sections if made else ():
            anchor = f"#{section.anchor}" if section.level > 1 else ""
            title = section.title if section.level > 1 else one.title
            yield _Place(
                f"/docs/{one.name}{anchor}", one.title, title, section.text,
                f"{one.title} {section.title}".casefold(), section.text.casefold(),
            )  # fmt: skip


def _found(place: _Place, words: list[str]) -> Found:
    pattern = re.compile("|".join(re.escape(word) for word in sorted(words, key=len, reverse=True)), re.IGNORECASE)
    first = pattern.search(place.text)
    start = max(0, first.start() - AROUND) if first else 0
    end = first.end() + AROUND if first else 2 * AROUND
    cut = place.text[start:end]
    parts: list[tuple[str, bool]] = [("… ", False)] if start else []
    at = 0
    for match in pattern.finditer(cut):
        parts += [(cut[at : match.start()], False), (match[0], True)]
        at = match.end()
    parts.append((cut[at:] + (" …" if end < len(place.text) else ""), False))
    return Found(place.address, place.page, place.title, tuple(part for part in parts if part[0]))
