from __future__ import annotations

import inspect
from datetime import timedelta

import psycopg
import pytest

from keel.clock import Clock, SystemClock
from keel.ids import ALPHABET, Ids, SystemIds
from keel.testing import FakeClock, FakeIds, eventually
from keel.testing.plugin import FreshDatabase

CLOCKS: list[Clock] = [SystemClock(), FakeClock()]
GENERATORS: list[Ids] = [SystemIds(), FakeIds()]


@pytest.mark.parametrize("clock", CLOCKS)
def test_a_clock_gives_aware_utc_instants_and_never_goes_back(clock: Clock) -> None:
    first, second = clock.now(), clock.now()
    assert first.utcoffset() == timedelta(0)
    assert first <= second
    assert clock.monotonic() <= clock.monotonic()


def test_a_fake_clock_moves_only_when_told() -> None:
    clock = FakeClock()
    before, mono = clock.now(), clock.monotonic()
    assert clock.now() == before
    assert clock.advance(90) == before + timedelta(seconds=90)
    clock.advance(timedelta(hours=1))
    assert (clock.now() - before).total_seconds() == clock.monotonic() - mono == 3690


def test_a_fake_clock_refuses_to_go_back_unless_set() -> None:
    clock = FakeClock()
    with pytest.raises(ValueError, match="does not go back"):
        clock.advance(-1)
    mono = clock.monotonic()
    clock.set(clock.now() - timedelta(hours=1))
    assert clock.monotonic() == mono


def test_who_moves_a_fake_clock_to_an_instant_gets_there() -> None:
    clock = FakeClock()
    wake = clock.monotonic() + 1.0000004
    for _ in range(3):
        if clock.monotonic() < wake:
            clock.advance(wake - clock.monotonic())
    assert clock.monotonic() >= wake


@pytest.mark.parametrize("ids", GENERATORS)
def test_identifiers_have_their_length_and_alphabet_and_do_not_repeat(ids: Ids) -> None:
    assert len(ids.token()) == 43
    assert len(ids.hex()) == 24
    assert len(ids.hex(7)) == 7
    assert set(ids.short(200)) <= set(ALPHABET)
    assert len({ids.token() for _ in range(100)}) == 100


def test_fake_identifiers_are_the_same_for_the_same_seed() -> None:
    assert FakeIds("a").token() == FakeIds("a").token() != FakeIds("b").token()


async def test_eventually_gives_the_first_true_answer() -> None:
    answers = iter([None, 0, "yes"])

    async def ask() -> object:
        return next(answers)

    assert await eventually(ask) == "yes"
    assert await eventually(lambda: 7) == 7


async def test_eventually_tells_the_last_answer_when_time_is_up() -> None:
    with pytest.raises(AssertionError, match=r"not within 0\.02 s.*the last answer was 0"):
        await eventually(lambda: 0, within=0.02)


async def test_eventually_counts_a_failed_assertion_as_not_yet() -> None:
    seen: list[int] = []

    def look() -> bool:
        seen.append(1)
        assert len(seen) > 2, "too few"
        return True

    assert await eventually(look)


@pytest.mark.parametrize("turn", [1, 2])
def test_each_test_has_a_database_of_its_own(database: FreshDatabase, turn: int) -> None:
    with psycopg.connect(database.owner) as connection:
        connection.execute("CREATE TABLE only_here (turn integer)")
        connection.execute("INSERT INTO only_here VALUES (%s)", (turn,))
        assert connection.execute("SELECT turn FROM only_here").fetchall() == [(turn,)]


def test_the_two_roles_of_a_database_are_two(database: FreshDatabase) -> None:
    for url, role in ((database.owner, "rift_owner"), (database.runtime, "rift_runtime")):
        with psycopg.connect(url) as connection:
            assert connection.execute("SELECT current_user").fetchone() == (role,)


@pytest.mark.parametrize(("protocol", "kinds"), [(Clock, (SystemClock, FakeClock)), (Ids, (SystemIds, FakeIds))])
def test_a_fake_has_the_signatures_of_the_real_one(protocol: type, kinds: tuple[type, ...]) -> None:
    names = [name for name in vars(protocol) if not name.startswith("_")]
    for kind in kinds:
        for name in names:
            assert inspect.signature(getattr(kind, name)) == inspect.signature(getattr(protocol, name))
