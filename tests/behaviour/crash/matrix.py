"""The crash matrix: a recording of every boundary, and a cell for each."""

from __future__ import annotations

import asyncio
import itertools
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from tests.behaviour.crash.cells import Plant
from tests.behaviour.crash.points import KEPT_COUNTS
from tests.behaviour.crash.scenario import PHASES, Client


@dataclass(frozen=True)
class Recording:
    """Boundaries in the order they were reached, each with a phase of the play in which it comes first.

    `steady` are those that each run reached.
    """

    phases: Mapping[str, str]
    steady: frozenset[str]

    @property
    def names(self) -> tuple[str, ...]:
        """All of them."""
        return tuple(self.phases)

    def cells(self, names: Iterable[str]) -> list[dict[str, str]]:
        """A play for each, with one kill."""
        return [{self.phases[name]: name} for name in names]

    def packed(self, names: Iterable[str]) -> list[dict[str, str]]:
        """As few plays as there can be, each with at most one kill a phase."""
        waiting: dict[str, list[str]] = {phase: [] for phase in PHASES}
        for name in names:
            waiting[self.phases[name]].append(name)
        rounds = max(map(len, waiting.values()))
        return [{phase: listed[n] for phase, listed in waiting.items() if n < len(listed)} for n in range(rounds)]

    def part(self) -> list[str]:
        """One boundary of each class: process, function and effect. Of those that are steady.

        Each is taken where the fewest others are, so that few plays hold them all. Mostly after the effect, which is
        when it has to be known or undone; every fifth before it.
        """
        of: dict[str, list[str]] = {}
        for name in self.names:
            if name in self.steady:
                of.setdefault(class_of(name), []).append(name)
        taken: dict[str, list[str]] = {phase: [] for phase in PHASES}
        for number, names in enumerate(of.values()):
            moment = "before" if number % 5 == 4 else "after"
            fit = [name for name in names if name.endswith(moment)] or names
            best = min(fit, key=lambda name: len(taken[self.phases[name]]))
            taken[self.phases[best]].append(best)
        return list(itertools.chain.from_iterable(taken.values()))


@dataclass(frozen=True)
class Outcome:
    """Of one cell: where it was killed, and what was wrong afterwards ("" for nothing)."""

    targets: tuple[str, ...]
    missed: tuple[str, ...]
    wrong: str


async def record(plant: Plant, times: int = 3) -> Recording:
    """Play without a kill, and note what is reached."""
    runs = []
    for _ in range(times):
        async with plant.cell() as cell:
            await Client(cell).play({})
            runs.append({name: phase for name, phase in cell.recorded().items() if phase in PHASES})
    phases: dict[str, str] = {}
    for run in runs:
        # What comes once, by a clock, is waited for from where it was met earliest: later it may be over.
        phases |= {name: min(phase, phases.get(name, phase), key=PHASES.index) for name, phase in run.items()}
    return Recording(phases, frozenset(set.intersection(*map(set, runs))))


def class_of(name: str) -> str:
    """What a boundary is, whenever it comes and for whatever: without its phase, operation, count and moment."""
    process, _, where, effect = name.split(" | ")[1:5]
    return " | ".join([process, where, effect.removesuffix(f" {KEPT_COUNTS}")])


async def play(plant: Plant, targets: dict[str, str], *, again: int = 2) -> Outcome:
    """One cell. It never raises: what went wrong is told. A boundary that was not reached gets another cell, alone."""
    wrong, missed = "", []
    try:
        async with plant.cell() as cell:
            missed = await Client(cell).play(targets)
    except Exception:
        wrong = traceback.format_exc()
    for phase, target in targets.items():
        if target not in missed or not again:
            continue
        alone = await play(plant, {phase: target}, again=again - 1)
        wrong += alone.wrong
        if not alone.missed:
            missed.remove(target)
    return Outcome(tuple(targets.values()), tuple(missed), wrong)


async def run(
    plant: Plant, cells: Sequence[dict[str, str]], *, at_once: int = 3, told: Callable[[Outcome], None] = lambda _: None
) -> list[Outcome]:
    """Every cell, some at once, as they mostly wait."""
    waiting, done = list(reversed(cells)), []

    async def work() -> None:
        while waiting:
            outcome = await play(plant, waiting.pop())
            done.append(outcome)
            told(outcome)

    await asyncio.gather(*(work() for _ in range(at_once)))
    return done
