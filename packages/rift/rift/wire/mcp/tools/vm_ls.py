"""rift_vm_ls: the task's boxes."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from keel.refusal import YOUR_HANDLE, Refusal
from keel.refusal import Call as CallMend
from rift.boxes import actions
from rift.boxes.model import BoxLine
from rift.wire.mcp import schemas
from rift.wire.mcp.common import BOX, NEXT, TASK
from rift.wire.mcp.render import PERSISTS, box_line_value, box_lines, lines, next_line
from rift.wire.mcp.tool import Answer, Call, Tool


async def run(call: Call, arguments: Mapping[str, Any]) -> Answer | Refusal:
    """List them with their open commands."""
    boxes = await actions.list_boxes(call.deps, call.act, arguments["task"])
    return boxes if isinstance(boxes, Refusal) else render(boxes, call.deps.clock.now())


def render(boxes: list[BoxLine], now: datetime) -> Answer:
    """The list as a text and as a structure."""
    after = next_of(boxes)
    count = f"{len(boxes) or 'no'} VM{'' if len(boxes) == 1 else 's'}"
    persists = PERSISTS if boxes else None
    return Answer(
        lines(count, *(box_lines(line, now) for line in boxes), persists, next_line(after) if after else None),
        {
            "vms": [box_line_value(line) for line in boxes],
            "persists": PERSISTS,
            "next": after.text if after else None,
        },
    )


def next_of(boxes: list[BoxLine]) -> CallMend | None:
    """Another look while one starts, else a VM where there is none."""
    if not boxes:
        return CallMend("rift_vm_new", {"task": YOUR_HANDLE, "repo": "<owner/name>", "ref": "<branch>"})
    if any(line.box.state == "starting" for line in boxes):
        return CallMend("rift_vm_ls", {"task": YOUR_HANDLE})
    return None


TOOL = Tool(
    name="rift_vm_ls",
    title="List the task's VMs",
    description=(
        "Lists the task's VMs: id, name, status, repository, ref, commit, and each one's open commands. It also says "
        "what persists on a VM. Poll it after rift_vm_new while a VM is starting."
    ),
    input_schema=schemas.arguments(required={"task": TASK}),
    output_schema=schemas.answer(
        vms=schemas.array(
            schemas.answer(
                **BOX,
                doing=schemas.nullable("string", "Of one that is starting: what is being done for it."),
                failure=schemas.nullable("string"),
                lacks=schemas.nullable("string", "What its checkout lacks."),
                open_commands=schemas.array(
                    schemas.answer(
                        id=schemas.string(),
                        kind=schemas.string(),
                        input=schemas.string(),
                        started=schemas.boolean(),
                        at=schemas.string(),
                    )
                ),
            )
        ),
        persists=schemas.string(),
        next=NEXT,
    ),
    run=run,
    example={"task": YOUR_HANDLE},
    read_only=True,
)
