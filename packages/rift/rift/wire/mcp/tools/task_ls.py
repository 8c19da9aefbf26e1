"""rift_task_ls: the caller's open tasks."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from keel.refusal import Call as CallMend
from keel.refusal import Refusal
from rift.boxes import actions
from rift.boxes.model import TaskLine
from rift.times import rfc3339, when
from rift.wire.mcp import schemas
from rift.wire.mcp.common import BOX, NEXT
from rift.wire.mcp.render import box_line, box_value, lines, next_line, quoted
from rift.wire.mcp.tool import OPENS_A_TASK, Answer, Call, Tool


async def run(call: Call, arguments: Mapping[str, Any]) -> Answer | Refusal:
    """List them, without handles."""
    return render(await actions.list_tasks(call.deps, call.act), call.deps.clock.now())


def render(tasks: list[TaskLine], now: datetime) -> Answer:
    """The list as a text and as a structure."""
    free = next((line.task for line in tasks if line.task.holder is None), None)
    after = OPENS_A_TASK if not tasks else CallMend("rift_task_attach", {"task": free.id}) if free else None
    count = f"{len(tasks) or 'no'} open task{'' if len(tasks) == 1 else 's'}"
    return Answer(
        lines(count, *(_lines(line, now) for line in tasks), next_line(after) if after else None),
        {
            "tasks": [_value(line) for line in tasks],
            "next": after.text if after else None,
        },
    )


def _lines(line: TaskLine, now: datetime) -> str:
    task = line.task
    held = "free"
    if task.holder is not None:
        held = f"held by {task.holder}" + (f" since {when(task.held_since, now)}" if task.held_since else "")
    head = f"{task.id} {quoted(task.name)}: {held}; last activity {when(task.activity_at, now)}"
    return lines(head, *(f"  VM {box_line(box)}" for box in line.boxes))


def _value(line: TaskLine) -> dict[str, Any]:
    task = line.task
    return {
        "id": task.id,
        "name": task.name,
        "holder": task.holder,
        "held_since": rfc3339(task.held_since) if task.holder is not None and task.held_since else None,
        "last_activity": rfc3339(task.activity_at),
        "vms": [box_value(box) for box in line.boxes],
    }


TOOL = Tool(
    name="rift_task_ls",
    title="List your tasks",
    description=(
        "Lists your open tasks: id, name, who holds it or free, last activity, its VMs. It gives no handles: "
        "rift_task_attach takes an id and answers a fresh one."
    ),
    input_schema=schemas.arguments(),
    output_schema=schemas.answer(
        tasks=schemas.array(
            schemas.answer(
                id=schemas.string(),
                name=schemas.string(),
                holder=schemas.nullable("string", "Null when it is free."),
                held_since=schemas.nullable("string"),
                last_activity=schemas.string(),
                vms=schemas.array(schemas.answer(**BOX)),
            )
        ),
        next=NEXT,
    ),
    run=run,
    example={},
    read_only=True,
)
