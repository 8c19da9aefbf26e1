"""What every sink does: lines whole and in order, a failure told and never a yes, nothing inside a transaction."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

import pytest
from tests.conformance.onbe_sink.receiver import Receiver, receiving

from keel.db import Database
from keel.testing.plugin import FreshDatabase
from onbe.drivers.sink.fake import FakeSink
from onbe.drivers.sink.http import HttpSink
from onbe.drivers.sink.protocol import NotTaken, Sink
from onbe.drivers.sponsors.fetching import client_for

TOKEN = "t0ken-of-the-sink"
LINES = [b'{"seq":1,"sponsor":"\xc3\x84da"}', b'{"seq":2}', b'{"seq":3,"facts":"' + b"x" * 100_000 + b'"}']


@dataclass
class Bench:
    """A sink, what it has taken, and a way to have it fail."""

    sink: Sink
    taken: Callable[[], list[list[bytes]]]
    fail: Callable[[bool], None]


@pytest.fixture(params=["fake", "http"])
async def bench(request: pytest.FixtureRequest) -> AsyncIterator[Bench]:
    if request.param == "fake":
        fake = FakeSink()
        yield Bench(fake, lambda: fake.taken, lambda failing: setattr(fake, "failing", failing))
        return
    async with receiving() as receiver, client_for(receiver.url, 5) as client:
        yield Bench(
            HttpSink(receiver.url, TOKEN, client), lambda: receiver.taken,
            lambda failing: setattr(receiver, "status", 503 if failing else 204),
        )  # fmt: skip


async def test_lines_are_taken_whole_and_in_order(bench: Bench) -> None:
    await bench.sink.deliver(LINES)
    await bench.sink.deliver(LINES[:1])
    assert bench.taken() == [LINES, LINES[:1]]


async def test_what_is_not_taken_is_told_and_may_come_again(bench: Bench) -> None:
    bench.fail(True)
    for _ in range(3):
        with pytest.raises(NotTaken):
            await bench.sink.deliver(LINES)
    assert bench.taken() == []
    bench.fail(False)
    await bench.sink.deliver(LINES)
    assert bench.taken() == [LINES]


async def test_nothing_is_delivered_inside_a_transaction(bench: Bench, onbe_database: FreshDatabase) -> None:
    async with Database(onbe_database.runtime) as db, db.tx():
        with pytest.raises(RuntimeError, match="transaction"):
            await bench.sink.deliver(LINES)
    assert bench.taken() == []


# Over HTTP


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with receiving() as made:
        yield made


async def test_the_token_goes_with_the_lines_and_stands_in_no_message(receiver: Receiver) -> None:
    async with client_for(receiver.url, 5) as client:
        sink = HttpSink(receiver.url, TOKEN, client)
        await sink.deliver(LINES)
        head = receiver.heads[0]
        assert head.startswith("POST /ledger HTTP/1.1\r\n")
        assert f"authorization: bearer {TOKEN}" in head.lower()
        assert "content-type: application/x-ndjson" in head.lower()
        receiver.status = 401
        with pytest.raises(NotTaken) as refused:
            await sink.deliver(LINES)
    assert str(refused.value) == "the sink answered with status 401"
    assert TOKEN not in repr(sink)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308, 400, 401, 404, 413, 429, 500, 503, None])
async def test_nothing_but_a_yes_is_a_yes_and_no_redirect_is_followed(receiver: Receiver, status: int | None) -> None:
    receiver.status = status
    async with client_for(receiver.url, 5) as client:
        with pytest.raises(NotTaken):
            await HttpSink(receiver.url, TOKEN, client).deliver(LINES)
    assert len(receiver.heads) == 1


async def test_a_receiver_that_never_answers_is_given_up(receiver: Receiver) -> None:
    receiver.slow = True
    async with client_for(receiver.url, 5) as client:
        with pytest.raises(NotTaken, match=r"within 0\.2 s"):
            await HttpSink(receiver.url, TOKEN, client, 0.2).deliver(LINES)


async def test_a_receiver_that_is_not_there_is_told(receiver: Receiver) -> None:
    async with client_for(receiver.url, 5) as client:
        with pytest.raises(NotTaken, match="could not be reached"):
            await HttpSink("http://127.0.0.1:1/", TOKEN, client).deliver(LINES)
