"""rift_task_close: closes the task and destroys its boxes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from keel.refusal import YOUR_HANDLE, Refusal
from rift.boxes import actions
from rift.boxes.model import Closed
from rift.wire.mcp import schemas
from rift.wire.mcp.common import TASK
from rift.wire.mcp.render import lines, quoted
from rift.wire.mcp.tool import Answer, Call, Tool


async def run(call: Call, arguments: Mapping[str, Any]) -> Answer | Refusal:
    """Close it; answer when its boxes are gone, or say which are still going."""
    closed = await actions.close_task(call.deps, call.act, arguments["task"], call.progress)
    return closed if isinstance(closed, Refusal) else Answer(render(closed))


def render(closed: Closed) -> str:
    """What became of the boxes."""
    head = f"closed the task {closed.task.id} {quoted(closed.task.name)}"
    if not closed.boxes:
        return f"{head}; it had no VMs."
    gone = [f"{box.id} ({box.name})" for box in closed.boxes if box.id not in closed.still]
    going = [f"{box.id} ({box.name})" for box in closed.boxes if box.id in closed.still]
    return lines(
        f"{head}.",
        f"destroyed: {', '.join(gone)}" if gone else None,
        f"still being destroyed: {', '.join(going)}; this goes on by itself, there is nothing to call."
        if going
        else None,
    )


TOOL = Tool(
    name="rift_task_close",
    title="Close a task",
    description=(
        "Closes the task and destroys all its VMs with their checkouts and state. Push or copy out what is to be "
        "kept first; nothing can be read afterwards."
    ),
    input_schema=schemas.arguments(required={"task": TASK}),
    run=run,
    example={"task": YOUR_HANDLE},
    destructive=True,
)
