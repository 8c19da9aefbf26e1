"""What every box driver does; the agents it starts are spoken to as the control plane does."""

from __future__ import annotations

import asyncio
import dataclasses

import pytest
from tests.conformance.drivers.kit import Kit, started

from keel import db
from rift.drivers.boxes.protocol import DriverError, Presence

BOX = "b-00000000000000000000000a"
OTHER = "b-00000000000000000000000b"


async def test_a_started_box_reports_its_jail_and_runs_commands(kit: Kit) -> None:
    seat = await started(kit, BOX)
    assert await seat.run("echo hello") == (0, "hello\n")
    assert await seat.run("echo a\nexit 3") == (3, "a\n")
    assert await kit.driver.inspect(BOX) == Presence("running", 1)


async def test_the_checkout_is_there_and_files_are_written_and_read_in_it(kit: Kit) -> None:
    seat = await started(kit, BOX)
    assert (await seat.run("cat .git/HEAD"))[1] == "ref: refs/heads/main\n"
    written = await seat.event("ended", await seat.order("write", path="notes/a.txt", content="héllo\n"))
    assert written["exit"] == 0
    n = await seat.order("read", path="notes/a.txt")
    assert (await seat.event("ended", n))["exit"] == 0
    assert await seat.output(n) == "héllo\n".encode()
    missing = await seat.event("ended", await seat.order("read", path="notes/b.txt"))
    assert missing["exit"] == 1
    assert "no such file" in missing["reason"]


async def test_a_host_says_what_it_has_left(kit: Kit) -> None:
    room = await kit.driver.room()
    assert room.disk_free > 0
    assert 0 < room.memory_free <= room.memory_total


async def test_output_is_given_by_byte_offsets(kit: Kit) -> None:
    seat = await started(kit, BOX)
    n = await seat.order("bash", command=kit.print_bytes(200_000))
    assert (await seat.event("ended", n))["size"] == 200_000
    first, last = await seat.output(n, 0, 65536), await seat.output(n, 199_000, 65536)
    assert (len(first), len(last)) == (65536, 1000)


async def test_a_command_is_stopped_and_one_is_timed_out_with_the_reason(kit: Kit) -> None:
    seat = await started(kit, BOX)
    stopped = await seat.order("bash", command=kit.wait_for("never"))
    timed_out = await seat.order("bash", command=kit.wait_for("never"), timeout=1)
    seat.stops.add(stopped)
    await seat.tell()
    assert (await seat.event("ended", stopped))["reason"] == "stopped by rift_stop"
    assert "timeout: stopped after 1 s" in (await seat.event("ended", timed_out))["reason"]


async def test_starting_an_incarnation_again_changes_nothing(kit: Kit) -> None:
    seat = await started(kit, BOX)
    n = await seat.order("bash", command=kit.wait_for("go"))
    await kit.driver.start(kit.spec(BOX))
    kit.release(BOX, "go")
    assert (await seat.event("ended", n))["exit"] == 0
    assert [event["type"] for event in seat.events].count("up") == 1


async def test_racing_starts_of_an_incarnation_make_one_agent(kit: Kit) -> None:
    seat = kit.plane.seat(BOX, 1)
    await asyncio.gather(*(kit.driver.start(kit.spec(BOX)) for _ in range(4)))
    await seat.up()
    assert await seat.run("echo one") == (0, "one\n")
    assert [event["type"] for event in seat.events].count("up") == 1


async def test_a_new_incarnation_ends_the_older_and_finds_its_files(kit: Kit) -> None:
    first = await started(kit, BOX)
    await first.run(kit.put("kept.txt", "kept"))
    second = await started(kit, BOX, incarnation=2)
    assert await second.run("cat kept.txt") == (0, "kept\n")
    assert await kit.driver.inspect(BOX) == Presence("running", 2)


async def test_an_older_incarnation_is_refused_while_a_newer_one_runs(kit: Kit) -> None:
    await started(kit, BOX, incarnation=2)
    with pytest.raises(DriverError, match="Incarnation 2 of box"):
        await kit.driver.start(kit.spec(BOX, incarnation=1))
    assert await kit.driver.inspect(BOX) == Presence("running", 2)


async def test_three_rounds_of_parking_keep_files_and_a_running_command(kit: Kit) -> None:
    seat = await started(kit, BOX)
    n = await seat.order("bash", command=f"echo before\n{kit.wait_for('go')}\necho after")
    await seat.run(kit.put("kept.txt", "kept"))
    for round_ in range(3):
        await kit.driver.park(BOX, 2 * round_ + 1)
        assert await kit.driver.inspect(BOX) == Presence("parked", 1)
        await kit.driver.resume(BOX, 2 * round_ + 2)
        assert await kit.driver.inspect(BOX) == Presence("running", 1)
    assert await seat.run("cat kept.txt") == (0, "kept\n")
    kit.release(BOX, "go")
    await seat.event("ended", n)
    assert await seat.output(n) == b"before\nafter\n"


async def test_a_parked_box_does_not_go_on(kit: Kit) -> None:
    seat = await started(kit, BOX)
    n = await seat.order("bash", command=f"{kit.wait_for('go')}\necho after")
    await seat.run("true")
    await kit.driver.park(BOX, 1)
    kit.release(BOX, "go")
    with pytest.raises(TimeoutError):
        await seat.event("ended", n, within=0.3)
    await kit.driver.resume(BOX, 2)
    assert (await seat.event("ended", n))["exit"] == 0


async def test_an_order_overtaken_by_a_newer_one_changes_nothing(kit: Kit) -> None:
    await started(kit, BOX)
    await kit.driver.resume(BOX, 5)
    await kit.driver.park(BOX, 4)
    assert await kit.driver.inspect(BOX) == Presence("running", 1)
    await kit.driver.park(BOX, 5)
    assert await kit.driver.inspect(BOX) == Presence("parked", 1)


async def test_parking_again_is_harmless(kit: Kit) -> None:
    await started(kit, BOX)
    for _ in range(2):
        await kit.driver.park(BOX, 1)
    assert await kit.driver.inspect(BOX) == Presence("parked", 1)


async def test_a_box_without_an_agent_cannot_be_parked_or_resumed(kit: Kit) -> None:
    with pytest.raises(DriverError, match="There is no box"):
        await kit.driver.park(BOX, 1)
    await started(kit, BOX)
    await kit.driver.stop(BOX)
    with pytest.raises(DriverError, match="does not listen"):
        await kit.driver.resume(BOX, 2)


async def test_stopping_leaves_the_files_for_the_next_incarnation(kit: Kit) -> None:
    first = await started(kit, BOX)
    await first.run(kit.put("kept.txt", "kept"))
    for _ in range(2):
        await kit.driver.stop(BOX)
        assert await kit.driver.inspect(BOX) == Presence("stopped", 1)
    second = await started(kit, BOX, incarnation=2)
    assert await second.run("cat kept.txt") == (0, "kept\n")


async def test_a_parked_box_can_be_stopped_and_destroyed(kit: Kit) -> None:
    for box in (BOX, OTHER):
        await started(kit, box)
        await kit.driver.park(box, 1)
    await kit.driver.stop(BOX)
    assert await kit.driver.inspect(BOX) == Presence("stopped", 1)
    await kit.driver.destroy(OTHER)
    assert await kit.driver.inspect(OTHER) == Presence("absent")


async def test_destroying_leaves_nothing_and_may_be_repeated(kit: Kit) -> None:
    await started(kit, BOX)
    await started(kit, OTHER)
    assert await kit.driver.inventory() == [BOX, OTHER]
    for _ in range(2):
        await kit.driver.destroy(BOX)
        assert await kit.driver.inspect(BOX) == Presence("absent")
    assert await kit.driver.inventory() == [OTHER]


async def test_an_unknown_box_is_absent_and_stops_and_goes_without_a_word(kit: Kit) -> None:
    assert await kit.driver.inspect(BOX) == Presence("absent")
    await kit.driver.stop(BOX)
    await kit.driver.destroy(BOX)
    assert await kit.driver.inventory() == []


async def test_an_agent_that_died_leaves_a_stopped_box_that_starts_again(kit: Kit) -> None:
    first = await started(kit, BOX)
    await first.run(kit.put("kept.txt", "kept"))
    await kit.kill_agent(BOX)
    assert await kit.driver.inspect(BOX) == Presence("stopped", 1)
    second = await started(kit, BOX, incarnation=2)
    assert await second.run("cat kept.txt") == (0, "kept\n")


async def test_a_parked_box_whose_agent_died_starts_again_and_goes(kit: Kit) -> None:
    first = await started(kit, BOX)
    await first.order("bash", command=kit.wait_for("never"))
    await first.run(kit.put("kept.txt", "kept"))
    await kit.driver.park(BOX, 1)
    await kit.kill_agent(BOX)
    second = await started(kit, BOX, incarnation=2, epoch=2)
    assert await second.run("cat kept.txt") == (0, "kept\n")
    await kit.driver.park(BOX, 3)
    await kit.kill_agent(BOX)
    await kit.driver.destroy(BOX)
    assert await kit.driver.inventory() == []


async def test_an_agent_told_that_it_is_over_ends_and_its_box_with_it(kit: Kit) -> None:
    seat = await started(kit, BOX)
    await seat.end()
    async with asyncio.timeout(20):
        while await kit.driver.inspect(BOX) != Presence("stopped", 1):
            await asyncio.sleep(0.01)


async def test_a_start_that_fails_says_why_and_can_be_repeated_and_destroyed(kit: Kit) -> None:
    broken = await kit.break_start(kit.spec(BOX))
    with pytest.raises(DriverError, match="the checkout could not be made"):
        await kit.driver.start(broken)
    seat = await started(kit, BOX)
    assert await seat.run("echo well") == (0, "well\n")
    await kit.driver.destroy(BOX)
    assert await kit.driver.inventory() == []


async def test_two_boxes_do_not_share_files(kit: Kit) -> None:
    first, second = await started(kit, BOX), await started(kit, OTHER)
    await first.run(kit.put("/tmp/mine", "mine"))
    assert (await second.run("cat /tmp/mine"))[0] == 1


async def test_a_race_of_start_and_destroy_ends_as_one_of_the_two(kit: Kit) -> None:
    kit.plane.seat(BOX, 1)
    await asyncio.gather(kit.driver.start(kit.spec(BOX)), kit.driver.destroy(BOX))
    assert await kit.driver.inspect(BOX) in (Presence("running", 1), Presence("absent"))
    await kit.driver.destroy(BOX)
    assert await kit.driver.inventory() == []


async def test_a_box_of_an_older_kind_of_id_works(kit: Kit) -> None:
    seat = await started(kit, "app-main.2-1")
    assert await seat.run("echo well") == (0, "well\n")
    await kit.driver.destroy("app-main.2-1")
    assert await kit.driver.inventory() == []


async def test_drivers_refuse_to_work_inside_a_transaction(kit: Kit) -> None:
    inside = db._inside.set(True)
    try:
        for call in (
            kit.driver.start(kit.spec(BOX)),
            kit.driver.park(BOX, 1),
            kit.driver.resume(BOX, 1),
            kit.driver.stop(BOX),
            kit.driver.destroy(BOX),
            kit.driver.inspect(BOX),
            kit.driver.inventory(),
        ):
            with pytest.raises(RuntimeError, match="inside a database transaction"):
                await call
    finally:
        db._inside.reset(inside)


async def test_the_token_is_not_in_a_spec_s_text(kit: Kit) -> None:
    spec = dataclasses.replace(kit.spec(BOX), token="secret-token")
    assert "secret-token" not in repr(spec)
