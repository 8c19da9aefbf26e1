"""rift_docs: where the documentation is, page by page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from keel.refusal import Refusal
from rift.audit import audited
from rift.wire.docs import pages
from rift.wire.mcp import schemas
from rift.wire.mcp.render import lines
from rift.wire.mcp.tool import Answer, Call, Tool


async def run(call: Call, arguments: Mapping[str, Any]) -> Answer | Refusal:
    """The address of the documentation, and of each page with what it tells."""
    async with audited(call.deps, call.act):
        return Answer(render(call.deps.settings.server.address))


def render(public: str) -> str:
    """One line a page, under the address of them all."""
    told = (
        lines(f"{group}:", *(f"  {public}/docs/{page.name} — {page.title}: {page.tells}" for page in those))
        for group, those in pages.groups().items()
    )
    return lines(
        f"The documentation: {public}/docs (open to everybody; {public}/docs/search?q=WORDS finds words)", *told
    )


TOOL = Tool(
    name="rift_docs",
    title="Where the documentation is",
    description=(
        "Answers the URL of Rift's documentation and of every page, with what each tells, to point your user at. The "
        "resources rift://onboard and rift://nix-guide are for you."
    ),
    input_schema=schemas.arguments(),
    run=run,
    example={},
    read_only=True,
)
