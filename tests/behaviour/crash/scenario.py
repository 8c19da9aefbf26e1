"""What a client does with a Rift, in phases, and what must be true of it afterwards whatever was killed meanwhile."""

from __future__ import annotations

import asyncio
import glob
import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.behaviour.crash.cells import Cell, Gone, Said
from tests.behaviour.stack import program

REPO = program.REPO
LINES = "".join(f"{n}\n" for n in range(1, 201))
RUN = 'echo "$RIFT_COMMAND" >>~/runs; seq 1 200; exit 7'
"""Leaves one line in the box each time that it is run, whoever runs it."""
SHARED_LOCKS = (".lock-lib", ".lock-uids", ".lock-cgroups", ".lock-trial")
"""No box's own: one that a killed process left goes with the lock's next use."""
PERIODIC = ("boxes.upkeep", "boxes.sweep", "tasks.close_quiet", "commands.expire", "pools.scan", "origins.poll")


class Client:
    """Works in a cell as an agent does: what it cannot repeat blindly it looks up first."""

    def __init__(self, cell: Cell) -> None:
        self.cell = cell
        self.task = ""
        self.vm = ""
        self.had: list[str] = []

    async def play(self, targets: Mapping[str, str]) -> list[str]:
        """Every phase, each with its target if it has one. The targets that were not reached."""
        passing = asyncio.create_task(self.cell.time_passes())
        try:
            return await self.all_phases(targets)
        finally:
            passing.cancel()

    async def all_phases(self, targets: Mapping[str, str]) -> list[str]:
        """As `play`, where time does not pass."""
        missed = []
        for phase in PHASES:
            target = targets.get(phase, "")
            self.cell.begin(phase, target)
            if phase == "start":
                await self.cell.have_server()
            await getattr(self, phase)()
            await self.settle()
            if target.startswith("* "):  # it comes round within a second or two
                await self.cell.soon(self.cell.killed_once)
                await self.settle()
            if target and target not in self.cell.killed():
                missed.append(target)
        self.cell.begin("after")
        await self.see_nothing_left()
        return missed

    async def start(self) -> None:
        """The server begins: nobody is there yet."""
        await self.cell.call("rift_whoami")

    async def open(self) -> None:
        """A task, looked for before another one is opened."""
        while not self.task:
            try:
                said = await self.cell.once("rift_task_new", name="work")
                self.task = said.structure["handle"] if "handle" in said.structure else _handle(said)
            except Gone:
                continue

    async def cold(self) -> None:
        """A box, started for this task."""
        await self.cell.call("rift_watch", repo=REPO, ref="main", warm=0)
        self.vm = await self.take()

    async def take(self) -> str:
        """One box more. After a lost answer the list tells whether it was made."""
        while True:
            try:
                said = await self.cell.once("rift_vm_new", task=self.task, repo=REPO, ref="main")
                assert said.refused is None, f"{said.text}\n{self.cell.state()}\n{self.cell.log()}"
            except Gone:
                pass
            vms = (await self.cell.call("rift_vm_ls", task=self.task)).structure["vms"]
            new = [vm["id"] for vm in vms if vm["id"] not in self.had]
            if new:
                assert len(new) == 1, vms
                self.had.append(new[0])
                await self.runs(new[0])
                return str(new[0])

    async def runs(self, vm: str) -> None:
        """Until it runs."""
        await self.cell.until(lambda: self.box(vm)["state"] != "starting", what=f"{vm} running")
        assert self.box(vm)["state"] == "running", f"{self.box(vm)}\n{self.cell.state()}\n{self.cell.log()}"

    def box(self, vm: str) -> dict[str, Any]:
        """Its row."""
        return self.cell.rows("SELECT * FROM boxes WHERE id = %(vm)s", vm=vm)[0]

    async def command(self) -> None:
        """One command to its end; one whose fate is not known is sent anew, as another command."""
        while True:
            said = await self.send("rift_bash", command=RUN, timeout=60, block_for=20)
            if said is None:
                continue
            status = await self.followed(said)
            if done(status):
                assert status["exit"] == 7, status
                return

    async def send(self, tool: str, **arguments: Any) -> Said | None:
        """A command's answer; None when it is lost."""
        try:
            said = await self.cell.once(tool, task=self.task, vm=self.vm, **arguments)
        except Gone:
            return None
        if said.refused == "too_many_open":
            await self.cell.until(self.settled, what="the end of what is open")
            return None
        assert said.refused is None, f"{said.text}\n{self.cell.state()}\n{self.cell.log()}"
        return said

    async def followed(self, said: Said) -> dict[str, Any]:
        """The structure of a command once it has ended, or is lost for good."""
        id = said.structure["command"]
        n = int(id.rpartition(".")[2])

        def ended() -> Any:
            return self.cell.rows(
                "SELECT state FROM commands WHERE box = %(vm)s AND n = %(n)s AND state NOT IN ('queued', 'claimed')",
                vm=self.vm, n=n,
            )  # fmt: skip

        await self.cell.until(ended, what=f"the end of {id}")
        answer = await self.cell.call("rift_output", task=self.task, commands=[{"id": id, "offset": 0}], block_for=0)
        listed = answer.structure.get("commands", [answer.structure])
        return dict(listed[0])

    async def write(self) -> None:
        """A file, written whole or not at all."""
        while True:
            said = await self.send("rift_write", path="note.txt", content="kept\n" * 1000)
            if said and done(status := await self.followed(said)):
                assert status["exit"] == 0, status
                return

    async def read(self) -> None:
        """What was written."""
        while True:
            said = await self.send("rift_read", path="note.txt")
            if said:
                status = await self.followed(said)
                if done(status):
                    assert status["exit"] == 0, status
                    assert status["output"] == "kept\n" * 1000, status
                    return

    async def stop(self) -> None:
        """A command that would last, stopped."""
        while True:
            said = await self.send("rift_bash", command="echo up; sleep 600", timeout=900, block_for=0)
            if said is None:
                continue
            await self.cell.call("rift_stop", task=self.task, id=said.structure["command"])
            status = await self.followed(said)
            if status["status"] in ("finished", "did not run"):
                assert status["exit"] != 0, status
                break
        for one in (await self.cell.call("rift_vm_ls", task=self.task)).structure["vms"]:
            for command in one["open_commands"]:
                await self.cell.call("rift_stop", task=self.task, id=command["id"])

    async def park(self) -> None:
        """Parked, with its files. What is open ends first."""
        while True:
            said = await self.cell.call("rift_vm_suspend", task=self.task, vm=self.vm)
            if said.refused is None:
                break
            assert said.refused == "vm_busy", said.text
            await asyncio.sleep(0.1)
        assert self.box(self.vm)["state"] == "parked"

    async def resume(self) -> None:
        """A command wakes it."""
        await self.command()
        assert self.box(self.vm)["state"] == "running"

    async def warm(self) -> None:
        """A warm box is made ahead."""
        await self.cell.call("rift_watch", repo=REPO, ref="main", warm=1)
        await self.cell.until(lambda: self.cell.rows(
            "SELECT 1 FROM boxes WHERE task IS NULL AND state = 'running'"), what="a warm box")  # fmt: skip

    async def claim(self) -> None:
        """It is claimed, and another made."""
        await self.take()
        await self.warm()

    async def push(self) -> None:
        """The head moves: the warm box is replaced by one at the new head."""
        origin = self.cell.data / "origin"
        await asyncio.to_thread(program.git, origin, "commit", "-q", "--allow-empty", "-m", "another")
        head = await asyncio.to_thread(program.git, origin, "rev-parse", "HEAD")
        await self.cell.until(lambda: self.cell.rows(
            "SELECT 1 FROM boxes WHERE task IS NULL AND state = 'running' AND commit = %(head)s", head=head),
            what="a warm box at the new head")  # fmt: skip

    async def destroy(self) -> None:
        """One box goes, the other stays."""
        self.look()
        gone = self.had[-1]
        await self.cell.call("rift_vm_destroy", task=self.task, vm=gone)
        await self.cell.until(lambda: self.box(gone)["state"] == "destroyed", what="its destruction")
        assert not self.cell.processes(gone)

    async def close(self) -> None:
        """The task ends, with what it has."""
        await self.outputs()
        self.look()
        said = await self.cell.call("rift_task_close", task=self.task)
        assert said.refused in (None, "task_closed"), said.text

    async def unwatch(self) -> None:
        """Nothing is wanted any more. Tasks whose answer was lost are closed too."""
        await self.cell.call("rift_unwatch", repo=REPO, ref="main")
        for task in (await self.cell.call("rift_task_ls")).structure["tasks"]:
            taken = await self.cell.call("rift_task_attach", task=task["id"], takeover=True)
            await self.cell.call("rift_task_close", task=_handle(taken))

    async def settle(self) -> None:
        """Until nothing is on its way: no job but those that come round, no command open, each box where it stays."""
        await self.cell.until(self.settled, what=f"{self.cell.phase}: peace")

    def settled(self) -> bool:
        """Whether that is so now."""
        going = self.cell.rows(
            """
            SELECT 1 FROM procrastinate_jobs WHERE status IN ('todo', 'doing') AND task_name <> ALL(%(periodic)s)
            UNION ALL SELECT 1 FROM boxes WHERE state IN ('starting', 'destroying')
            UNION ALL SELECT 1 FROM commands WHERE state IN ('queued', 'claimed')
            """,
            periodic=[*PERIODIC, "ledger.months"],
        )
        running = self.cell.rows("SELECT id FROM boxes WHERE state = 'running'")
        return not going and all(self.cell.agent_lives(row["id"]) for row in running)

    async def outputs(self) -> None:
        """Every command that ended by itself is told whole, each byte once."""
        for row in self.cell.rows("SELECT box, n FROM commands WHERE input = %(run)s AND exit IS NOT NULL", run=RUN):
            commands = [{"id": f"{row['box']}.{row['n']}", "offset": 0}]
            said = await self.cell.call("rift_output", task=self.task, commands=commands, block_for=5)
            one = said.structure["commands"][0] if "commands" in said.structure else said.structure
            assert one["output"] == LINES, one

    def look(self) -> None:
        """What was run is what the rows say."""
        for vm in self.had:
            if self.box(vm)["state"] == "destroyed":
                continue
            runs = self.cell.data / "boxes" / vm / "home" / "runs"
            lines = runs.read_text().splitlines() if runs.exists() else []
            assert len(lines) == len(set(lines)), f"run twice: {lines}\n{self.cell.state()}"
            for row in self.cell.rows(
                "SELECT n, state, exit FROM commands WHERE box = %(vm)s AND input = %(run)s", vm=vm, run=RUN
            ):
                there = f"{vm}.{row['n']}" in lines
                assert row["state"] != "unrun" or not there, f"it ran after all: {row}"
                assert row["state"] != "finished" or (there and row["exit"] in (7, None)), f"it did not: {row} {lines}"
            drafts = [path.name for path in (self.cell.data / "boxes" / vm / "home").glob("*/.rift-write-*")]
            assert not drafts, drafts

    async def see_nothing_left(self) -> None:
        """Of boxes, of work, of locks."""
        await self.cell.until(lambda: not self.left(), within=45, what=f"nothing left: {self.left()}")

    def left(self) -> list[str]:
        """Whatever is still there."""
        data = self.cell.data
        mounted = Path("/proc/mounts").read_text().splitlines()
        mounts = [line.split()[1] for line in mounted if f"{data.name}/boxes" in line]
        files = [str(path) for path in (data / "boxes").iterdir() if path.name not in SHARED_LOCKS]
        pins = [
            ref for mirror in (data / "mirrors").glob("[!.]*")
            for ref in program.git(mirror, "for-each-ref", "--format=%(refname)", "refs/rift").splitlines()
        ]  # fmt: skip
        rows = self.cell.rows(
            """
            SELECT 'box ' || id AS left FROM boxes WHERE state <> 'destroyed'
            UNION ALL SELECT 'command ' || box || '.' || n FROM commands WHERE state IN ('queued', 'claimed')
            UNION ALL SELECT 'task ' || id FROM tasks WHERE status <> 'closed'
            UNION ALL SELECT 'ask ' || id FROM asks WHERE created_at < now() - interval '70 seconds'
            UNION ALL SELECT 'job ' || task_name FROM procrastinate_jobs
                      WHERE status IN ('todo', 'doing') AND task_name <> ALL(%(periodic)s)
            """,
            periodic=[*PERIODIC, "ledger.months"],
        )
        groups = glob.glob(f"/sys/fs/cgroup/**/rift-{_digest(data)}*", recursive=True)
        rest = [row["left"] for row in rows] + [f"{process}" for process in self.cell.processes()]
        return [*mounts, *files, *pins, *groups, *rest]


def _digest(data: Path) -> str:
    return hashlib.sha256(os.fsencode(data.resolve())).hexdigest()[:12]


def done(status: dict[str, Any]) -> bool:
    """Whether a command came to its own end: it was not lost, nor ended with its jail, nor killed from outside."""
    killed = status["exit"] == 128 + 9 and "signal 9" in (status["reason"] or "")
    return status["status"] == "finished" and status["exit"] is not None and not killed


def _handle(said: Said) -> str:
    import re

    found = re.search(r"^handle: (\S+)$", said.text, re.MULTILINE)
    assert found, said.text
    return found[1]


PHASES = (
    *("start", "open", "cold", "command", "write", "read", "stop", "park", "resume"),
    *("warm", "claim", "push", "destroy", "close", "unwatch"),
)
