"""Boxes over MCP, real ones: claimed, named, parked, resumed and destroyed."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest
from tests.behaviour.stack import program
from tests.behaviour.stack.hands import Hands
from tests.behaviour.stack.stack import Stack

from keel.testing import eventually

PERSISTS = "Files under the checkout, the home and /tmp persist for the VM's life; processes persist between commands"


async def ready(stack: Stack, ref: str = "main") -> str:
    """Wait for a warm box at a ref that nobody has; its id."""

    def warm() -> str | None:
        found = stack.sql(
            "SELECT b.id FROM boxes b JOIN heads h ON h.repo = b.repo AND h.ref = b.ref AND h.commit = b.commit "
            "WHERE b.ref = %(ref)s AND b.task IS NULL AND b.state = 'running'",
            ref=ref,
        )
        return found[0]["id"] if found else None

    return str(await eventually(warm, within=60, every=0.1))


@pytest.fixture
async def branch(hands: Hands) -> AsyncIterator[str]:
    """A branch of this test's own, watched without warm boxes; unwatched after it."""
    name = f"own-{hands.id[5:]}"
    program.git(hands.stack.data / "origin", "branch", name)
    watched = await hands.call("rift_watch", repo=program.REPO, ref=name, warm=0)
    assert watched.refused is None, watched.text
    yield name
    await hands.call("rift_unwatch", repo=program.REPO, ref=name)
    program.git(hands.stack.data / "origin", "branch", "-D", name)


async def test_a_warm_box_is_claimed_at_once_and_the_answer_has_its_id_name_and_status(hands: Hands) -> None:
    warm = await ready(hands.stack)
    said = await hands.call("rift_vm_new", task=hands.task, repo=program.REPO, ref="main")
    assert said.text.splitlines()[0] == "running"
    assert said.found(r"^id (\S+), name ") == warm
    assert re.search(r"^id b-[0-9a-f]{24}, name app-main-\d+$", said.text, re.MULTILINE)
    head = program.git(hands.stack.data / "origin", "rev-parse", "main")
    assert f"acme/app at main, commit {head}" in said.text
    assert PERSISTS in said.text
    assert said.next is not None
    assert said.next[0] == "rift_bash"
    assert "The first commit" in (await hands.go(said.next))["output"]
    assert await ready(hands.stack) != warm  # the pool is full again


async def test_where_the_pool_has_none_a_box_is_started_cold(hands: Hands, branch: str) -> None:
    said = await hands.call("rift_vm_new", task=hands.task, repo=program.REPO, ref=branch)
    assert said.text.splitlines()[0] == "running"
    assert said.seconds < 30
    hands.vm = said.found(r"^id (b-[0-9a-f]{24}), name app-" + branch + r"-1$")
    assert (await hands.bash("git rev-parse --abbrev-ref HEAD"))["output"] == f"{branch}\n"


async def test_a_box_is_never_of_an_older_head(hands: Hands, branch: str) -> None:
    await hands.call("rift_watch", repo=program.REPO, ref=branch, warm=1)
    old = await ready(hands.stack, branch)
    origin = hands.stack.data / "origin"
    tree = program.git(origin, "rev-parse", "main^{tree}")
    head = program.git(origin, "commit-tree", tree, "-p", branch, "-m", "A newer commit")
    program.git(origin, "update-ref", f"refs/heads/{branch}", head)

    def moved() -> bool:
        return hands.stack.sql("SELECT commit FROM heads WHERE ref = %(ref)s", ref=branch) == [{"commit": head}]

    await eventually(moved, within=30, every=0.1)
    await hands.take(branch)
    assert (await hands.bash("git rev-parse HEAD"))["output"] == f"{head}\n"
    assert hands.vm != old
    await eventually(lambda: old not in hands.stack.boxes, within=60, every=0.2)


async def test_no_box_is_handed_out_twice(hands: Hands) -> None:
    others = [Hands(hands.stack) for _ in range(2)]
    for other in others:
        await other.open()
    taken = await asyncio.gather(*(one.take() for one in (hands, *others)))
    assert len(set(taken)) == 3
    for other in others:
        await other.close()


async def test_an_unwatched_ref_names_the_watch_to_ask_an_admin_for(hands: Hands) -> None:
    program.git(hands.stack.data / "origin", "branch", "-f", "unwatched")
    for ref in ("unwatched", "nowhere"):
        said = await hands.call("rift_vm_new", task=hands.task, repo=program.REPO, ref=ref)
        assert said.refused == "ref_not_watched"
        assert said.mend("rift_watch") == {"repo": program.REPO, "ref": ref, "warm": 1}
    assert (await hands.vms()) == []
    grace = Hands(hands.stack, "grace")
    await grace.open()
    said = await grace.call("rift_vm_new", task=grace.task, repo=program.REPO, ref="main")
    assert said.refused == "no_such_repository"
    await grace.close()


async def test_a_list_has_each_box_with_its_status_and_open_commands_and_what_persists(hands: Hands) -> None:
    await hands.take()
    waits = (await hands.bash("sleep 60", block_for=0))["command"]
    said = await hands.call("rift_vm_ls", task=hands.task)
    (vm,) = said["vms"]
    head = program.git(hands.stack.data / "origin", "rev-parse", "main")
    assert {name: vm[name] for name in ("id", "status", "repository", "ref", "commit")} == {
        "id": hands.vm, "status": "running", "repository": program.REPO, "ref": "main", "commit": head,
    }  # fmt: skip
    assert re.fullmatch(r"app-main-\d+", vm["name"])
    assert [one["id"] for one in vm["open_commands"]] == [waits]
    assert PERSISTS in said.text
    assert PERSISTS in said["persists"]
    await hands.stop(waits)


async def test_destroying_one_box_removes_everything_of_it_and_nothing_of_another(hands: Hands) -> None:
    keeps = await hands.take()
    goes = await hands.take()
    await hands.bash("nohup sleep 600 >/dev/null 2>&1 & mkdir -p /tmp/a; chmod 0 /tmp/a; sudo true 2>/dev/null; true")
    running = (await hands.bash("sleep 600", block_for=0))["command"]
    assert hands.stack.processes(goes)
    said = await hands.call("rift_vm_destroy", task=hands.task, vm=goes)
    assert said.text.startswith("destroyed: ")
    assert goes not in hands.stack.boxes
    assert not hands.stack.processes(goes)
    assert not [line for line in Path("/proc/mounts").read_text().splitlines() if goes in line]
    assert [vm["id"] for vm in await hands.vms()] == [keeps]
    ended = await hands.output((running, 0))
    assert (ended["status"], ended["exit"]) == ("finished", None)
    assert ended["reason"] == "box destroyed; its output is kept nowhere any more"
    gone = await hands.bash("true", vm=goes)
    assert gone.refused == "vm_gone"
    assert gone.mend("rift_vm_new") == {"task": "<your handle>", "repo": program.REPO, "ref": "main"}
    assert (await hands.bash("true", vm=keeps))["exit"] == 0


async def test_three_rounds_of_parking_keep_the_files_and_a_living_process(hands: Hands) -> None:
    """The process counts while the box runs, and stands still while it is parked."""
    await hands.take()
    count = "n=0; while :; do n=$((n + 1)); echo $n >/tmp/n.new; mv /tmp/n.new /tmp/n; sleep 0.05; done"
    await hands.bash(
        f"nohup sh -c '{count}' >/dev/null 2>&1 & echo $! >/tmp/pid; echo 0 >~/rounds; echo x >in-checkout"
    )
    seen = 0
    for turn in range(1, 4):
        await hands.bash(f"echo round {turn} >>~/rounds")
        assert (await hands.suspend()).text.startswith("parked: ")
        assert await hands.status(hands.vm) == "parked"
        states = {line.split()[0]: Path(f"/proc/{line.split()[0]}/stat") for line in hands.stack.processes(hands.vm)}
        counting = [stat.read_text().rpartition(")")[2].split()[0] for stat in states.values()]
        assert "T" in counting
        said = await hands.bash("cat /tmp/n; kill -0 $(cat /tmp/pid); echo $?; cat ~/rounds; cat in-checkout; date +%s")
        n, alive, *rounds, here, now = said["output"].splitlines()
        assert (alive, here) == ("0", "x")
        assert rounds == ["0", *(f"round {one}" for one in range(1, turn + 1))]
        assert await hands.status(hands.vm) == "running"
        (row,) = hands.stack.sql("SELECT extract(epoch FROM clock_timestamp()) AS now")
        assert abs(int(now) - row["now"]) < 5

        async def counts_on(since: int = int(n)) -> bool:
            return int((await hands.bash("cat /tmp/n"))["output"]) > since

        await eventually(counts_on, within=10)
        assert int(n) > seen
        seen = int(n)
    await hands.bash("kill $(cat /tmp/pid)")


@pytest.mark.parametrize("tool", ["rift_bash", "rift_read", "rift_write"])
async def test_the_next_call_on_a_parked_box_resumes_it(hands: Hands, tool: str) -> None:
    await hands.take()
    await hands.suspend()
    calls: dict[str, dict[str, object]] = {
        "rift_bash": {"command": "echo awake", "timeout": 60, "block_for": 45},
        "rift_read": {"path": "README.md"},
        "rift_write": {"path": "new", "content": "x"},
    }
    said = await hands.call(tool, task=hands.task, vm=hands.vm, **calls[tool])
    assert (said["status"], said["exit"]) == ("finished", 0)
    assert await hands.status(hands.vm) == "running"


async def test_a_box_with_an_open_command_does_not_park(hands: Hands) -> None:
    await hands.take()
    open = (await hands.bash("until test -e /tmp/over; do sleep 0.05; done; echo over", block_for=0))["command"]
    said = await hands.suspend()
    assert said.refused == "vm_busy"
    assert open in said.text
    assert [one["id"] for one in said.mend("rift_output")["commands"]] == [open]
    assert said.mend("rift_stop")["id"] == open
    hands.stack.sql("UPDATE boxes SET used_at = used_at - interval '31 minutes' WHERE id = %(vm)s", vm=hands.vm)
    quiet = await hands.take()
    hands.stack.sql("UPDATE boxes SET used_at = used_at - interval '31 minutes' WHERE id = %(vm)s", vm=quiet)

    async def parked() -> bool:
        return await hands.status(quiet) == "parked"

    await eventually(parked, within=30, every=0.2)
    busy = open.rpartition(".")[0]
    assert await hands.status(busy) == "running"
    await hands.bash("touch /tmp/over", vm=busy)
    assert (await hands.until_ended(open))["output"] == "over\n"


async def test_a_box_used_lately_is_not_parked(hands: Hands) -> None:
    old = await hands.take()
    used = await hands.take()
    minutes = {old: 31, used: 29}
    for vm, quiet in minutes.items():
        hands.stack.sql(
            "UPDATE boxes SET used_at = used_at - %(quiet)s WHERE id = %(vm)s", quiet=timedelta(minutes=quiet), vm=vm
        )

    async def parked() -> bool:
        return await hands.status(old) == "parked"

    await eventually(parked, within=30, every=0.2)
    assert await hands.status(used) == "running"


async def test_two_boxes_of_one_name_are_refused_by_it_and_had_by_their_ids(hands: Hands, branch: str) -> None:
    """The branches `x/y` and `x-y` give their boxes one name."""
    slashed = branch.replace("-", "/", 1)
    program.git(hands.stack.data / "origin", "branch", slashed)
    await hands.call("rift_watch", repo=program.REPO, ref=slashed, warm=0)
    one, two = await hands.take(branch), await hands.take(slashed)
    name = f"app-{branch}-1"
    assert [vm["name"] for vm in await hands.vms()] == [name, name]
    said = await hands.bash("touch /tmp/never", vm=name)
    assert said.refused == "vm_ambiguous"
    assert one in said.text
    assert two in said.text
    for vm in (one, two):
        assert (await hands.bash("ls /tmp/never", vm=vm))["exit"] == 2
    await hands.call("rift_vm_destroy", task=hands.task, vm=one)
    by_name = await hands.bash("git rev-parse --abbrev-ref HEAD", vm=name)
    assert by_name["output"] == f"{slashed}\n"
    assert by_name["command"].startswith(f"{two}.")
    await hands.call("rift_unwatch", repo=program.REPO, ref=slashed)
    program.git(hands.stack.data / "origin", "branch", "-D", slashed)


async def test_a_box_made_before_there_were_ids_has_its_name_as_its_id(hands: Hands) -> None:
    """An id is text: a row from before, whose id is its name with a dot in it, is listed and refused like any other."""
    hands.stack.sql(
        "INSERT INTO boxes (id, name, number, repo, ref, commit, task, state, used_at, created_at, incarnation) "
        "SELECT 'app-v1.0-7', 'app-v1.0-7', 7, id, 'v1.0', 'c', %(task)s, 'failed', now(), now(), 1 FROM repos",
        task=hands.id,
    )
    assert [(vm["id"], vm["name"]) for vm in await hands.vms()] == [("app-v1.0-7", "app-v1.0-7")]
    unknown = await hands.output(("app-v1.0-7.3", 0))
    assert (unknown["status"], unknown["command"]) == ("did not run", "app-v1.0-7.3")
    assert (await hands.bash("true", vm="app-v1.0-7")).refused == "vm_failed"
