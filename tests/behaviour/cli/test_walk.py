"""From nothing to a first box, by a client that knows one tool, rift_whoami, and does what answers say."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

from tests.behaviour.cli.systems import Running, rift, system

from keel.refusal import YOUR_HANDLE

CALL = re.compile(r"(rift_\w+)(?: (\{.*\}))?$")
STEPS_MOST = 25


@dataclass
class Walker:
    """A client without any knowledge of Rift: every call but the first is one that an answer has given it."""

    rift: Running
    token: str
    handle: str = ""
    box: str = ""
    walked: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    """What it had to ask a person for."""

    async def do(self, tool: str, arguments: dict[str, Any]) -> tuple[bool, str]:
        """Make a call with the handle in its place; whether it was refused, and what was said."""
        assert len(self.walked) < STEPS_MOST, self.walked
        self.walked.append(tool)
        given = {name: self.handle if value == YOUR_HANDLE else value for name, value in arguments.items()}
        reply = await self.rift.raw(tool, self.token, **given)
        assert reply.status == 200, reply
        text = "\n".join(block["text"] for block in reply.result["content"])
        if found := re.search(r"^handle: (\S+)$", text, re.MULTILINE):
            self.handle = found[1]
        if found := re.search(r"^id (b-[0-9a-f]{24})", text, re.MULTILINE):
            self.box = found[1]
        return bool(reply.result.get("isError")), text

    async def walk(self) -> None:
        """Until there is a box, or only a person can go on."""
        while not self.box:
            _, text = await self.do("rift_whoami", {})
            gaps = [line for line in text.splitlines() if line.startswith("gap: ")]
            self.asked = [line for line in gaps if not CALL.search(line)]
            ready = [line for line in text.splitlines() if line.startswith("ready: ")]
            found = [call for line in gaps if (call := CALL.search(line))][:1]
            found = found or [call for line in ready if (call := CALL.search(line))]
            if not found:
                return
            for call in found:
                await self.follow(call)

    async def follow(self, call: re.Match[str]) -> None:
        """Make a call; where it is refused, the call that the refusal names, then this one again."""
        arguments = json.loads(call[2] or "{}")
        refused, text = await self.do(call[1], arguments)
        if refused:
            mend = next(found for line in text.splitlines() if (found := CALL.match(line)))
            assert (await self.do(mend[1], json.loads(mend[2] or "{}")))[0] is False
            refused, text = await self.do(call[1], arguments)
        assert not refused, text


async def test_a_client_that_knows_only_whoami_gets_from_nothing_to_a_box() -> None:
    with system() as one:
        rift("user", "add", "new@example.com", "--data", one.data)
        told = rift("token", "new", "--user", "new@example.com", "--client", "Newcomer", "--data", one.data)
        walker = Walker(one, told.out.split()[-1])
        await walker.walk()
        assert walker.box == ""
        assert [line for line in walker.asked if "rift repo add" in line]

        await one.call("rift_org_new", name="Robots & Co")
        await one.call("rift_org_invite", org="Robots & Co", email="new@example.com", role="admin")
        await walker.walk()
        assert walker.walked[-1] == "rift_whoami"
        assert "rift_org_accept" in walker.walked
        assert [line for line in walker.asked if "rift repo add" in line]

        rift("repo", "add", "robots/arm", one.data / "sample", "--org", "Robots & Co", "--data", one.data)
        await walker.walk()
        assert walker.box
        assert walker.walked[-3:] == ["rift_whoami", "rift_task_new", "rift_vm_new"]
        assert "rift_watch" in walker.walked
        refused, text = await walker.do(
            "rift_bash",
            {"task": walker.handle, "vm": walker.box, "command": "python3 -m unittest", "timeout": 60, "block_for": 45},
        )
        assert not refused
        assert text.startswith("finished")
