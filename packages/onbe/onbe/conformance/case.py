"""What a case is, and the list of them all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from onbe.conformance.bench import Bench

Check = Callable[["Bench"], None]
When = Literal["first", "whenever", "last"]


class Failed(Exception):
    """The server does not do what it should. The text is a sentence for the tester; no credential is in it."""


class NotRun(Exception):
    """The case needs what is not there. The text says what."""


@dataclass(frozen=True, slots=True)
class Case:
    """One check of the server."""

    name: str
    sentence: str
    """What the server does when it is right."""
    check: Check
    module: str
    """Where it is declared."""
    when: When = "whenever"
    """`first`: it ends what the person has open, and would disturb the others; `last`: it waits for a task to end."""


CASES: dict[str, Case] = {}
"""By name."""


def case(sentence: str, *, when: When = "whenever") -> Callable[[Check], Check]:
    """Declare a case, whose name is the function's."""

    def declared(check: Check) -> Check:
        add(check.__name__.replace("_", "-"), sentence, check, when, module=check.__module__)
        return check

    return declared


def add(name: str, sentence: str, check: Check, when: When = "whenever", *, module: str) -> None:
    """Declare a case by its parts. Raises ValueError on a name used twice."""
    if name in CASES:
        raise ValueError(f"two cases are called {name}")
    CASES[name] = Case(name, sentence, check, module, when)


def expect(holds: object, otherwise: str) -> None:
    """Raise Failed unless something holds."""
    if not holds:
        raise Failed(otherwise)
