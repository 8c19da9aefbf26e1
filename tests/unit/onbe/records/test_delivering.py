"""Every sealed record reaches the sink, in order and at least once, whatever fails and however many hand on."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.conformance.onbe_sink.receiver import receiving
from tests.unit.onbe.records.conftest import Build, House

from onbe.drivers.sink.fake import FakeSink
from onbe.drivers.sink.http import HttpSink
from onbe.drivers.sponsors.fetching import client_for
from onbe.records import actions, decide, jobs, store
from onbe.records.decide import BATCH_BYTES, BATCH_ROWS, WAIT_MOST


@pytest.fixture
def sink() -> FakeSink:
    return FakeSink()


@pytest.fixture
async def house(build: Build, sink: FakeSink) -> AsyncIterator[House]:
    async with build(sink=sink) as made:
        await actions.have_months(made.deps)
        yield made


def seqs(batches: list[list[bytes]]) -> list[int]:
    return [json.loads(line)["seq"] for batch in batches for line in batch]


async def fill(house: House, count: int, rows_most: int = 7) -> None:
    for _ in range(count):
        await house.record()
    await house.seal(rows_most)


async def position(house: House) -> int:
    async with house.deps.db.look() as tx:
        return await store.delivered(tx)


async def test_what_is_sealed_is_delivered_once_and_in_order(house: House, sink: FakeSink) -> None:
    await fill(house, 12)
    await house.record()  # not sealed yet
    await jobs.deliver(house.deps)
    assert seqs(sink.taken) == list(range(1, 13))
    await jobs.deliver(house.deps)
    assert len(sink.taken) == 1
    await house.seal()
    await jobs.deliver(house.deps)
    assert seqs(sink.taken) == list(range(1, 14))


async def test_a_line_tells_the_record_by_the_names_of_the_audit_and_its_place(house: House, sink: FakeSink) -> None:
    await house.record("Ädä\n", outcome="task_revoked", facts={"scope": "a b"})
    await house.seal()
    await jobs.deliver(house.deps)
    told = json.loads(sink.taken[0][0])
    assert b"\n" not in sink.taken[0][0]
    assert {name: told[name] for name in ("seq", "position", "sponsor", "decision", "reason", "facts")} == {
        "seq": 1, "position": 1, "sponsor": "Ädä\n", "decision": "deny", "reason": "task_revoked",
        "facts": {"scope": "a b"},
    }  # fmt: skip
    assert len(told["leaf"]) == 64


async def test_a_sink_that_fails_gets_it_later_and_is_left_alone_meanwhile(house: House, sink: FakeSink) -> None:
    await fill(house, 5)
    sink.failing = True
    await jobs.deliver(house.deps)
    sink.failing = False
    await jobs.deliver(house.deps)
    assert sink.taken == []  # not before a second has gone by
    house.clock.advance(2)
    await jobs.deliver(house.deps)
    assert seqs(sink.taken) == [1, 2, 3, 4, 5]


async def test_what_may_have_been_taken_comes_again(house: House, sink: FakeSink) -> None:
    await fill(house, 3)
    sink.losing = True
    await jobs.deliver(house.deps)
    sink.losing = False
    house.clock.advance(2)
    await jobs.deliver(house.deps)
    assert seqs(sink.taken) == [1, 2, 3, 1, 2, 3]


async def test_of_many_replicas_one_delivers(house: House, build: Build, sink: FakeSink) -> None:
    await fill(house, 40)
    async with build(sink=sink, seed="another") as other, build(sink=sink, seed="a third") as third:
        await asyncio.gather(*(jobs.deliver(one.deps) for one in (house, other, third, house, other)))
    assert seqs(sink.taken) == list(range(1, 41))


async def test_what_a_replica_was_killed_over_another_one_takes_up(house: House, build: Build, sink: FakeSink) -> None:
    await fill(house, 3)
    async with house.deps.db.look() as tx:
        assert await store.claim(tx, "killed", house.clock.now(), house.clock.now() + actions.HELD)
    await jobs.deliver(house.deps)
    assert sink.taken == []
    house.clock.advance(actions.HELD + timedelta(seconds=1))
    await jobs.deliver(house.deps)
    assert seqs(sink.taken) == [1, 2, 3]
    async with house.deps.db.look() as tx:  # and the one that was thought dead takes nothing back
        assert not await store.taken(tx, "killed", 0, 1, house.clock.now())
    assert await position(house) == 3


async def test_a_decision_is_recorded_while_the_sink_says_nothing(build: Build) -> None:
    async with receiving() as receiver, client_for(receiver.url, 5) as client:
        receiver.slow = True
        async with build(sink=HttpSink(receiver.url, None, client, 5)) as house:
            await actions.have_months(house.deps)
            await fill(house, 2)
            waiting = asyncio.create_task(jobs.deliver(house.deps))
            while not receiver.heads:
                await asyncio.sleep(0.01)
            async with asyncio.timeout(4):
                await fill(house, 3)
            assert not waiting.done()
            waiting.cancel()


async def test_a_receiver_that_dies_and_comes_back_gets_everything(build: Build) -> None:
    async with (
        receiving() as receiver,
        client_for(receiver.url, 5) as client,
        build(sink=HttpSink(receiver.url, None, client, 1)) as house,
        build(sink=HttpSink("http://127.0.0.1:1/", None, client, 1), seed="gone") as gone,
    ):
        await actions.have_months(house.deps)
        await fill(house, 3)
        for status in (500, None, 302, 204):
            receiver.status = status
            await jobs.deliver(house.deps)
            house.clock.advance(WAIT_MOST)
        assert seqs(receiver.taken) == [1, 2, 3]
        await fill(house, 2)
        await jobs.deliver(gone.deps)  # nobody listens there
        house.clock.advance(WAIT_MOST)
        await jobs.deliver(house.deps)
        assert seqs(receiver.taken) == [1, 2, 3, 4, 5]


async def test_a_record_whose_row_is_archived_is_told_as_absent_and_holds_nothing_up(
    house: House, sink: FakeSink
) -> None:
    await fill(house, 3)
    house.attack("DELETE FROM ledger WHERE seq = 2")
    await jobs.deliver(house.deps)
    told: list[dict[str, Any]] = [json.loads(line) for line in sink.taken[0]]
    assert [one.get("absent", False) for one in told] == [False, True, False]
    assert await position(house) == 3


async def test_without_a_sink_nothing_is_done(build: Build) -> None:
    async with build() as house:
        await jobs.deliver(house.deps)


# What is pure


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(0, 10**4))
def test_a_batch_follows_what_was_delivered_and_is_bounded(before: int, sealed: int, failures: int) -> None:
    due = decide.batch(before, sealed, failures)
    if due is None:
        assert before >= sealed
        return
    assert due[0] == before + 1
    assert due[0] <= due[1] <= min(sealed, before + BATCH_ROWS)
    if failures > 16:
        assert due[0] == due[1]


@given(st.lists(st.integers(0, 2 * BATCH_BYTES), min_size=1, max_size=20))
def test_a_delivery_is_bounded_in_bytes_but_for_one_large_record(sizes: list[int]) -> None:
    count = decide.fitting([bytes(size) for size in sizes])
    assert 1 <= count <= len(sizes)
    assert count == 1 or sum(sizes[:count]) + count <= BATCH_BYTES
    assert count == len(sizes) or sum(sizes[: count + 1]) + count + 1 > BATCH_BYTES


@given(st.integers(1, 10**6))
def test_the_pause_grows_to_five_minutes(failures: int) -> None:
    assert timedelta(seconds=1) <= decide.pause(failures) <= decide.pause(failures + 1) <= WAIT_MOST
