"""rift_vm_destroy: destroys one box."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from keel.refusal import YOUR_HANDLE, Refusal
from keel.refusal import Call as CallMend
from rift.boxes import actions
from rift.boxes.model import Box
from rift.wire.mcp import schemas
from rift.wire.mcp.common import EXAMPLE_VM, TASK, VM
from rift.wire.mcp.render import lines, next_line
from rift.wire.mcp.tool import Answer, Call, Tool


async def run(call: Call, arguments: Mapping[str, Any]) -> Answer | Refusal:
    """Destroy it; answer when it is gone, or say that it is going."""
    box = await actions.destroy(call.deps, call.act, arguments["task"], arguments["vm"], call.progress)
    return box if isinstance(box, Refusal) else Answer(render(box))


def render(box: Box) -> str:
    """Whether it is gone."""
    if box.state == "destroyed":
        return f"destroyed: VM {box.id} ({box.name}), with its checkout and its state."
    return lines(
        f"{box.state}: VM {box.id} ({box.name}) takes no more commands; its destruction goes on by itself.",
        next_line(CallMend("rift_vm_ls", {"task": YOUR_HANDLE})),
    )


TOOL = Tool(
    name="rift_vm_destroy",
    title="Destroy a VM",
    description=(
        "Destroys one VM of the task, with its checkout, its state and its commands. Destroy a VM made for a short "
        "job, as a subagent's check or a test run, when the job is done."
    ),
    input_schema=schemas.arguments(required={"task": TASK, "vm": VM}),
    run=run,
    example={"task": YOUR_HANDLE, "vm": EXAMPLE_VM},
    destructive=True,
    idempotent=True,
)
