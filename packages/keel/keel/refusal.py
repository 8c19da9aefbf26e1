"""Refusals: a closed catalogue of values that say what was refused and which call mends it.

A refusal is returned, not raised, so that its audit row commits with the transaction that decided it.
Each noun's `refusals.py` declares its kinds with `kind(...)`; only `wire/refusals.py` turns one into an answer.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from string import Formatter

LINE_BREAKS = {0x85: "\\u0085", 0x2028: "\\u2028", 0x2029: "\\u2029"}
"""Line breaks that JSON allows inside a string as they are."""
YOUR_HANDLE = "<your handle>"
"""Stands in every mend where a handle goes: a handle is never repeated."""


@dataclass(frozen=True, slots=True)
class Call:
    """A tool to call, with its arguments filled in."""

    tool: str
    arguments: Mapping[str, object] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """On one line, as `rift_vm_ls {"task": "<your handle>"}`: keys in the order given, no line breaks."""
        return f"{self.tool} {json.dumps(dict(self.arguments), ensure_ascii=False).translate(LINE_BREAKS)}"


@dataclass(frozen=True, slots=True)
class Ask:
    """A person to ask: their role, and what they do (a page or a command)."""

    role: str
    page: str


@dataclass(frozen=True, slots=True)
class Retry:
    """The same call again, after so many seconds."""

    after: float


@dataclass(frozen=True, slots=True)
class Stop:
    """Nothing mends it: do not try again."""


Mend = Call | Ask | Retry | Stop


@dataclass(frozen=True, slots=True)
class Refusal:
    """One refusal: `code` of the catalogue, the facts of its sentence, its mends, and what the person must hear."""

    code: str
    facts: Mapping[str, object]
    mends: tuple[Mend, ...]
    note: str | None = None
    pattern: str = field(default="", repr=False)
    """The catalogue's sentence, with the places of its facts."""

    @property
    def sentence(self) -> str:
        """The catalogue's sentence with this refusal's facts in it."""
        return self.pattern.format_map(dict(self.facts))


@dataclass(frozen=True, slots=True)
class Kind:
    """An entry of the catalogue. Called with mends and facts, it makes a refusal."""

    code: str
    sentence: str

    @property
    def facts(self) -> frozenset[str]:
        """The names that the sentence needs."""
        return frozenset(name for _, name, _, _ in Formatter().parse(self.sentence) if name)

    def __call__(self, *mends: Mend, note: str | None = None, **facts: object) -> Refusal:
        """A refusal of this kind. Raises TypeError when a fact is missing or unknown, or no mend is given."""
        if self.facts != facts.keys():
            raise TypeError(f"{self.code} takes the facts {sorted(self.facts)}, got {sorted(facts)}")
        if not mends:
            raise TypeError(f"{self.code} needs at least one mend")
        return Refusal(self.code, facts, mends, note, self.sentence)


CATALOGUE: dict[str, Kind] = {}
"""Every kind of refusal of Rift's, by code. Filled when the nouns' `refusals.py` are imported."""


def kind(code: str, sentence: str, catalogue: dict[str, Kind] = CATALOGUE) -> Kind:
    """Declare a kind of refusal in a catalogue, each product's its own. `sentence` is a format string over named facts.

    Raises ValueError on a code used twice in it.
    """
    if code in catalogue:
        raise ValueError(f"the refusal code {code} is declared twice")
    entry = Kind(code, sentence)
    catalogue[code] = entry
    return entry
