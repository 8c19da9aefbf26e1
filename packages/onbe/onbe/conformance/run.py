"""Running the cases: one after another, each on its own, and what came of each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import httpx2

from onbe.conformance import agents, office, requests, subjects, tasks
from onbe.conformance.bench import Bench
from onbe.conformance.case import CASES, Case, Failed, NotRun

MODULES = tuple(module.__name__ for module in (requests, agents, subjects, office, tasks))
"""They fill CASES when they are imported, and run in this order."""
ORDER = {"first": 0, "whenever": 1, "last": 2}

State = Literal["passed", "failed", "not run"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a case; `why`, where it did not pass."""

    case: Case
    state: State
    why: str = ""


def chosen(names: Sequence[str]) -> list[Case]:
    """The cases of these names, or those that begin with one of them; all without names. Raises KeyError."""
    for name in names:
        if not any(one.startswith(name) for one in CASES):
            raise KeyError(name)
    some = [one for name, one in CASES.items() if not names or any(name.startswith(wanted) for wanted in names)]
    return sorted(some, key=lambda one: (ORDER[one.when], MODULES.index(one.module)))


def run(bench: Bench, cases: Sequence[Case]) -> Iterator[Outcome]:
    """Run cases; agents that they registered are forgotten at the end."""
    late = any(one.when == "last" for one in cases)
    begun: tuple[State, str] | None = None
    try:
        for one in cases:
            if late and bench.short is None and begun is None and one.when != "first":
                begun = _tried(bench.begin_short)
            came = (begun if one.when == "last" else None) or _tried(partial(one.check, bench)) or ("passed", "")
            yield Outcome(one, *came)
    finally:
        bench.forget()


def _tried(act: Callable[[], None]) -> tuple[State, str] | None:
    """What came of it, unless it went well."""
    try:
        act()
    except Failed as failed:
        return "failed", str(failed)
    except NotRun as lack:
        return "not run", str(lack)
    except httpx2.HTTPError as error:
        return "failed", f"the connection failed ({type(error).__name__})"
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        return "failed", f"an answer is not of its shape ({type(error).__name__}: {error})"
    return None
