"""What is told of the proxy's refusals, and that a jail cannot make it much."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from tests.conformance.agent.boxes import eventually

from rift_agent.refused import BACKLOG, DISTINCT, Refused

Event = dict[str, Any]


class Ledger:
    """A tally whose minute ends when the test says so; `untaken` is what the control plane has not taken."""

    def __init__(self) -> None:
        self.told: list[Event] = []
        self.untaken = 0
        self._ends = threading.Semaphore(0)
        self._minutes = 0
        self.refused = Refused(self.told.append, lambda: self.untaken, self._pause)

    def _pause(self, seconds: float) -> None:
        self._minutes += 1
        assert self._ends.acquire(timeout=20)

    def minute(self) -> None:
        """Ends the minute that runs, and waits until another runs or the tally has nothing left."""
        begun = eventually(lambda: self._minutes)
        self._ends.release()
        eventually(lambda: self._minutes > begun or not self.refused._open)
        self._minutes = self._minutes if self.refused._open else 0


def said(event: Event) -> tuple[str, int, str, int]:
    return (event["host"], event["port"], event["why"], event["count"])


def test_the_first_refusal_of_a_kind_is_told_at_once_and_the_rest_as_one_number() -> None:
    ledger = Ledger()
    for _ in range(1000):
        ledger.refused.note("a.example", 443, "not_listed")
    ledger.refused.note("a.example", 22, "bad_port")
    assert [said(one) for one in ledger.told] == [("a.example", 443, "not_listed", 1), ("a.example", 22, "bad_port", 1)]
    ledger.minute()
    assert said(ledger.told[2]) == ("a.example", 443, "not_listed", 999)
    assert [one["n"] for one in ledger.told] == [1, 2, 3]


def test_a_million_hosts_are_a_few_events_and_a_number() -> None:
    ledger = Ledger()
    for number in range(1_000_000):
        ledger.refused.note(f"{number}.example", 443, "not_listed")
    assert len(ledger.told) == DISTINCT
    assert len(ledger.refused._again) == DISTINCT  # and nothing of the others is kept
    ledger.minute()
    assert said(ledger.told[-1]) == ("", 0, "others", 1_000_000 - DISTINCT)


def test_while_the_control_plane_takes_nothing_refusals_wait_as_one_number() -> None:
    ledger = Ledger()
    ledger.untaken = BACKLOG
    for _ in range(3):
        for number in range(50):
            ledger.refused.note(f"{number}.example", 443, "not_listed")
        ledger.minute()
    assert ledger.told == []
    ledger.untaken = 0
    ledger.minute()
    assert said(ledger.told[0]) == ("", 0, "others", 150)


def test_after_a_quiet_minute_a_kind_is_told_at_once_again() -> None:
    ledger = Ledger()
    for count in range(1, 4):
        ledger.refused.note("a.example", 443, "not_listed")
        assert [said(one) for one in ledger.told] == [("a.example", 443, "not_listed", 1)] * count
        ledger.minute()


@pytest.mark.parametrize("threads", [8])
def test_of_refusals_counted_by_many_threads_none_is_lost(threads: int) -> None:
    ledger = Ledger()

    def ask() -> None:
        for number in range(500):
            ledger.refused.note(f"{number % 40}.example", 443, "not_listed")

    running = [threading.Thread(target=ask) for _ in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join(20)
    ledger.minute()
    assert sum(one["count"] for one in ledger.told) == 500 * threads
    assert [one["n"] for one in ledger.told] == list(range(1, len(ledger.told) + 1))
