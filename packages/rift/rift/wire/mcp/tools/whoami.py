"""rift_whoami: the agent's checklist."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from keel.refusal import Call as CallMend
from keel.refusal import Refusal
from rift.checklist import actions
from rift.checklist.decide import accepting
from rift.checklist.model import WhoAmI
from rift.invites.model import Invitation
from rift.repos.model import OrgView
from rift.times import rfc3339
from rift.wire.mcp import schemas
from rift.wire.mcp.render import account_line, lines, org_name, quoted, repo_lines
from rift.wire.mcp.tool import Answer, Call, Tool
from rift.wire.refusals import mend_text


async def run(call: Call, arguments: Mapping[str, Any]) -> Answer | Refusal:
    """Who, what is there, what is missing."""
    return Answer(render(await actions.whoami(call.deps, call.act), call.deps.clock.now()))


def render(who: WhoAmI, now: datetime) -> str:
    """The document: at the end a line per gap with what closes it, or ready with the calls that take a box."""
    admin = ", the platform admin" if who.platform_admin else ""
    gaps = [f"gap: {gap.text} -> {mend_text(gap.mend)}" for gap in who.gaps]
    ready = [f"ready: {call.text}" for call in who.ready]
    return lines(
        f"You are {who.email}{admin}; tasks show you as {who.client}.",
        f"GitHub: {who.github}",
        *([_invitation(one) for one in who.invitations] or ["Invitations: none."]),
        *(_org(view, now) for view in who.orgs),
        *gaps,
        *ready,
    )


def _invitation(one: Invitation) -> str:
    by = f" by {one.invited_by}" if one.invited_by else ""
    what = f"to {quoted(one.team or '')} as {one.role}{by}, open until {rfc3339(one.expires_at)}"
    return f"Invitation {what}: {accepting(one).text}"


def _org(view: OrgView, now: datetime) -> str:
    members = ", ".join(f"{member.email} ({member.role})" for member in view.members)
    what = "Organization" if view.org.personal else "Team"
    head = f"{what} {org_name(view.org)}: you are {view.org.role}; members: {members}; GitHub accounts: "
    head += "as follows." if view.accounts else "none."
    return lines(
        head,
        *(account_line(account, now) for account in view.accounts),
        *(repo_lines(repo, now) for repo in view.repos),
        _beside(view),
    )


def _beside(view: OrgView) -> str | None:
    """What is there beside the repositories that are told: those of GitHub's that nobody watches, which may be many."""
    if not view.unwatched:
        return None if view.repos else "  no repositories"
    listing = CallMend("rift_repos", {"org": view.org.name}).text
    count = f"{view.unwatched} {'more ' if view.repos else ''}repositor{'y' if view.unwatched == 1 else 'ies'}"
    return f"  {count} of GitHub's without a watched ref: {listing} names them"


TOOL = Tool(
    name="rift_whoami",
    title="Who am I",
    description=(
        "Your checklist, call it first: who you are, your organizations with their members, repositories and watched "
        "refs. It ends with a line per gap naming the tool that closes it, or with ready and the rift_vm_new to call."
    ),
    input_schema=schemas.arguments(),
    run=run,
    example={},
    read_only=True,
)
