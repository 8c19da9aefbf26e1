"""rift_task_new: opens a task and holds it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from keel.refusal import YOUR_HANDLE, Refusal
from keel.refusal import Call as CallMend
from rift.secrecy import without_secrets
from rift.tasks import actions
from rift.times import span
from rift.wire.mcp import schemas
from rift.wire.mcp.render import lines, next_line, quoted
from rift.wire.mcp.tool import Answer, Call, Tool


async def run(call: Call, arguments: Mapping[str, Any]) -> Answer | Refusal:
    """Open it, and give its handle: the one time besides rift_task_attach that it is seen."""
    name = without_secrets(arguments["name"])  # it stands in lists
    lease = await actions.open_task(call.deps, call.act, name)
    if isinstance(lease, Refusal):
        return lease
    quiet = span(call.deps.settings.tasks.quiet_close)
    return Answer(
        lines(
            f"opened the task {lease.task.id} {quoted(lease.task.name)}; you hold it.",
            f"handle: {lease.handle}",
            f"Give the handle as `task` in every call on this task. After {quiet} without a call it closes itself.",
            next_line(CallMend("rift_vm_new", {"task": YOUR_HANDLE, "repo": "<owner/name>", "ref": "<branch>"})),
        )
    )


TOOL = Tool(
    name="rift_task_new",
    title="Open a task",
    description=(
        "Opens a task, the unit of work that VMs belong to, and holds it for you. Answers its handle, which every "
        "call on the task's VMs takes as `task`; keep it, it is shown once. A task that is quiet for 4 hours closes "
        "itself and its VMs are destroyed. Next: rift_vm_new."
    ),
    input_schema=schemas.arguments(
        required={"name": schemas.string("What the work is, for a person to read in a list.", minLength=1)}
    ),
    run=run,
    example={"name": "<what the work is>"},
)
