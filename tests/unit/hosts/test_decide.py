"""What a host can hold, by what its worker said last."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from rift.hosts.decide import decide_most, decide_shortage, decide_state
from rift.hosts.model import HostState, Reserves, Shortage
from rift.names import HOST_HEARD

NOW = datetime(2026, 3, 4, 12, 0, 0, tzinfo=UTC)
GIB = 2**30


def state(
    disk: int = 100 * GIB, memory: int = 10 * GIB, total: int = 24 * GIB, age: timedelta | None = None
) -> HostState:
    return HostState(NOW - (age or timedelta(0)), disk, memory, total)


@pytest.mark.parametrize(
    ("age", "believed"),
    [(timedelta(0), True), (HOST_HEARD, True), (HOST_HEARD + timedelta(microseconds=1), False)],
)
def test_an_old_report_is_not_believed(age: timedelta, believed: bool) -> None:
    assert (decide_state(state(age=age), NOW) is not None) == believed
    assert decide_state(None, NOW) is None


@pytest.mark.parametrize(
    ("disk", "memory", "short"),
    [
        (2 * GIB, GIB, None),
        (2 * GIB - 1, GIB, Shortage((2 * GIB - 1, 2 * GIB), None)),
        (2 * GIB, GIB - 1, Shortage(None, (GIB - 1, GIB))),
        (0, 0, Shortage((0, 2 * GIB), (0, GIB))),
    ],
)
def test_a_host_is_short_of_what_falls_below_its_reserve(disk: int, memory: int, short: Shortage | None) -> None:
    assert decide_shortage(state(disk, memory), Reserves(2 * GIB, GIB)) == short


def test_where_nobody_knows_the_host_nothing_is_held_up() -> None:
    assert decide_shortage(None, Reserves(2 * GIB, GIB)) is None
    assert decide_most(None, None) is None


@pytest.mark.parametrize(
    ("most", "total", "holds"), [(None, 24 * GIB, 96), (None, GIB, 8), (3, 24 * GIB, 3), (500, GIB, 500)]
)
def test_a_host_holds_what_is_set_or_what_its_memory_allows(most: int | None, total: int, holds: int) -> None:
    assert decide_most(most, state(total=total)) == holds
