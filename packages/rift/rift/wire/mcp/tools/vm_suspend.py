"""rift_vm_suspend: parks one box."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from keel.refusal import YOUR_HANDLE, Refusal
from rift.boxes import actions
from rift.boxes.model import Box
from rift.wire.mcp import schemas
from rift.wire.mcp.common import EXAMPLE_VM, TASK, VM
from rift.wire.mcp.tool import Answer, Call, Tool


async def run(call: Call, arguments: Mapping[str, Any]) -> Answer | Refusal:
    """Park it."""
    box = await actions.suspend(call.deps, call.act, arguments["task"], arguments["vm"])
    return box if isinstance(box, Refusal) else Answer(render(box))


def render(box: Box) -> str:
    """Its status, and what wakes it."""
    kept = "it keeps its checkout and its state, and as a rule its processes"
    wakes = "the next rift_bash, rift_read or rift_write on it resumes it"
    return f"{box.state}: VM {box.id} ({box.name}); {kept}; {wakes}."


TOOL = Tool(
    name="rift_vm_suspend",
    title="Park a VM",
    description=(
        "Parks a VM: it keeps its checkout, its state and as a rule its processes, and the next rift_bash, rift_read "
        "or rift_write on it resumes it. A running VM costs money, so park each one you are not using. A VM with an "
        "open command is not parked."
    ),
    input_schema=schemas.arguments(required={"task": TASK, "vm": VM}),
    run=run,
    example={"task": YOUR_HANDLE, "vm": EXAMPLE_VM},
    idempotent=True,
)
