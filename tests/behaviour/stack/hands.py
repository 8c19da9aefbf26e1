"""An agent's hands: calls of tools over MCP, and what came back, looked at as a client sees it."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field, replace
from typing import Any

from tests.behaviour.stack import program
from tests.behaviour.stack.stack import Stack
from tests.wire.clients import Raw

from keel.clock import SystemClock
from keel.testing import eventually
from rift.names import PERSONAL

__all__ = ["PERSONAL", "Hands", "Said"]


@dataclass(frozen=True)
class Said:
    """An answer: its text, its structure, and of a refusal its code and mends. `seconds`: how long it took."""

    text: str
    structure: dict[str, Any]
    refused: str | None
    mends: list[dict[str, Any]]
    seconds: float

    def __getitem__(self, name: str) -> Any:
        """A member of the structure."""
        assert self.refused is None, self.text
        return self.structure[name]

    def found(self, pattern: str) -> str:
        """The group of a pattern that the text must have."""
        match = re.search(pattern, self.text, re.MULTILINE)
        assert match, self.text
        return match[1]

    @property
    def next(self) -> tuple[str, dict[str, Any]] | None:
        """The exact next call that the text ends with: the tool and its arguments."""
        last = self.text.splitlines()[-1]
        if not last.startswith("next: "):
            return None
        tool, _, arguments = last.removeprefix("next: ").partition(" ")
        return tool, json.loads(arguments)

    def mend(self, tool: str) -> dict[str, Any]:
        """The arguments of the call of `tool` that mends a refusal; it stands in the text too."""
        found = next(one for one in self.mends if one.get("tool") == tool)
        assert re.search(rf"^{tool}( |$)", self.text, re.MULTILINE), self.text
        arguments: dict[str, Any] = found["arguments"]
        return arguments


@dataclass
class Hands:
    """One session of an agent: a client's token, and the task and the VM that its calls are about."""

    stack: Stack
    who: str = "ada"
    task: str = ""
    vm: str = ""
    clock: SystemClock = field(default_factory=SystemClock)

    async def call(self, tool: str, **arguments: Any) -> Said:
        """Call a tool with exactly these arguments."""
        began = self.clock.monotonic()
        reply = await Raw(self.stack.url, self.stack.tokens[self.who]).call(tool, arguments)
        took = self.clock.monotonic() - began
        assert reply.status == 200, (reply.status, reply.messages)
        result = reply.result
        text = "\n".join(block["text"] for block in result["content"] if block["type"] == "text")
        told = result.get("_meta", {}).get("rift/refusal", {}) if result.get("isError") else {}
        if result.get("isError"):
            assert told, text
            assert "structuredContent" not in result
        return Said(text, result.get("structuredContent") or {}, told.get("code"), told.get("mends", []), took)

    async def go(self, call: tuple[str, dict[str, Any]] | None) -> Said:
        """Make the call that an answer suggests, with the handle in its place."""
        assert call is not None
        tool, arguments = call
        return await self.call(tool, **{**arguments, "task": self.task})

    async def open(self, name: str = "some work") -> None:
        """Open a task and hold it."""
        self.task = (await self.call("rift_task_new", name=name)).found(r"^handle: (\S+)$")

    @property
    def id(self) -> str:
        """The task's id."""
        return self.task.partition(".")[0]

    async def take(self, ref: str = "main", repo: str = program.REPO) -> str:
        """Have another VM in the task, running; its id."""
        said = await self.call("rift_vm_new", task=self.task, repo=repo, ref=ref)
        assert said.refused is None, said.text
        self.vm = said.found(r"^id (b-[0-9a-f]{24}), name \S+$")

        async def runs() -> bool:
            return await self.status(self.vm) == "running"

        await eventually(runs, within=60, every=0.2)
        return self.vm

    async def vms(self) -> list[dict[str, Any]]:
        """The task's VMs."""
        listed: list[dict[str, Any]] = (await self.call("rift_vm_ls", task=self.task))["vms"]
        return listed

    async def status(self, vm: str) -> str | None:
        """How a VM of the task stands; None when it is not listed."""
        return next((one["status"] for one in await self.vms() if one["id"] == vm), None)

    async def bash(self, command: str, timeout: int = 60, block_for: int = 45, vm: str = "") -> Said:
        """Run a command in the VM."""
        return await self.call(
            "rift_bash", task=self.task, vm=vm or self.vm, command=command, timeout=timeout, block_for=block_for
        )

    async def read(self, path: str) -> Said:
        return await self.call("rift_read", task=self.task, vm=self.vm, path=path)

    async def write(self, path: str, content: str) -> Said:
        return await self.call("rift_write", task=self.task, vm=self.vm, path=path, content=content)

    async def output(self, *commands: tuple[str, int], block_for: int = 0) -> Said:
        """Wait for commands and read them, each from its offset."""
        listed = [{"id": id, "offset": offset} for id, offset in commands]
        return await self.call("rift_output", task=self.task, commands=listed, block_for=block_for)

    async def stop(self, id: str) -> Said:
        return await self.call("rift_stop", task=self.task, id=id)

    async def suspend(self) -> Said:
        return await self.call("rift_vm_suspend", task=self.task, vm=self.vm)

    async def until_ended(self, id: str, offset: int = 0) -> Said:
        """Read a command on until it ended and all of its output was read; the whole output in the last answer."""
        said = await self.output((id, offset), block_for=45)
        whole = said["output"]
        while said.next is not None:
            said = await self.go(said.next)
            whole += said["output"]
        return replace(said, structure={**said.structure, "output": whole})

    async def run(self, command: str, timeout: int = 60) -> Said:
        """Run a command to its end, whatever the length of its output."""
        began = await self.bash(command, timeout)
        if began.next is None:
            return began
        ended = await self.until_ended(began["command"], began["next_offset"])
        return replace(ended, structure={**ended.structure, "output": began["output"] + ended["output"]})

    async def close(self) -> None:
        """Close the task; nothing of its VMs is left afterwards."""
        mine = [vm["id"] for vm in await self.vms()]
        said = await self.call("rift_task_close", task=self.task)
        assert said.refused is None, said.text
        self.task = ""
        await eventually(lambda: not set(mine) & set(self.stack.boxes), within=60, every=0.2)
        left = [line for vm in mine for line in self.stack.processes(vm)]
        assert not left, left
