"""rift_feedback: drafts feedback, which the person submits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from keel.refusal import Refusal
from rift.feedback import actions
from rift.feedback.decide import CONTEXT_MOST, ITEMS_MOST, TEXT_MOST
from rift.feedback.model import CATEGORIES, Added, Said
from rift.feedback.refusals import PAGE
from rift.wire.mcp import schemas
from rift.wire.mcp.render import lines
from rift.wire.mcp.tool import Answer, Call, Tool

ITEM = schemas.arguments(
    required={
        "text": schemas.string(
            "What happened and what was expected, or what is wanted.", minLength=1, maxLength=TEXT_MOST
        ),
        "category": schemas.string(enum=list(CATEGORIES)),
    },
    optional={"context": schemas.string("For the engineer: tool, ids, exact words.", maxLength=CONTEXT_MOST)},
)


async def run(call: Call, arguments: Mapping[str, Any]) -> Answer | Refusal:
    """Add them to the draft."""
    items = [Said(item["category"], item["text"], item.get("context", "")) for item in arguments["items"]]
    added = await actions.add(call.deps, call.act, items)
    return added if isinstance(added, Refusal) else Answer(render(added, call.deps.settings.server.address + PAGE))


def render(added: Added, link: str) -> str:
    """What the draft holds now, and the link for the user."""
    what = "1 item" if added.added == 1 else f"{added.added} items"
    return lines(
        f"{what} added to the draft, which holds {added.total}. Nothing is sent until your user submits it there:",
        link,
        "Tell your user so and show them the link.",
    )


TOOL = Tool(
    name="rift_feedback",
    title="Draft feedback",
    description=(
        "Adds one to ten items of feedback about Rift itself to your user's draft. Answers the link, always the same, "
        "to their Feedback page, where they approve and submit: nothing is sent until they do. "
        "rift://feedback says when to offer it and what a good item says."
    ),
    input_schema=schemas.arguments(required={"items": schemas.array(ITEM, low=1, high=ITEMS_MOST)}),
    run=run,
    example={"items": [{"text": "<what happened, and what was expected>", "category": "bug"}]},
)
