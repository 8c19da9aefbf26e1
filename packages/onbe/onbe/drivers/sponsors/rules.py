"""The arithmetic in front of a directory, pure: when an answer serves again, when a failing directory is left alone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

FAILURES = 5
"""So many failures of the directory in a row open the circuit."""
OPEN_SECONDS = 5.0
"""So long nothing is asked then, in seconds."""


@dataclass(frozen=True, slots=True)
class Moment:
    """One instant on both clocks: the wall's, and the monotonic one in seconds."""

    wall: datetime
    monotonic: float


def serves(asked: Moment, now: Moment, no_older_than: datetime) -> bool:
    """Whether an answer to a question that was sent at `asked` is young enough.

    A wall clock that was set back must make no answer younger than it is, so the monotonic age counts too.
    """
    age = now.monotonic - asked.monotonic
    return asked.wall >= no_older_than and age <= (now.wall - no_older_than).total_seconds()


@dataclass(frozen=True, slots=True)
class Circuit:
    """Closed: everybody asks. Open: nobody, until `until`; then one probes. `life` counts openings and closings."""

    failures: int = 0
    people: frozenset[str] = frozenset()
    """Whose questions are among these failures: what fails for one person is counted once."""
    until: float | None = None
    """Monotonic seconds; None while it is closed."""
    probing: bool = False
    life: int = 0


def admit(circuit: Circuit, now: float) -> tuple[Circuit, bool]:
    """Whether one more question may be sent at `now`, and the circuit after that."""
    if circuit.until is None:
        return circuit, True
    if circuit.probing or now < circuit.until:
        return circuit, False
    return replace(circuit, probing=True), True


def answered(circuit: Circuit, life: int) -> Circuit:
    """The directory answered a question that was admitted in that `life`, however odd the answer is.

    What was asked before the circuit opened tells nothing of how the directory is now.
    """
    return circuit if life != circuit.life else Circuit(life=circuit.life + (circuit.until is not None))


def failed(circuit: Circuit, life: int, now: float, person: str | None) -> Circuit:
    """The directory failed at a question of that `life`: the one about `person`, or at any (None)."""
    if life != circuit.life:
        return circuit
    if circuit.until is None:
        if person in circuit.people:
            return circuit
        failures = circuit.failures + 1
        if failures < FAILURES:
            people = circuit.people if person is None else circuit.people | {person}
            return replace(circuit, failures=failures, people=people)
    return Circuit(until=now + OPEN_SECONDS, life=circuit.life + 1)


def dropped(circuit: Circuit, life: int) -> Circuit:
    """A question of that `life` was given up before it had an outcome: if it was the probe, another may be one."""
    return replace(circuit, probing=False) if life == circuit.life else circuit
