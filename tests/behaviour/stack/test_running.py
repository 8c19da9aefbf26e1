"""Commands as people's programs really behave, over MCP, in real jails: how they end, and what they leave behind."""

from __future__ import annotations

import asyncio

import pytest
from tests.behaviour.stack.hands import Hands

from keel.testing import eventually


async def test_a_command_says_finished_its_exit_code_and_its_output(desk: Hands) -> None:
    said = await desk.bash("echo hello; exit 3")
    assert (said["status"], said["exit"], said["output"], said["reason"]) == ("finished", 3, "hello\n", None)
    assert said.text.splitlines()[0] == "finished, exit 3"
    assert said["command"].startswith(f"{desk.vm}.")
    assert said["command"].removeprefix(f"{desk.vm}.").isdigit()
    fields = {"status", "reason", "command", "exit", "output", "next_offset", "size"}
    assert set(said.structure) == fields | {"next"}


async def test_a_command_begins_in_the_checkout_as_nobody_with_no_input(desk: Hands) -> None:
    said = await desk.bash("pwd; id -un; git log --format=%s; wc -c; echo $TERM; cat README.md | head -1")
    assert said["output"] == "/home/dev/app\ndev\nThe first commit\n0\ndumb\n# app\n"


async def test_a_command_runs_on_when_the_call_no_longer_waits(desk: Hands) -> None:
    said = await desk.bash("echo begun; until test -e /tmp/on; do sleep 0.05; done; rm /tmp/on; echo done", block_for=1)
    assert said["status"] == "has not finished"
    assert "Do not send the command again." in said.text
    assert said.next is not None
    assert said.next[0] == "rift_output"
    assert said.next[1]["commands"] == [{"id": said["command"], "offset": said["next_offset"]}]
    await desk.bash("touch /tmp/on")
    last = await desk.go(said.next)
    assert (last["status"], last["exit"], said["output"] + last["output"]) == ("finished", 0, "begun\ndone\n")


async def test_a_server_in_the_background_outlives_its_command(desk: Hands) -> None:
    serve = "python3 -m http.server 8123 --bind 127.0.0.1 --directory /home/dev/app & echo $! >/tmp/pid; echo begun"
    said = await desk.bash(serve, timeout=10)
    assert (said["status"], said["exit"]) == ("finished", 0)
    assert said["output"].startswith("begun")

    async def serves() -> bool:
        look = "python3 -c \"import urllib.request as u; print(u.build_opener(u.ProxyHandler({})).open('http://127.0.0.1:8123/README.md').read())\""
        return "A project to work on" in (await desk.bash(look))["output"]

    await eventually(serves, within=20, every=0.2)
    assert (await desk.bash("kill $(cat /tmp/pid)"))["exit"] == 0


TREE = """
deaf() { trap '' TERM; echo $BASHPID >>/tmp/tree; (echo $BASHPID >>/tmp/tree; exec sleep 600) & wait; sleep 600; }
for n in 1 2 3; do deaf & done
setsid sh -c 'echo $$ >>/tmp/tree; exec sleep 600' &
echo $$ >>/tmp/tree
wait; sleep 600
"""
"""A shell with children deaf to TERM, grandchildren, and one in a session of its own."""
ALIVE = "for p in $(cat /tmp/tree); do test -d /proc/$p && echo alive $p; done; rm -f /tmp/tree"


async def test_a_timeout_ends_the_whole_tree_and_says_so(desk: Hands) -> None:
    said = await desk.bash(TREE, timeout=2)
    assert said["status"] == "finished"
    assert said["reason"].startswith("timeout: stopped after 2 s")
    assert (await desk.bash(ALIVE))["output"] == ""


async def test_a_stop_ends_the_whole_tree_and_gives_its_end(desk: Hands) -> None:
    id = (await desk.bash(TREE, block_for=0))["command"]

    async def grown() -> bool:
        return str((await desk.bash("cat /tmp/tree 2>/dev/null | wc -l"))["output"]).strip() == "8"

    await eventually(grown, within=20)
    said = await desk.stop(id)
    ended = await desk.until_ended(id)
    assert ended["status"] == "finished"
    assert "rift_stop" in ended["reason"]
    assert said["status"] == "finished" or "a stop is requested" in said["reason"]
    assert (await desk.bash(ALIVE))["output"] == ""
    again = await desk.stop(id)
    assert (again["status"], again["reason"]) == ("finished", ended["reason"])


async def test_a_heredoc_keeps_every_character_of_it(desk: Hands) -> None:
    text = "a $b `c` \\ \"quoted\" 'single'\n\n\ttab\n  é 😀\nEN D\n"
    assert (await desk.bash(f"cat <<'END'\n{text}END\n"))["output"] == text


@pytest.mark.parametrize(("signal", "number"), [("KILL", 9), ("SEGV", 11), ("TERM", 15)])
async def test_a_shell_killed_by_a_signal_says_which(desk: Hands, signal: str, number: int) -> None:
    said = await desk.bash(f"echo before; kill -{signal} $$; echo after")
    assert (said["status"], said["exit"], said["output"]) == ("finished", 128 + number, "before\n")
    assert said["reason"] == f"killed by signal {number} ({signal})"


async def test_a_command_of_a_hundred_kib_runs_whole(desk: Hands) -> None:
    comment = "# " + "é" * 50 + "\n"
    command = (
        comment * (100 * 1024 // len(comment.encode())) + 'echo ran; echo "$0" | head -c 0; printf %s ' + "x" * 500
    )
    assert len(command.encode()) > 100 * 1024
    said = await desk.bash(command)
    assert (said["exit"], said["output"]) == (0, "ran\n" + "x" * 500)


async def test_emptying_tmp_leaves_the_next_command_as_it_was(desk: Hands) -> None:
    assert (await desk.bash("touch /tmp/a; rm -rf /tmp/* /tmp/.[!.]*; ls -A /tmp | wc -l"))["output"] == "0\n"
    assert (await desk.bash("echo still; mktemp >/dev/null && echo here"))["output"] == "still\nhere\n"
    assert (await desk.write("/tmp/b", "b"))["exit"] == 0
    assert (await desk.read("/tmp/b"))["output"] == "b"


async def test_files_and_processes_persist_between_commands_and_variables_and_folders_do_not(desk: Hands) -> None:
    await desk.bash("export X=1; cd /tmp; echo kept >file; nohup sleep 300 >/dev/null 2>&1 & echo $! >/tmp/pid")
    said = await desk.bash('echo "[$X]"; pwd; cat /tmp/file; kill -0 $(cat /tmp/pid) && kill $(cat /tmp/pid); echo $?')
    assert said["output"] == "[]\n/home/dev/app\nkept\n0\n"


async def test_four_commands_run_at_once_and_a_fifth_is_refused_naming_them(desk: Hands) -> None:
    """Each of the four waits for all four to have begun: they end only if they run side by side."""
    meet = "mkdir -p /tmp/met; touch /tmp/met/{}; until [ $(ls /tmp/met | wc -l) = 4 ]; do sleep 0.05; done; "
    meet += "echo met {}; {}"
    wait = "until test -e /tmp/over; do sleep 0.05; done"
    four = await asyncio.gather(*(desk.bash(meet.format(n, n, wait), block_for=0) for n in range(4)))
    ids = sorted(said["command"] for said in four)

    async def all_met() -> bool:
        return all("met" in one["output"] for one in (await desk.output(*((id, 0) for id in ids)))["commands"])

    await eventually(all_met, within=30, every=0.2)
    fifths = (
        await desk.bash("echo fifth >/tmp/fifth", block_for=0),
        await desk.read("README.md"),
        await desk.write("/tmp/fifth", "x"),
    )
    for fifth in fifths:
        assert fifth.refused == "vm_full"
        assert all(id in fifth.text for id in ids)
        assert sorted(one["id"] for one in fifth.mend("rift_output")["commands"]) == ids
        stops = [mend["arguments"]["id"] for mend in fifth.mends if mend["tool"] == "rift_stop"]
        assert sorted(stops) == ids
    assert (await desk.stop(ids[0]))["status"] == "finished"
    assert (await desk.bash("ls /tmp/fifth 2>&1 | grep -c 'No such'; touch /tmp/over"))["output"] == "1\n"
    for id in ids[1:]:
        assert (await desk.until_ended(id))["exit"] == 0
    await desk.bash("rm -r /tmp/over /tmp/met")


async def test_a_file_is_written_whole_and_read_as_the_jail_sees_it(desk: Hands) -> None:
    text = "one\n\ntwo é 😀\n" * 1000
    said = await desk.write("deep/er/file.txt", text)
    assert (said["status"], said["exit"]) == ("finished", 0)
    assert said["output"] == f"wrote {len(text.encode())} bytes to deep/er/file.txt\n"
    assert (await desk.read("deep/er/file.txt"))["output"] == text
    assert (await desk.read("/home/dev/app/deep/er/file.txt"))["output"] == text
    assert (await desk.bash("sha256sum <deep/er/file.txt | wc -c; git status --porcelain; rm -r deep"))["output"] == (
        "68\n?? deep/\n"
    )


async def test_a_file_that_cannot_be_read_is_finished_with_the_reason(desk: Hands) -> None:
    await desk.bash(
        "head -c 70000 /dev/zero | tr '\\0' x >/tmp/long; head -c 100 /dev/urandom >/tmp/odd; printf '\\0' >>/tmp/odd"
    )
    for path, reason in (("/nowhere", "no such file"), ("/tmp", "a folder"), ("/tmp/odd", "binary file, 101 bytes")):
        said = await desk.read(path)
        assert (said["status"], said["exit"], said["output"]) == ("finished", 1, "")
        assert reason in said["reason"]
    long = await desk.read("/tmp/long")
    assert "70000 bytes" in long["reason"]
    assert len((await desk.go(long.next))["output"]) == 65_536
    await desk.bash("rm /tmp/long /tmp/odd")
