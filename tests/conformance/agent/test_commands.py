"""Commands in a real jail, over the agent's real protocol."""

from __future__ import annotations

import hashlib
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.conformance.agent.boxes import Box, eventually
from tests.conformance.agent.plane import Plane, tail

Make = Callable[..., Box]


def run(box: Box, command: str, timeout: int = 60) -> tuple[dict[str, Any], bytes]:
    event = box.plane.run(command, timeout)
    return event, box.plane.output(event["n"])


def test_a_command_runs_in_the_checkout_and_its_exit_code_and_output_come_back(box: Box) -> None:
    event, output = run(box, "pwd; echo $RIFT_COMMAND; echo error >&2; exit 3")
    assert (event["exit"], event["reason"]) == (3, None)
    assert output == f"/home/dev/app\n{box.config['box']}.{event['n']}\nerror\n".encode()
    assert tail(event) == output
    assert event["size"] == len(output)


def test_a_command_whose_checkout_is_gone_starts_in_the_home(box: Box) -> None:
    run(box, "rm -rf /home/dev/app")
    assert run(box, "pwd")[1] == b"/home/dev\n"


def test_standard_input_is_empty_and_the_shell_is_a_login_shell(box: Box) -> None:
    event, output = run(box, "cat; shopt -q login_shell && echo login; [ -t 1 ] || echo no terminal")
    assert (event["exit"], output) == (0, b"login\nno terminal\n")


def test_a_character_is_never_touched_wherever_chunks_are_cut(box: Box) -> None:
    text = "aé€😀".encode()
    (box.home / "app/cut.py").write_text(
        "import os\n"
        f"text = {text!r}\n"
        "for cut in range(len(text) + 1):\n"
        "    os.write(1, text[:cut]); os.sched_yield(); os.write(1, text[cut:])\n"
    )
    event, output = run(box, "python3 cut.py")
    assert output == text * (len(text) + 1)
    for offset in range(len(text)):
        assert box.plane.ask(event["n"], offset, 5)["data"] == output[offset : offset + 5]


def test_bytes_that_are_no_text_and_blank_lines_come_back_as_they_are(box: Box) -> None:
    assert run(box, r"printf '\377\376\200\0\n\n\n  \n\r\n\n'")[1] == b"\xff\xfe\x80\0\n\n\n  \n\r\n\n"


def test_a_hundred_mebibytes_come_back_byte_for_byte_and_the_agent_stays_small(box: Box) -> None:
    source = box.home / "big"
    block = os.urandom(1 << 20)
    with source.open("wb") as file:
        for number in range(100):
            file.write(number.to_bytes(4, "big") + block[4:])
    event = box.plane.run("cat ~/big")
    assert (event["exit"], event["size"]) == (0, 100 << 20)
    digest, at = hashlib.sha256(), 0
    while at < event["size"]:
        answer = box.plane.ask(event["n"], at, 1 << 20)
        digest.update(answer["data"])
        at += len(answer["data"])
    assert digest.digest() == hashlib.sha256(source.read_bytes()).digest()
    peak = int(Path(f"/proc/{box.pid}/status").read_text().partition("VmHWM:")[2].split()[0])
    assert peak < 40 << 10


def test_a_background_server_outlives_its_command_and_never_holds_it(box: Box) -> None:
    event, output = run(box, "(while :; do echo noise; sleep 0.02; done) & sleep 0.3; echo done")
    assert event["exit"] == 0
    assert b"done\n" in output
    size = event["size"]
    assert b"sleep" in run(box, "cat /proc/[0-9]*/cmdline")[1]
    assert box.plane.ask(event["n"], 0)["size"] == size


def test_everything_a_command_wrote_before_its_shell_exited_is_its_output(box: Box) -> None:
    for _ in range(5):
        event, output = run(box, "head -c 900000 /dev/zero | tr '\\0' x; sleep 60 & exit 5")
        assert (event["exit"], event["size"], output) == (5, 900000, b"x" * 900000)


TREE = """
trap '' TERM
python3 - <<'END' &
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        open('/tmp/deep', 'w').close()
        time.sleep(1000)
    os._exit(0)
time.sleep(1000)
END
(setsid sleep 1000 &)
sleep 1000 &
while [ ! -e /tmp/deep ]; do sleep 0.02; done
echo started
while :; do sleep 1000; done
"""


def test_a_timeout_ends_the_whole_tree_double_forks_and_those_deaf_to_term_included(box: Box) -> None:
    started = time.monotonic()
    event, output = run(box, TREE, timeout=1)
    assert event["reason"] == "timeout: stopped after 1 s"
    assert event["exit"] == 128 + signal.SIGKILL
    assert output == b"started\n"
    assert 6 <= time.monotonic() - started < 12
    assert box.jailed() == {}


def test_a_stop_ends_the_tree_of_its_command_and_nobody_elses(box: Box) -> None:
    server = box.plane.run("sleep 2222 > /dev/null 2>&1 &")
    other = box.plane.bash("sleep 3333")
    command = box.plane.bash("echo begun; (setsid sleep 1111 &); sleep 1112")
    eventually(lambda: box.plane.ask(command, 0)["data"])
    box.plane.stop(command)
    event = box.plane.ended(command)
    assert (event["exit"], event["reason"], tail(event)) == (143, "stopped by rift_stop", b"begun\n")
    lines = sorted(line.strip() for line in box.jailed().values() if "sleep" in line and "bash" not in line)
    assert lines == ["sleep 2222", "sleep 3333"]
    assert server["exit"] == 0
    box.plane.stop(other)
    box.plane.ended(other)


def test_a_stopped_process_is_ended_too(box: Box) -> None:
    command = box.plane.bash("sleep 1111 & kill -STOP $!; echo stopped; kill -STOP $$")
    eventually(lambda: box.plane.ask(command, 0)["data"])
    box.plane.stop(command)
    assert box.plane.ended(command)["reason"] == "stopped by rift_stop"
    assert box.jailed() == {}


def test_processes_that_fork_while_they_are_ended_are_ended(box: Box) -> None:
    command = box.plane.bash(
        "trap '' TERM; f() { while :; do (trap '' TERM; sleep 0.05); done; }; f & f & f & echo on; f"
    )
    eventually(lambda: box.plane.ask(command, 0)["data"])
    box.plane.stop(command)
    box.plane.ended(command)
    assert box.jailed() == {}


def test_a_process_that_hides_itself_is_ended_too(box: Box) -> None:
    hidden = (
        "import ctypes, os, time; ctypes.CDLL(None).prctl(4, 0, 0, 0, 0); os.system('echo hidden'); time.sleep(1000)"
    )
    command = box.plane.bash(f'python3 -c "{hidden}" & sleep 1000')
    eventually(lambda: box.plane.ask(command, 0)["data"])
    box.plane.stop(command)
    assert box.plane.ended(command)["exit"] == 143
    assert box.jailed() == {}


def test_a_timed_out_command_keeps_the_output_it_had(box: Box) -> None:
    event, output = run(box, "echo partial; sleep 100", timeout=1)
    assert (event["exit"], output) == (143, b"partial\n")


def test_a_command_that_ends_itself_when_told_keeps_its_own_exit_code(box: Box) -> None:
    event, output = run(box, "trap 'echo bye; exit 9' TERM; while :; do sleep 5; done", timeout=1)
    assert (event["exit"], event["reason"], output) == (9, "timeout: stopped after 1 s", b"Terminated\nbye\n")


def test_a_shell_killed_by_a_signal_says_which(box: Box) -> None:
    event, _ = run(box, "kill -SEGV $$")
    assert (event["exit"], event["reason"]) == (139, "killed by signal 11 (SEGV)")


def test_a_command_that_cannot_be_started_says_why_and_harms_no_other(box: Box) -> None:
    event, _ = run(box, "echo a\0b")
    assert (event["exit"], event["reason"]) == (None, "it could not be started: embedded null byte")
    event = box.plane.ended(box.plane.order("dance", path="x"))
    assert (event["exit"], event["reason"]) == (None, "it could not be started: 'dance'")
    assert run(box, "echo fine > /dev/stdout; echo well > /dev/stderr")[1] == b"fine\nwell\n"


def test_a_heredoc_reaches_its_command_as_written(box: Box) -> None:
    assert run(box, "cat <<'END'\na $b\n\nc\nEND\n")[1] == b"a $b\n\nc\n"


@pytest.mark.parametrize("size", [100 * 1024, 131072])
def test_a_command_as_long_as_they_may_be_runs(box: Box, size: int) -> None:
    head, end = "cat <<'END' | wc -c\n", "\nEND\necho $# ${#1}; ls /proc/self/fd; exit 4"
    text = head + "é" * ((size - len(head) - len(end)) // 2) + end
    text += " " * (size - len(text.encode()))
    event, output = run(box, text)
    assert len(text.encode()) == size
    assert (event["exit"], output.split()[0]) == (
        4,
        str(len(text[len(head) :].partition("\nEND")[0].encode()) + 1).encode(),
    )
    assert output.split()[1:] == [b"0", b"0", b"0", b"1", b"2", b"3"]


def test_emptying_tmp_harms_no_later_command(box: Box) -> None:
    run(box, "rm -rf /tmp/* /tmp/.[a-z]*")
    assert run(box, "echo fine")[1] == b"fine\n"


def test_four_commands_run_at_once(box: Box) -> None:
    numbers = [
        box.plane.bash(f"touch /tmp/{n}; while [ $(ls /tmp | wc -l) -lt 4 ]; do sleep 0.02; done; echo {n}")
        for n in range(4)
    ]
    assert [box.plane.ended(n)["exit"] for n in numbers] == [0] * 4
    assert [box.plane.output(n) for n in numbers] == [f"{n}\n".encode() for n in range(4)]


def test_a_command_that_kills_everything_it_can_leaves_the_box_usable(box: Box) -> None:
    event, _ = run(box, "kill -9 1; kill -STOP 1; kill -INT 1; kill -CHLD 1; sleep 7777 & kill -9 -1")
    assert event["exit"] in (0, 137)
    eventually(lambda: not box.jailed())  # what was killed in the middle of its birth takes a moment to go
    assert run(box, "echo still here")[1] == b"still here\n"


def test_many_short_commands_end_once_each_in_order(box: Box) -> None:
    numbers = [box.plane.bash(f"echo {n}; exit {n % 7}") for n in range(60)]
    events = [box.plane.ended(n) for n in numbers]
    assert [event["exit"] for event in events] == [n % 7 for n in range(60)]
    assert [tail(event) for event in events] == [f"{n}\n".encode() for n in range(60)]


def test_output_beyond_the_limit_loses_its_oldest_bytes_and_says_so(make_box: Make, plane: Plane) -> None:
    box = make_box(spool_limit=65536).start().ready()
    event = plane.run("seq 1 100000")
    whole = b"".join(b"%d\n" % n for n in range(1, 100001))
    answer = plane.ask(event["n"], 0, 1 << 20)
    assert event["size"] == answer["size"] == len(whole)
    assert len(whole) - 65536 <= answer["first"] <= len(whole) - 65536 + 8192
    assert answer["data"] == whole[answer["first"] :]
    assert tail(event) == whole[-8192:]
    assert sum(path.stat().st_size for path in (box.path / "spool").iterdir()) <= 65536


def test_an_ask_for_an_unknown_command_says_so(box: Box) -> None:
    answer = box.plane.ask(99, 0)
    assert (answer["size"], answer["data"]) == (None, b"")


def test_a_disk_without_room_never_holds_the_child_and_the_reason_says_what_was_lost(
    make_box: Make, plane: Plane
) -> None:
    box = make_box()
    (box.path / "spool").mkdir()
    if os.geteuid() or os.system(f"mount -t tmpfs -o size=256k,mode=777 tmpfs {box.path}/spool"):
        pytest.skip("a small file system needs root")
    try:
        box.start().ready()
        event = plane.run("head -c 3000000 /dev/zero; echo end")
        assert event["exit"] == 0
        assert event["size"] == 3000004
        answer = plane.ask(event["n"], 0, 1 << 20)
        assert event["reason"] == f"disk full: the first {answer['first']} bytes of the output were lost"
        assert tail(event).endswith(b"\0\0end\n")
        assert plane.run("echo small")["reason"] is None
    finally:
        box.end()
        os.system(f"umount {box.path}/spool")
