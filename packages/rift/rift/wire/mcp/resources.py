"""What the server offers to read: pages of the documentation that are for the agent itself."""

from __future__ import annotations

from dataclasses import dataclass

from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    ListResourcesResult,
    ReadResourceResult,
    Resource,
    TextResourceContents,
)

from rift.wire.docs import pages

MARKDOWN = "text/markdown"


@dataclass(frozen=True, slots=True)
class Offered:
    """A resource: its address, and the page of the documentation that it is."""

    uri: str
    page: str
    title: str
    description: str
    part: str = ""
    """Only what stands below this heading, where the page is for a person otherwise."""


RESOURCES = (
    Offered(
        "rift://onboard", "onboarding", "From a fresh account to a first box",
        "The walk from a fresh account to a first box: call rift_whoami, do the next missing thing, call it again.",
        "The agent's walk",
    ),
    Offered(
        "rift://nix-guide", "nix-guide", "The fixed-labs.rift expression",
        "How a repository says what its boxes have: the contract, a complete example, and the lifecycle from an edit "
        "to a fresh box.",
    ),
    Offered(
        "rift://feedback", "send-feedback", "When and how to offer feedback",
        "When to offer feedback, when not to, and what a good item says.",
    ),
)  # fmt: skip
"""Every resource of the contract (MCP tools, Resources), in its order."""


def offered() -> list[Offered]:
    """Those whose page is there."""
    return [one for one in RESOURCES if pages.text(one.page) is not None]


def listed() -> ListResourcesResult:
    """What `resources/list` answers."""
    return ListResourcesResult(
        resources=[
            Resource(
                uri=one.uri, name=one.uri.removeprefix("rift://"), title=one.title, description=one.description,
                mime_type=MARKDOWN, size=len(_text(one).encode()),
            )
            for one in offered()
        ]
    )  # fmt: skip


def read(uri: str) -> ReadResourceResult:
    """The page as Markdown. Raises the protocol's error for an address that nothing has."""
    one = next((one for one in offered() if one.uri == uri), None)
    if one is None:
        there = ", ".join(other.uri for other in offered())
        raise MCPError(INVALID_PARAMS, f"Resource not found. There are: {there}.", {"uri": uri[:200]})
    return ReadResourceResult(contents=[TextResourceContents(uri=one.uri, mime_type=MARKDOWN, text=_text(one))])


def _text(one: Offered) -> str:
    text = pages.plain(pages.text(one.page) or "")
    return pages.part(text, one.part) if one.part else text
