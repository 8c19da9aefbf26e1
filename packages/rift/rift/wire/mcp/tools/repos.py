"""rift_repos: an organization's repositories and their watched refs."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from keel.refusal import Call as CallMend
from keel.refusal import Refusal
from rift.names import PERSONAL
from rift.repos import actions
from rift.repos.model import OrgRepos
from rift.wire.mcp import schemas
from rift.wire.mcp.common import NEXT, ORG
from rift.wire.mcp.render import (
    account_line,
    account_value,
    lines,
    next_line,
    org_name,
    repo_lines,
    repo_value,
    unwatched_line,
)
from rift.wire.mcp.tool import Answer, Call, Tool


async def run(call: Call, arguments: Mapping[str, Any]) -> Answer | Refusal:
    """List them."""
    found = await actions.list_org(call.deps, call.act, arguments["org"])
    return found if isinstance(found, Refusal) else render(found, call.deps.clock.now())


def render(found: OrgRepos, now: datetime) -> Answer:
    """The list as a text and as a structure."""
    after = _after(found)
    count = len(found.repos) + len(found.unwatched)
    what = f"{count or 'no'} repositor{'y' if count == 1 else 'ies'}"
    head = f"{what} in {org_name(found.org)}, where you are {found.org.role}"
    return Answer(
        lines(
            head,
            *(account_line(account, now) for account in found.accounts),
            *(repo_lines(view, now) for view in found.repos),
            unwatched_line(found.unwatched),
            next_line(after) if after else None,
        ),
        {
            "org": found.org.name,
            "role": found.org.role,
            "accounts": [account_value(account) for account in found.accounts],
            "repositories": [repo_value(view) for view in found.repos],
            "unwatched": [
                {
                    "account": account.login,
                    "enabled": account.enabled,
                    "repositories": [repo.full for repo in found.unwatched if repo.account == account.installation],
                }
                for account in found.accounts
                if account.covered
            ],
            "next": after.text if after else None,
        },
    )


def _after(found: OrgRepos) -> CallMend | None:
    """What brings the list to its first watched ref; an admin's calls are for whoever is one."""
    if any(view.watches for view in found.repos):
        return None
    if found.org.admin:
        off = next((one for one in found.accounts if not one.enabled and one.suspended_at is None), None)
        able = next((repo for repo in found.unwatched if repo.enabled), None)
        if able is None and off is not None:
            return CallMend("rift_github_enable", {"org": found.org.name, "account": off.login})
        if able is not None:
            one = able.full if len(found.unwatched) == 1 else "<one of these>"
            return CallMend("rift_watch", {"repo": one, "ref": able.default_branch or "<branch>", "warm": 1})
    return CallMend("rift_whoami")


OBJECTS = schemas.array({"type": "object"})
"""Lists whose members are told by the answer itself: every schema is read by every agent, whether it lists or not."""

TOOL = Tool(
    name="rift_repos",
    title="List repositories",
    description=(
        "Lists an organization's repositories, their GitHub account and whether it is enabled, and their watched refs: "
        "for each the warm count, how many VMs are ready, the head, and the last failure at the head with its whole "
        "text. Those with no ref watched are names alone; rift_watch takes them."
    ),
    input_schema=schemas.arguments(required={"org": ORG}),
    output_schema=schemas.answer(
        org=schemas.string(),
        role=schemas.string(),
        accounts=OBJECTS,
        repositories=OBJECTS,
        unwatched=OBJECTS,
        next=NEXT,
    ),
    run=run,
    example={"org": PERSONAL},
    read_only=True,
)
