"""A repository's setup: run once in the box's life, in the jail, before the box is up; a failure is told whole."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.conformance.agent.boxes import Box, eventually
from tests.conformance.agent.plane import tail

from rift_agent.setup import OUTPUT_MOST

Make = Callable[..., Box]


def failed(box: Box) -> tuple[dict[str, Any], str]:
    """How its setup failed, and what it had printed."""
    eventually(lambda: [event for event in box.plane.events if event["type"] == "failed"], 40.0)
    (event,) = box.plane.events
    assert box.agent
    assert box.agent.wait(10) == 1
    return event, base64.b64decode(event["output"]).decode()


def test_a_setup_runs_in_the_checkout_as_a_command_does_and_what_it_writes_is_there(make_box: Make) -> None:
    box = make_box(setup="pwd > /tmp/where; id -u >> /tmp/where; echo $HELLO > ~/made; cat; echo done")
    box.config["env"]["HELLO"] = "world"
    box.start().ready()
    assert tail(box.plane.run("cat /tmp/where ~/made")) == b"/home/dev/app\n1000\nworld\n"
    assert (box.path / "setup.done").exists()
    assert [event["n"] for event in box.plane.events if event["type"] == "ended"] == [1]
    assert not list((box.path / "spool").glob("0.*"))


def test_a_setup_that_has_run_to_its_end_runs_no_second_time(make_box: Make) -> None:
    box = make_box(setup="echo once >> ~/count").start().ready()
    assert box.agent
    box.agent.terminate()
    box.agent.wait(10)
    box.plane.events.clear()
    box.start().ready()
    assert tail(box.plane.run("cat ~/count")) == b"once\n"


def test_a_setup_that_was_interrupted_runs_anew(make_box: Make) -> None:
    box = make_box(setup="echo begun >> ~/count; test -e ~/go || sleep 600").start()
    eventually((box.home / "count").exists)
    assert box.agent
    box.agent.kill()
    box.agent.wait(10)
    eventually(lambda: not box.jailed())
    (box.home / "go").touch()
    box.start().ready()
    assert tail(box.plane.run("cat ~/count")) == b"begun\nbegun\n"


def test_no_command_runs_before_the_setup_has_ended(make_box: Make) -> None:
    box = make_box(setup="until test -e ~/go; do sleep 0.05; done; echo setup >> ~/order")
    n = box.plane.bash("echo command >> ~/order; cat ~/order")
    box.start()
    eventually((box.path / "control.sock").exists)
    eventually(lambda: box.control({"op": "status"})["open"] == [0])
    assert box.control({"op": "status"})["jail"] is False
    assert box.plane.claimed == []
    (box.home / "go").touch()
    assert tail(box.plane.ended(n)) == b"setup\ncommand\n"


def test_a_setup_that_fails_ends_the_box_with_its_exit_and_all_that_it_printed(make_box: Make) -> None:
    event, printed = failed(make_box(setup="echo one; echo two >&2; exit 3").start())
    assert event["setup"] is True
    assert event["reason"] == "the repository's setup failed with exit 3"
    assert printed == "one\ntwo\n"


def test_a_setup_that_does_not_end_is_stopped_with_all_that_it_started(make_box: Make) -> None:
    box = make_box(setup="echo waiting; setsid sleep 4711 & sleep 4711", setup_seconds=1).start()
    event, printed = failed(box)
    told = "the repository's setup did not end within 1 s (Rift:Environments:SetupFor) and was stopped"
    assert (event["reason"], printed) == (told, "waiting\n")
    eventually(lambda: not box.processes())


def test_of_a_long_output_the_middle_is_left_out(make_box: Make) -> None:
    box = make_box(setup=f"echo begin; head -c {3 * OUTPUT_MOST} /dev/zero | tr '\\0' x; echo; echo end; exit 1")
    _, printed = failed(box.start())
    assert printed.startswith("begin\nxxx")
    assert printed.endswith("xxx\nend\n")
    assert f"[{2 * OUTPUT_MOST + 11} bytes left out]" in printed
    assert len(printed) < OUTPUT_MOST + 100


def test_a_process_that_a_setup_leaves_behind_lives_on_and_holds_nothing_up(make_box: Make) -> None:
    box = make_box(setup="sleep 4712 & echo $! > ~/left").start().ready()
    assert box.plane.run("kill -0 $(cat ~/left)")["exit"] == 0


def test_a_setup_that_is_killed_by_its_own_hand_or_kills_what_it_can_reach_is_a_failure(make_box: Make) -> None:
    event, _ = failed(make_box(setup="kill -9 $$").start())
    assert event["reason"] == "the repository's setup failed with exit 137 (killed by signal 9 (KILL))"


@pytest.mark.parametrize("setup", ["kill -9 1; kill -TERM 1; exit 4", "kill -9 -1; exit 4"])
def test_a_setup_cannot_end_the_jails_first_process(make_box: Make, setup: str) -> None:
    event, _ = failed(make_box(setup=setup).start())
    assert event.get("setup") is True


def test_a_setup_forges_no_mark_and_sees_nothing_of_its_box(make_box: Make) -> None:
    box = make_box()
    box.config["setup"] = (
        f"touch {box.path}/setup.done /setup.done setup.done ~/setup.done 2>/dev/null; ls {box.path}; exit 5"
    )
    event, printed = failed(box.start())
    assert event["reason"].endswith("exit 5")
    assert "No such file or directory" in printed
    assert not (box.path / "setup.done").exists()
    assert json.loads((box.path / "agent.json").read_text())["setup"] == box.config["setup"]


def test_a_long_setup_with_lines_and_quotes_runs_as_it_is_written(make_box: Make) -> None:
    text = "cat > ~/made <<'END'\n" + 'it\'s "so" $HOME\n' * 6000 + "END\n"
    box = make_box(setup=text).start().ready()
    assert tail(box.plane.run("wc -l < ~/made; tail -1 ~/made")) == b'6000\nit\'s "so" $HOME\n'
