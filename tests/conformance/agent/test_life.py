"""An agent's life: lost answers, a control plane that goes away, parking, and every kind of end."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from tests.conformance.agent.boxes import Box, eventually
from tests.conformance.agent.plane import Plane, tail

Make = Callable[..., Box]


def ends_with(path: Path, end: bytes) -> bool:
    return path.read_bytes().endswith(end)


def larger(path: Path, size: int) -> bool:
    return path.stat().st_size > size


def state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_a_command_whose_answer_was_lost_is_started_once(box: Box) -> None:
    box.plane.lose_next_work()
    event = box.plane.run("echo once >> ~/count; cat ~/count")
    assert tail(event) == b"once\n"
    assert box.plane.claimed == [event["n"]]


def test_nothing_is_lost_when_the_control_plane_dies_in_the_middle_of_a_command(box: Box) -> None:
    for _ in range(2):
        n = box.plane.bash("for i in 1 2 3 4 5; do echo $i; sleep 0.1; done; echo end; exit 6")
        spool = box.path / f"spool/{n}.0"
        eventually(spool.exists)
        box.plane.down()
        eventually(partial(ends_with, spool, b"end\n"))
        box.plane.up()
        event = box.plane.ended(n)
        assert (event["exit"], tail(event)) == (6, b"1\n2\n3\n4\n5\nend\n")
        assert box.plane.output(n) == b"1\n2\n3\n4\n5\nend\n"


def test_an_event_is_told_until_it_is_taken_and_in_order(box: Box) -> None:
    box.plane.refuse_events = 3
    numbers = [box.plane.bash(f"exit {n}") for n in range(8)]
    for n in numbers:
        box.plane.ended(n)
    ends = [event["n"] for event in box.plane.events if event["type"] == "ended"]
    assert sorted(ends) == numbers


def test_an_event_the_control_plane_never_takes_holds_back_no_other(box: Box) -> None:
    box.plane.hates = lambda event: event.get("exit") == 3
    numbers = [box.plane.bash(f"exit {n}") for n in range(6)]
    for n in numbers[:3] + numbers[4:]:
        box.plane.ended(n)
    eventually(lambda: "malformed" in box.log())


def test_a_stop_that_takes_its_time_does_not_keep_the_agent_busy(box: Box) -> None:
    n = box.plane.bash("trap '' TERM; echo on; while :; do sleep 1; done")
    eventually(lambda: box.plane.ask(n, 0)["data"])
    before = box.plane.works
    box.plane.stop(n)
    box.plane.ended(n)
    assert box.plane.works - before < 200  # this stand-in repeats a stop in every answer, for 5 s


@pytest.mark.parametrize("way", ["work", "control"])
def test_three_rounds_of_parking_stop_everything_and_wake_it_again(box: Box, way: str) -> None:
    box.plane.run("(while :; do echo tick >> ~/ticks; sleep 0.01; done) > /dev/null 2>&1 &")
    box.plane.run("sleep 4444 > /dev/null 2>&1 & kill -STOP $!")
    sleeper = next(pid for pid, line in box.jailed().items() if "sleep 4444" in line)
    eventually(lambda: state(sleeper) == "T")
    ticks, epoch = box.home / "ticks", 0

    def power(frozen: bool) -> None:
        nonlocal epoch
        epoch += 1
        if way == "work":
            box.plane.set_power(epoch, frozen)
        else:
            answer = box.control({"op": "power", "epoch": epoch, "frozen": frozen})
            assert answer == {"ok": True, "epoch": epoch, "frozen": frozen}
            box.plane.power = [epoch, frozen]

    for _ in range(3):
        eventually(lambda: ticks.exists() and ticks.stat().st_size)
        power(True)
        jailed = box.jailed()
        assert len(jailed) >= 2
        assert {state(pid) for pid in jailed} == {"T"}
        size = ticks.stat().st_size
        assert box.control({"op": "status"})["frozen"] is True
        assert ticks.stat().st_size == size
        power(False)
        eventually(partial(larger, ticks, size))
        assert state(sleeper) == "T"  # it had stopped itself, and parking did not wake it
        assert box.plane.run("echo awake")["exit"] == 0


def test_an_order_with_an_older_epoch_is_ignored(box: Box) -> None:
    assert box.control({"op": "power", "epoch": 5, "frozen": True})["frozen"] is True
    assert box.control({"op": "power", "epoch": 4, "frozen": False}) == {"ok": True, "epoch": 5, "frozen": True}
    assert box.control({"op": "power", "epoch": 6, "frozen": False}) == {"ok": True, "epoch": 6, "frozen": False}


def test_the_control_socket_tells_the_state_and_refuses_what_is_no_order(box: Box) -> None:
    n = box.plane.bash("sleep 100")
    eventually(lambda: box.control({"op": "status"})["open"] == [n])
    status = box.control({"op": "status"})
    assert (status["box"], status["incarnation"], status["pid"], status["jail"]) == (
        box.config["box"],
        1,
        box.pid,
        True,
    )
    assert box.control({"op": "nonsense"})["ok"] is False
    assert box.control({})["ok"] is False
    assert oct((box.path / "control.sock").stat().st_mode)[-3:] == "600"
    assert int((box.path / "agent.pid").read_text()) == box.pid


def gone(box: Box) -> bool:
    return not [line for line in box.processes().values() if line]


def test_quit_kills_the_jail_and_answers(box: Box) -> None:
    box.plane.bash("sleep 5555 & sleep 5555")
    eventually(box.jailed)
    assert box.control({"op": "quit"}) == {"ok": True}
    assert box.agent
    assert box.agent.wait(10) == 0
    assert gone(box)


def test_a_box_that_is_over_takes_its_jail_with_it(box: Box) -> None:
    box.plane.bash("sleep 5555")
    eventually(box.jailed)
    box.plane.over = True
    with box.plane.changed:
        box.plane.changed.notify_all()
    assert box.agent
    assert box.agent.wait(10) == 0
    assert gone(box)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_an_agent_that_ends_takes_its_jail_with_it(box: Box, number: signal.Signals) -> None:
    box.plane.bash("setsid sleep 5555 & sleep 5555")
    eventually(box.jailed)
    os.kill(box.pid, number)
    assert box.agent
    assert box.agent.wait(10) == (0 if number == signal.SIGTERM else -9)
    eventually(lambda: gone(box))


def test_a_jail_that_dies_ends_its_commands_and_says_so(box: Box) -> None:
    n = box.plane.bash("echo before; sleep 5555")
    eventually(lambda: box.plane.ask(n, 0)["data"])
    init = next(
        pid for pid, line in box.processes().items() if "agent.pyz init" in line and state_parent(pid) != box.pid
    )
    os.kill(init, signal.SIGKILL)
    event = box.plane.ended(n)
    assert (event["exit"], tail(event)) == (None, b"before\n")
    assert "the jail ended" in event["reason"]
    box.plane.wait(lambda: [e for e in box.plane.events if e["type"] == "failed"])
    assert box.agent
    assert box.agent.wait(10) == 1
    assert gone(box)


def state_parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def test_a_jail_that_cannot_be_made_fails_with_what_bwrap_said(make_box: Make, plane: Plane) -> None:
    box = make_box()
    box.config["mounts"].append({"kind": "ro", "source": "/no/such/folder", "target": "/here"})
    box.start()
    (event,) = plane.wait(lambda: [e for e in plane.events if e["type"] == "failed"])
    assert "/no/such/folder" in event["reason"]
    assert box.agent
    assert box.agent.wait(10) == 1


def test_an_environment_that_is_too_large_is_a_jail_that_cannot_be_made(make_box: Make, plane: Plane) -> None:
    box = make_box(env={"HOME": "/home/dev", "LARGE": "x" * 100000}).start()
    (event,) = plane.wait(lambda: [e for e in plane.events if e["type"] == "failed"])
    assert "is over 65536" in event["reason"]
    assert box.agent
    assert box.agent.wait(10) == 1


@pytest.mark.parametrize("change", [{"bwrap": "/no/bwrap"}, {"python": "/no/python"}])
def test_a_missing_program_fails_with_its_name(make_box: Make, plane: Plane, change: dict[str, str]) -> None:
    make_box(**change).start()
    (event,) = plane.wait(lambda: [e for e in plane.events if e["type"] == "failed"])
    assert "/no/" in event["reason"]


@pytest.mark.parametrize(
    ("network", "named"), [("wide", "network is 'wide'"), ("open", "an open network needs the paths of pasta and nft")]
)
def test_a_mistake_in_the_configuration_is_named_and_nothing_starts(make_box: Make, network: str, named: str) -> None:
    box = make_box(network=network).start()
    assert box.agent
    assert box.agent.wait(10) == 2
    assert named in box.log()


def test_a_new_incarnation_still_gives_what_an_older_one_kept(make_box: Make, plane: Plane) -> None:
    box = make_box().start().ready()
    n = plane.run("echo kept")["n"]
    assert box.agent
    box.control({"op": "quit"})
    box.agent.wait(10)
    box.config["incarnation"] = 2
    box.start()
    plane.wait(lambda: len([event for event in plane.events if event["type"] == "up"]) == 2)
    assert plane.ask(n, 0)["data"] == b"kept\n"
    assert json.loads((box.path / "agent.json").read_text())["incarnation"] == 2


def test_an_idle_agent_uses_no_processor_and_little_memory(box: Box) -> None:
    box.plane.run("true")
    pids = [pid for pid, line in box.processes().items() if "agent.pyz" in line]

    def used() -> int:
        return sum(sum(map(int, Path(f"/proc/{p}/stat").read_text().rpartition(")")[2].split()[11:13])) for p in pids)

    def switches() -> int:
        return sum(
            int(Path(f"/proc/{p}/status").read_text().partition("\nvoluntary_ctxt_switches:")[2].split()[0])
            for p in pids
        )

    seen: list[tuple[int, int]] = []

    def still() -> bool:
        seen.append((used(), switches()))
        return len(seen) > 20 and len(set(seen[-20:])) == 1

    eventually(still, patience=10)
    assert (
        sum(int(Path(f"/proc/{p}/smaps_rollup").read_text().partition("Pss:")[2].split()[0]) for p in pids) < 20 << 10
    )
