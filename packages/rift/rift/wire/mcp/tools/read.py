"""rift_read: a file, as the jail sees it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from keel.refusal import YOUR_HANDLE, Refusal
from keel.refusal import Call as CallMend
from rift.commands import actions
from rift.commands.actions import Wanted
from rift.commands.model import Answer as CommandAnswer
from rift.names import BLOCK_MOST, READ_BYTES
from rift.wire.mcp import schemas
from rift.wire.mcp.common import COMMAND_ANSWER, EXAMPLE_VM, TASK, VM, WHOLE
from rift.wire.mcp.render import command_answer
from rift.wire.mcp.tool import Answer, Call, Tool

TOO_LARGE = "rift_read gives up to"
"""How the box says that a text file is more than one answer holds."""


async def run(call: Call, arguments: Mapping[str, Any]) -> Answer | Refusal:
    """Queue it and wait for it."""
    wanted = Wanted("read", arguments["path"])
    answer = await actions.run(
        call.deps, call.act, call.deadline, arguments["task"], arguments["vm"], wanted, BLOCK_MOST, call.progress
    )
    return answer if isinstance(answer, Refusal) else command_answer(answer, in_parts(answer))


def in_parts(answer: CommandAnswer) -> CallMend | None:
    """For a file that is too large, the rift_bash call that reads its first part."""
    if TOO_LARGE not in (answer.report.reason or ""):
        return None
    command = f"head -c {READ_BYTES} -- {shlex.quote(answer.input)}"
    vm = answer.report.id.rpartition(".")[0]
    return CallMend(
        "rift_bash", {"task": YOUR_HANDLE, "vm": vm, "command": command, "timeout": 60, "block_for": BLOCK_MOST}
    )


TOOL = Tool(
    name="rift_read",
    title="Read a file",
    description=(
        "Gives a file of the VM: up to 64 KiB of text, or an image. For a larger file the answer has its size and "
        "the rift_bash call that reads a part; a missing or binary file or a folder ends with exit 1 and the reason."
    ),
    input_schema=schemas.arguments(
        required={"task": TASK, "vm": VM, "path": schemas.string("Absolute, or relative to the checkout.")}
    ),
    output_schema=COMMAND_ANSWER,
    meta=WHOLE,
    run=run,
    example={"task": YOUR_HANDLE, "vm": EXAMPLE_VM, "path": "README.md"},
    read_only=True,
    goes_on=True,
    large=True,
)
