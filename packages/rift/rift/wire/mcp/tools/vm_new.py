"""rift_vm_new: a box at a watched ref's head."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from keel.refusal import YOUR_HANDLE, Refusal
from keel.refusal import Call as CallMend
from rift.boxes import actions
from rift.boxes.model import Box
from rift.wire.mcp import schemas
from rift.wire.mcp.common import EXAMPLE_REF, EXAMPLE_REPO, REF, REPO, TASK
from rift.wire.mcp.render import PERSISTS, lines, next_line
from rift.wire.mcp.tool import Answer, Call, Tool


async def run(call: Call, arguments: Mapping[str, Any]) -> Answer | Refusal:
    """Claim it or start it, and wait for it to run."""
    box = await actions.new_box(
        call.deps, call.act, arguments["task"], arguments["repo"], arguments["ref"], call.progress
    )
    return box if isinstance(box, Refusal) else Answer(render(box))


def render(box: Box) -> str:
    """Its status, its id and name, what persists on it, and what to call next."""
    after = CallMend("rift_vm_ls", {"task": YOUR_HANDLE})
    status: str = box.state
    if box.state == "running":
        command = {"command": "git log -1 --oneline && ls", "timeout": 60, "block_for": 30}
        after = CallMend("rift_bash", {"task": YOUR_HANDLE, "vm": box.id, **command})
    elif box.state == "starting":
        doing = f" ({box.doing})" if box.doing else ""
        status = f"starting: it does not run yet{doing}; poll rift_vm_ls until it does"
    elif box.state == "failed":
        status = f"failed: {box.failure or 'the reason is not known'}"
        after = CallMend("rift_vm_destroy", {"task": YOUR_HANDLE, "vm": box.id})
    return lines(
        status,
        f"id {box.id}, name {box.name}",
        f"{box.repository} at {box.ref}, commit {box.commit}",
        box.lacks,
        PERSISTS if box.state in ("running", "starting") else None,
        next_line(after),
    )


TOOL = Tool(
    name="rift_vm_new",
    title="Get a VM",
    description=(
        "Gives the task a VM with a checkout of the repository at the watched ref's head: a warm one at once, else a "
        "cold start, for which it waits up to 30 s. Answers its id, name and status; while it is starting, poll "
        "rift_vm_ls. The VM lives until it is destroyed or its task closes, which a quiet task does after 4 hours "
        "even if a command runs: rift_output keeps it open. Next: rift_bash."
    ),
    input_schema=schemas.arguments(required={"task": TASK, "repo": REPO, "ref": REF}),
    run=run,
    example={"task": YOUR_HANDLE, "repo": EXAMPLE_REPO, "ref": EXAMPLE_REF},
)
