"""rift_waitlist: the people on the waitlist."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from keel.refusal import Call as CallMend
from keel.refusal import Refusal
from rift.invites import actions
from rift.invites.decide import LIMIT, LIMIT_MOST
from rift.invites.model import Waiting, Waitlist
from rift.wire.mcp import schemas
from rift.wire.mcp.common import NEXT
from rift.wire.mcp.render import lines, next_line, quoted
from rift.wire.mcp.tool import Answer, Call, Tool


async def run(call: Call, arguments: Mapping[str, Any]) -> Answer | Refusal:
    """List them, oldest first."""
    limit = arguments.get("limit", LIMIT)
    found = await actions.waitlist(call.deps, call.act, arguments.get("since"), limit)
    return found if isinstance(found, Refusal) else render(found, limit)


def render(found: Waitlist, limit: int) -> Answer:
    """The list as a text and as a structure."""
    after = None
    if found.more_since is not None:
        after = CallMend("rift_waitlist", {"since": instant(found.more_since), "limit": limit})
    elif found.people:
        after = CallMend("rift_account_invite", {"email": found.people[0].email})
    count = len(found.people)
    head = f"{count} {'person' if count == 1 else 'people'} on the waitlist, oldest first" if count else "Nobody waits"
    if found.more_since is not None:
        head += ", and more after them"
    return Answer(
        lines(f"{head}.", *(_line(one) for one in found.people), next_line(after) if after else None),
        {"people": [_value(one) for one in found.people], "next": after.text if after else None},
    )


def _line(one: Waiting) -> str:
    teams = f"; invited by {', '.join(quoted(team) for team in one.teams)}" if one.teams else ""
    said = ", ".join(quoted(text) for text in (one.name, one.organization, one.note))
    return f"{instant(one.joined_at)} {one.email} {said}{teams}"


def _value(one: Waiting) -> dict[str, Any]:
    return {
        "joined_at": instant(one.joined_at),
        "email": one.email,
        "name": one.name,
        "organization": one.organization,
        "note": one.note,
        "teams": list(one.teams),
    }


def instant(at: datetime) -> str:
    """An instant whole, as `since` takes it: nobody else joined at it."""
    return at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


TOOL = Tool(
    name="rift_waitlist",
    title="Who waits for an account",
    description=(
        "For the platform admin: the people on the waitlist, oldest first: when they joined, email, name, "
        "organization, note, and the teams that invited them. rift_account_invite admits a person."
    ),
    input_schema=schemas.arguments(
        optional={
            "since": schemas.string("A UTC date or an instant.", minLength=1),
            "limit": schemas.integer("50 by default.", low=1, high=LIMIT_MOST),
        }
    ),
    output_schema=schemas.answer(
        people=schemas.array({"type": "object"}),
        next=NEXT,
    ),
    run=run,
    example={},
    read_only=True,
)
