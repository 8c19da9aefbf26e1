"""rift_watch: watches a branch, keeping warm boxes at its head."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from keel.refusal import YOUR_HANDLE, Refusal
from keel.refusal import Call as CallMend
from rift.names import WARM_MOST
from rift.origins import actions
from rift.repos.model import Watched
from rift.wire.mcp import schemas
from rift.wire.mcp.common import EXAMPLE_REF, EXAMPLE_REPO, REF, REPO
from rift.wire.mcp.render import lines, next_line
from rift.wire.mcp.tool import Answer, Call, Tool


async def run(call: Call, arguments: Mapping[str, Any]) -> Answer | Refusal:
    """Watch it, or change its warm count."""
    watched = await actions.watch(call.deps, call.act, arguments["repo"], arguments["ref"], arguments.get("warm", 1))
    return watched if isinstance(watched, Refusal) else Answer(render(watched))


def render(watched: Watched) -> str:
    """What is watched now, and how a box of it is had."""
    what = f"{watched.ref} of {watched.repo.full}"
    kept = f"{watched.warm or 'no'} warm VM{'' if watched.warm == 1 else 's'} at its head, {watched.head}"
    done = (
        f"watching {what}" if watched.before is None else f"{what} stays watched; its warm count was {watched.before}"
    )
    return lines(
        f"{done}: {kept}.",
        next_line(CallMend("rift_vm_new", {"task": YOUR_HANDLE, "repo": watched.repo.full, "ref": watched.ref})),
    )


TOOL = Tool(
    name="rift_watch",
    title="Watch a branch",
    description=(
        "Watches a branch and keeps warm VMs at its head, one unless `warm` says otherwise; for admins of its "
        "organization. Again with another `warm` changes the count. Next: rift_vm_new."
    ),
    input_schema=schemas.arguments(
        required={"repo": REPO, "ref": REF},
        optional={"warm": schemas.integer("How many to keep warm, 1 by default.", low=0, high=WARM_MOST)},
    ),
    run=run,
    example={"repo": EXAMPLE_REPO, "ref": EXAMPLE_REF},
    idempotent=True,
)
