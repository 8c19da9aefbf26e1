"""A keeper attacked by its server, and a line that carries much at once."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.conformance.keeper.keeping import Keeper
from tests.conformance.keeper.silent import Silent
from tests.unit.keeper.test_checks import SPEC

from keel.testing import eventually
from rift.drivers.boxes.local import LocalBoxes, LocalConfig
from rift.drivers.boxes.protocol import BoxDriver, DriverError, Interrupted, Presence, StoreLost
from rift.drivers.boxes.remote import RemoteBoxes
from rift.drivers.forge.local import LocalForge
from rift.drivers.forge.protocol import Access, Forge, ForgeError
from rift.drivers.forge.remote import RemoteForge
from rift.drivers.line import ANSWER_LIMIT, CALL_LIMIT, Line, frame, read
from rift.keeper.checks import Bounds
from rift.keeper.desk import AT_ONCE

INSPECT = {"call": "boxes.inspect", "args": {"box": "b-1"}}


@pytest.fixture
async def keeper(tmp_path: Path) -> AsyncIterator[Keeper]:
    """A keeper of the real drivers, on a folder in which there is nothing yet."""
    drivers: dict[str, BoxDriver | Forge] = {"boxes": LocalBoxes(LocalConfig(tmp_path)), "forge": LocalForge()}
    one = Keeper(Bounds(tmp_path, f"unix:{tmp_path}/agents.sock"), drivers)
    yield one
    await one.close()


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        (b"\xff\xff\xff\xff", "at most"),
        ((CALL_LIMIT + 1).to_bytes(4, "big"), "at most"),
        (b"\0\0\0\0", "not JSON"),
        (b"\0\0\0\x05hello", "not JSON"),
        (b"\0\0\0\x02[]", "no object"),
        (b"\0\0\0\x03\xff\xfe\xfd", "not JSON"),
        (len(b"[" * 100_000).to_bytes(4, "big") + b"[" * 100_000, "not JSON"),
        (frame({}), "no order"),
        (frame({"id": "1", **INSPECT}), "no order"),
        (frame({"id": 1, "call": None}), "no order"),
        (frame({"id": 1, "call": "boxes.inspect"})[:-3], ""),
        (b"\0\0", ""),
    ],
)
async def test_what_is_no_order_ends_the_line_and_harms_nothing(keeper: Keeper, sent: bytes, said: str) -> None:
    await keeper.serve()
    keeper.theirs.sendall(sent)
    keeper.theirs.shutdown(socket.SHUT_WR)
    assert keeper.ended
    assert said in await keeper.ended
    assert (await keeper.ended == "") is (said == "")


@pytest.mark.parametrize(
    "name",
    [
        "boxes.kind",
        "boxes.__init__",
        "boxes._end",
        "boxes",
        "",
        "forge.heads.__call__",
        "os.system",
        "sample",
        "x" * 9000,
    ],
)
async def test_only_orders_that_are_known_are_followed(keeper: Keeper, name: str) -> None:
    line = await keeper.open()
    with pytest.raises(DriverError, match="knows no such order"):
        await line.call(name, {}, DriverError)


async def test_a_server_that_was_taken_over_gets_no_other_path_program_or_address(
    keeper: Keeper, tmp_path: Path
) -> None:
    line = await keeper.open()
    boxes, forge = RemoteBoxes(line), RemoteForge(line)
    good = dataclasses.replace(SPEC, mirror=tmp_path / "mirrors" / "r", server=f"unix:{tmp_path}/agents.sock")
    for change in (
        {"box": "../../etc"},
        {"mirror": Path("/root/.ssh")},
        {"server": "http://203.0.113.9"},
        {"commit": "--exec=x"},
        {"allow": ("x",) * 10_000},
        {"origin": "x" * 100_000},
        {"ref": "main\n[core]\n\tsshCommand = x"},
    ):
        with pytest.raises(DriverError, match="The keeper refuses"):
            await boxes.start(dataclasses.replace(good, **change))
    for box in ("..", "/etc/passwd", ".trial", "a/b", ""):
        for act in (boxes.stop, boxes.destroy, boxes.inspect):
            with pytest.raises(DriverError, match="The keeper refuses this box"):
                await act(box)
    for mirror in (Path("/etc"), tmp_path / "boxes" / "b-1", tmp_path / "mirrors" / ".." / "boxes"):
        with pytest.raises(ForgeError, match="The keeper refuses this mirror"):
            await forge.fetch("https://example.org/x.git", mirror)
        with pytest.raises(ForgeError, match="The keeper refuses this mirror"):
            await forge.pin(mirror, "b-1", "a" * 40)
    with pytest.raises(ForgeError, match="The keeper refuses this url"):
        await forge.heads(str(tmp_path / "boxes" / "b-1" / "home"))
    assert [path.name for path in tmp_path.iterdir()] == []


async def test_a_frame_too_large_to_be_taken_is_refused_before_it_is_read(keeper: Keeper) -> None:
    line = await keeper.open()
    with pytest.raises(DriverError):
        await line.call("boxes.stop", {"box": "x" * (CALL_LIMIT + 1)}, DriverError)
    assert keeper.ended
    assert "at most" in await keeper.ended


async def test_an_answer_too_large_to_be_sent_is_said(keeper: Keeper, tmp_path: Path) -> None:
    class Endless(LocalForge):
        async def heads(self, url: str, access: Access | None = None) -> dict[str, str]:
            return {"x" * (ANSWER_LIMIT + 1): "a" * 40}

    vast = Keeper(Bounds(tmp_path, ""), {"forge": Endless()})
    with pytest.raises(ForgeError, match="larger than the keeper may send"):
        await RemoteForge(await vast.open()).heads("https://example.org/x")
    await vast.close()


async def test_many_more_calls_than_are_done_at_once_are_all_answered(keeper: Keeper) -> None:
    boxes = RemoteBoxes(await keeper.open())
    async with asyncio.timeout(60):
        found = await asyncio.gather(*(boxes.inspect(f"b-{n}") for n in range(4 * AT_ONCE)))
    assert set(found) == {Presence("absent")}


async def test_a_slow_call_holds_up_no_other_and_ends_where_it_is_cancelled(keeper: Keeper) -> None:
    """Git waits for a server that says nothing: the call that waits for git is cancelled, and git is gone."""
    async with Silent() as (url, callers):
        line = await keeper.open()
        boxes, forge = RemoteBoxes(line), RemoteForge(line)
        slow = [asyncio.create_task(forge.heads(url)) for _ in range(3)]
        await eventually(lambda: len(callers) == 3, within=30)
        assert await boxes.inspect("b-1") == Presence("absent")
        for task in slow:
            task.cancel()
        for task in slow:
            with pytest.raises(asyncio.CancelledError):
                await task
        async with asyncio.timeout(20):
            for reader in callers:
                await reader.read()  # git's end of the connection is closed
        assert await boxes.inventory() == []  # and the line carries on


async def test_a_server_that_goes_away_leaves_nothing_running(keeper: Keeper) -> None:
    async with Silent() as (url, callers):
        line = await keeper.open()
        slow = asyncio.create_task(RemoteForge(line).heads(url))
        await eventually(lambda: len(callers) == 1, within=30)
        await keeper.close()
        with pytest.raises(ForgeError, match="keeper of this host has ended"):
            await slow
        async with asyncio.timeout(20):
            await callers[0].read()


async def test_a_server_that_reads_no_answers_costs_no_more_than_it_may_ask(keeper: Keeper) -> None:
    """The keeper reads no further orders once so many are unanswered; nor does it end, or hang when the line does."""
    await keeper.serve()
    keeper.theirs.setblocking(False)
    orders = b"".join(frame({"id": n, **INSPECT, "pad": "x" * 900}) for n in range(200_000))
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(5):
            await loop.sock_sendall(keeper.theirs, orders)
            raise AssertionError("everything was read, though no answer was")
    except TimeoutError:
        pass
    assert keeper.ended
    assert not keeper.ended.done()
    assert len(keeper.desk._doing) <= AT_ONCE
    keeper.theirs.close()
    async with asyncio.timeout(20):
        await keeper.ended


async def test_a_number_that_is_being_answered_may_not_be_used_again(keeper: Keeper) -> None:
    async with Silent() as (url, callers):
        await keeper.serve()
        order = frame({"id": 1, "call": "forge.heads", "args": {"url": url, "access": None}})
        keeper.theirs.sendall(order)
        await eventually(lambda: len(callers) == 1, within=30)
        keeper.theirs.sendall(order)
        assert keeper.ended
        assert await keeper.ended == "it is no order"


async def test_a_fault_of_the_keeper_is_told_as_one_and_ends_nothing(tmp_path: Path) -> None:
    class Faulty(LocalForge):
        async def heads(self, url: str, access: Access | None = None) -> dict[str, str]:
            raise KeyError("a secret")

    keeper = Keeper(Bounds(tmp_path, ""), {"forge": Faulty()})
    forge = RemoteForge(await keeper.open())
    for _ in range(2):
        with pytest.raises(RuntimeError, match=r"the keeper failed at forge\.heads: KeyError$"):
            await forge.heads("https://example.org/x")
    await keeper.close()


async def test_words_go_both_ways_between_calls(keeper: Keeper) -> None:
    heard: list[str] = []
    line = await keeper.open(heard.append)
    line.say("ready")
    await eventually(lambda: keeper.words == ["ready"])
    keeper.desk.say("stop")
    await eventually(lambda: heard == ["stop"])


async def test_a_call_after_the_keeper_has_gone_says_so(keeper: Keeper) -> None:
    line = await keeper.open()
    assert keeper.ended
    keeper.ended.cancel()
    await line.ended()
    with pytest.raises(DriverError, match="keeper of this host has ended"):
        await RemoteBoxes(line).inventory()


async def test_an_answer_to_nobody_is_dropped() -> None:
    ours, theirs = socket.socketpair()
    reader, writer = await asyncio.open_unix_connection(sock=ours)
    line = Line(reader, writer)
    for answer in ({"id": 7, "ok": 1}, {"id": None, "ok": 1}, {"id": [], "ok": 1}, {"other": 1}):
        theirs.sendall(frame(answer))
    asking = asyncio.create_task(line.call("boxes.inventory", {}, DriverError))
    other, _ = await asyncio.open_unix_connection(sock=theirs)
    assert await read(other, CALL_LIMIT) == {"id": 1, "call": "boxes.inventory", "args": {}}
    _.write(frame({"id": 1, "ok": ["b-1"]}))
    assert await asking == ["b-1"]
    await line.close()
    _.close()


@pytest.mark.parametrize("kind", [Interrupted, StoreLost, DriverError])
async def test_of_which_kind_a_failure_is_is_told_along_with_its_reason(
    tmp_path: Path, kind: type[DriverError]
) -> None:
    class Failing(LocalBoxes):
        async def stop(self, box: str) -> None:
            raise kind("it was ended from outside")

    one = Keeper(Bounds(tmp_path, f"unix:{tmp_path}/agents.sock"), {"boxes": Failing(LocalConfig(tmp_path))})
    boxes = RemoteBoxes(await one.open())
    with pytest.raises(DriverError, match="ended from outside") as told:
        await boxes.stop("b-1")
    assert type(told.value) is kind
    await one.close()
    with pytest.raises(Interrupted):  # gone: whoever comes next may do it
        await boxes.stop("b-1")


def test_a_frame_is_a_length_and_json() -> None:
    made = frame({"a": 1})
    assert int.from_bytes(made[:4], "big") == len(made) - 4
    assert json.loads(made[4:]) == {"a": 1}
