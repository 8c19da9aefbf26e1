"""The cache and the circuit in front of a directory that a test answers for."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

import pytest
from structlog.testing import capture_logs

from keel.clock import SystemClock
from keel.testing import FakeClock, eventually
from onbe.drivers.sponsors.cached import CachedDirectory
from onbe.drivers.sponsors.circuit import CircuitBreaker
from onbe.drivers.sponsors.fake import FakeSponsors
from onbe.drivers.sponsors.protocol import Answer, CannotAnswer, State, Unreachable

ADA = "ada"
HALF_A_MINUTE = timedelta(seconds=30)


class Slow:
    """A directory whose questions wait until the test answers them, in turn, or fail while there is trouble."""

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock
        self.trouble: CannotAnswer | None = None
        self.asked: list[tuple[str, datetime, asyncio.Future[State]]] = []

    async def ask(self, sponsor: str, no_older_than: datetime) -> Answer:
        if self.trouble is not None:
            raise self.trouble
        at, said = self._clock.now(), asyncio.get_running_loop().create_future()
        self.asked.append((sponsor, at, said))
        return Answer(await said, at)

    async def nth(self, number: int) -> asyncio.Future[State]:
        """The answer to be given to the question of that number, once it was asked."""
        await eventually(lambda: len(self.asked) > number)
        return self.asked[number][2]


async def test_an_answer_is_used_again_while_it_is_young_enough(clock: FakeClock) -> None:
    inner = FakeSponsors(clock, {ADA: "active"})
    cached = CachedDirectory(inner, clock)
    first = await cached.ask(ADA, clock.now())
    inner.states[ADA] = "disabled"
    clock.advance(HALF_A_MINUTE)
    assert await cached.ask(ADA, clock.now() - HALF_A_MINUTE) == first
    clock.advance(0.001)
    assert await cached.ask(ADA, clock.now() - HALF_A_MINUTE) == Answer("disabled", clock.now())


async def test_who_wants_it_fresh_gets_it_fresh(clock: FakeClock) -> None:
    inner = FakeSponsors(clock, {ADA: "active"})
    cached = CachedDirectory(inner, clock)
    for state in ("active", "disabled", "not_found", "active"):
        clock.advance(0.001)
        inner.states[ADA] = state
        assert (await cached.ask(ADA, clock.now())).state == state


async def test_an_answer_is_as_old_as_the_moment_before_its_question(clock: FakeClock) -> None:
    inner = Slow(clock)
    cached = CachedDirectory(inner, clock)
    sent = clock.now()
    asking = asyncio.create_task(cached.ask(ADA, sent))
    said = await inner.nth(0)
    clock.advance(29)
    said.set_result("active")
    assert (await asking).at == sent
    clock.advance(2)
    again = asyncio.create_task(cached.ask(ADA, clock.now() - HALF_A_MINUTE))
    (await inner.nth(1)).set_result("disabled")
    assert (await again).state == "disabled", "31 s after it was asked, 2 s after it came"


async def test_a_stampede_asks_once_and_those_who_come_later_once_more(clock: FakeClock) -> None:
    inner = Slow(clock)
    cached = CachedDirectory(inner, clock)
    first = [asyncio.create_task(cached.ask(ADA, clock.now())) for _ in range(100)]
    said = await inner.nth(0)
    later = []
    for _ in range(100):
        clock.advance(0.001)
        later.append(asyncio.create_task(cached.ask(ADA, clock.now())))
    await asyncio.sleep(0)
    assert len(inner.asked) == 1, "one is on its way at a time"
    said.set_result("active")
    assert {answer.state for answer in await asyncio.gather(*first)} == {"active"}
    (await inner.nth(1)).set_result("disabled")
    assert {answer.state for answer in await asyncio.gather(*later)} == {"disabled"}
    assert len(inner.asked) == 2
    assert inner.asked[1][1] >= clock.now(), "it was sent after the last of them had come"


async def test_a_question_under_way_serves_a_caller_whom_an_older_one_would_do(clock: FakeClock) -> None:
    inner = Slow(clock)
    cached = CachedDirectory(inner, clock)
    first = asyncio.create_task(cached.ask(ADA, clock.now()))
    said = await inner.nth(0)
    clock.advance(2)
    second = asyncio.create_task(cached.ask(ADA, clock.now() - HALF_A_MINUTE))
    await asyncio.sleep(0)
    said.set_result("active")
    assert (await first) == (await second)
    assert len(inner.asked) == 1


async def test_people_do_not_wait_for_each_other(clock: FakeClock) -> None:
    inner = Slow(clock)
    cached = CachedDirectory(inner, clock)
    slow = asyncio.create_task(cached.ask("slow", clock.now()))
    await inner.nth(0)
    quick = asyncio.create_task(cached.ask("quick", clock.now()))
    (await inner.nth(1)).set_result("active")
    assert (await quick).state == "active"
    assert not slow.done()
    await cached.close()
    await asyncio.gather(slow, return_exceptions=True)


async def test_a_caller_who_goes_away_leaves_the_question_to_the_others(clock: FakeClock) -> None:
    inner = Slow(clock)
    cached = CachedDirectory(inner, clock)
    callers = [asyncio.create_task(cached.ask(ADA, clock.now())) for _ in range(3)]
    said = await inner.nth(0)
    callers[0].cancel()
    await asyncio.gather(callers[0], return_exceptions=True)
    said.set_result("active")
    assert [answer.state for answer in await asyncio.gather(*callers[1:])] == ["active", "active"]
    assert len(inner.asked) == 1


async def test_a_failure_goes_to_all_who_share_it_and_is_not_kept(clock: FakeClock) -> None:
    inner = FakeSponsors(clock, {ADA: "active"})
    cached = CachedDirectory(inner, clock)
    inner.trouble = Unreachable("away", anyone=True)
    outcomes = await asyncio.gather(*(cached.ask(ADA, clock.now()) for _ in range(9)), return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [Unreachable] * 9
    assert len(inner.asked) == 1
    inner.trouble = None
    assert (await cached.ask(ADA, clock.now())).state == "active"


async def test_a_mistake_of_ours_is_no_answer_and_stays_a_mistake(clock: FakeClock) -> None:
    class Broken:
        async def ask(self, sponsor: str, no_older_than: datetime) -> Answer:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await CachedDirectory(Broken(), clock).ask(ADA, clock.now())


async def test_a_failing_directory_leaves_what_is_known_and_an_odd_answer_ends_it(clock: FakeClock) -> None:
    inner = FakeSponsors(clock, {ADA: "active"})
    cached = CachedDirectory(inner, clock)
    await cached.ask(ADA, clock.now())
    clock.advance(1)
    inner.trouble = Unreachable("away")
    with pytest.raises(CannotAnswer):
        await cached.ask(ADA, clock.now())
    assert (await cached.ask(ADA, clock.now() - HALF_A_MINUTE)).state == "active"
    inner.trouble = CannotAnswer("odd")
    with pytest.raises(CannotAnswer):
        await cached.ask(ADA, clock.now())
    with pytest.raises(CannotAnswer):
        await cached.ask(ADA, clock.now() - HALF_A_MINUTE)


async def test_a_clock_set_back_makes_no_answer_younger(clock: FakeClock) -> None:
    inner = FakeSponsors(clock, {ADA: "active"})
    cached = CachedDirectory(inner, clock)
    await cached.ask(ADA, clock.now())
    inner.states[ADA] = "disabled"
    clock.advance(60)
    clock.set(clock.now() - timedelta(hours=1))
    assert (await cached.ask(ADA, clock.now() - HALF_A_MINUTE)).state == "disabled"


async def test_only_so_many_people_are_remembered(clock: FakeClock) -> None:
    cached = CachedDirectory(FakeSponsors(clock), clock, most=50)
    for number in range(500):
        await cached.ask(f"person {number}", clock.now())
    assert len(cached) == 50


async def test_fifty_strangers_and_one_clock_keep_the_line_in_order() -> None:
    clock = SystemClock()
    people = FakeSponsors(clock, {ADA: "active"})
    cached = CachedDirectory(people, clock)

    async def caller() -> None:
        for _ in range(20):
            wanted = clock.now()
            assert (await cached.ask(ADA, wanted)).at >= wanted
            await asyncio.sleep(0)

    await asyncio.gather(*(caller() for _ in range(50)))


async def test_five_failures_in_a_row_leave_the_directory_alone_for_five_seconds(clock: FakeClock) -> None:
    inner = FakeSponsors(clock, {ADA: "active"})
    circuit = CircuitBreaker(inner, clock)
    inner.trouble = Unreachable("away", anyone=True)
    for _ in range(20):
        with pytest.raises(CannotAnswer):
            await circuit.ask(ADA, clock.now())
    assert len(inner.asked) == 5
    assert circuit.open
    clock.advance(4.999)
    inner.trouble = None
    with pytest.raises(CannotAnswer):
        await circuit.ask(ADA, clock.now())
    clock.advance(0.001)
    assert (await circuit.ask(ADA, clock.now())).state == "active"
    assert not circuit.open


async def opened(slow: Slow, clock: FakeClock) -> CircuitBreaker:
    """A circuit that has just opened, before a directory that works again."""
    circuit = CircuitBreaker(slow, clock)
    slow.trouble = Unreachable("away", anyone=True)
    for _ in range(5):
        with pytest.raises(CannotAnswer):
            await circuit.ask(ADA, clock.now())
    slow.trouble = None
    return circuit


async def test_of_many_at_once_exactly_one_probes(clock: FakeClock) -> None:
    slow = Slow(clock)
    circuit = await opened(slow, clock)
    clock.advance(5)
    crowd = [asyncio.create_task(circuit.ask(f"person {number}", clock.now())) for number in range(50)]
    (await inner_said(slow, crowd)).set_result("active")
    outcomes = await asyncio.gather(*crowd, return_exceptions=True)
    assert sum(isinstance(outcome, Answer) for outcome in outcomes) == 1
    assert len(slow.asked) == 1


async def inner_said(slow: Slow, crowd: list[asyncio.Task[Answer]]) -> asyncio.Future[State]:
    """The probe's answer, once everybody else was sent away."""
    await eventually(lambda: sum(task.done() for task in crowd) == len(crowd) - 1)
    return await slow.nth(0)


async def test_a_cancelled_probe_makes_room_for_the_next(clock: FakeClock) -> None:
    slow = Slow(clock)
    circuit = await opened(slow, clock)
    clock.advance(5)
    probe = asyncio.create_task(circuit.ask(ADA, clock.now()))
    await slow.nth(0)
    probe.cancel()
    await asyncio.gather(probe, return_exceptions=True)
    again = asyncio.create_task(circuit.ask(ADA, clock.now()))
    (await slow.nth(1)).set_result("active")
    assert (await again).state == "active"


async def test_one_persons_odd_answer_never_opens_it(clock: FakeClock) -> None:
    inner = FakeSponsors(clock, {"bob": "active"})
    circuit = CircuitBreaker(inner, clock)
    for trouble in (CannotAnswer("odd"), Unreachable("a 500 for this person alone")):
        for _ in range(50):
            inner.trouble = trouble
            with pytest.raises(CannotAnswer):
                await circuit.ask(ADA, clock.now())
        inner.trouble = None
        assert (await circuit.ask("bob", clock.now())).state == "active"


async def test_why_there_was_no_answer_is_logged_and_not_once_more_while_nobody_asks(clock: FakeClock) -> None:
    inner = FakeSponsors(clock)
    circuit = CircuitBreaker(inner, clock)
    inner.trouble = Unreachable("status 502", anyone=True)
    with capture_logs() as logged:
        for _ in range(20):
            with pytest.raises(CannotAnswer):
                await circuit.ask(ADA, clock.now())
    assert [line["trouble"] for line in logged] == ["status 502"] * 5
    assert [line["left_alone"] for line in logged] == [False] * 4 + [True]
    assert ADA not in str(logged)
