"""rift_write: writes a file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from keel.refusal import YOUR_HANDLE, Refusal
from rift.commands import actions
from rift.commands.actions import Wanted
from rift.names import BLOCK_MOST
from rift.wire.mcp import schemas
from rift.wire.mcp.common import COMMAND_ANSWER, EXAMPLE_VM, TASK, VM
from rift.wire.mcp.render import command_answer
from rift.wire.mcp.tool import Answer, Call, Tool


async def run(call: Call, arguments: Mapping[str, Any]) -> Answer | Refusal:
    """Queue it and wait for it."""
    wanted = Wanted("write", arguments["path"], content=arguments["content"])
    answer = await actions.run(
        call.deps, call.act, call.deadline, arguments["task"], arguments["vm"], wanted, BLOCK_MOST, call.progress
    )
    return answer if isinstance(answer, Refusal) else command_answer(answer)


TOOL = Tool(
    name="rift_write",
    title="Write a file",
    description=(
        "Writes a file of the VM whole, up to 8 MiB of text: it replaces what is there, keeps its mode, and makes "
        "parent folders. The file persists for the VM's life."
    ),
    input_schema=schemas.arguments(
        required={
            "task": TASK,
            "vm": VM,
            "path": schemas.string("Absolute, or relative to the checkout."),
            "content": schemas.string("The whole file."),
        }
    ),
    output_schema=COMMAND_ANSWER,
    run=run,
    example={"task": YOUR_HANDLE, "vm": EXAMPLE_VM, "path": "notes.txt", "content": "<the whole file>"},
    destructive=True,
    idempotent=True,
)
