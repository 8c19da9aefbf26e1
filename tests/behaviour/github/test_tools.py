"""The three tools as an agent reads them, and the checklist that leads from one to the next."""

from __future__ import annotations

import re
from typing import Any

from tests.behaviour.github.hub import Hub
from tests.unit.people.house import act

from keel.refusal import Refusal
from rift.deadline import Deadline
from rift.github import actions
from rift.people.model import Caller
from rift.wire.mcp.tool import Answer, Call, Tool
from rift.wire.mcp.tools import TOOLS
from rift.wire.refusals import refusal_text

BY_NAME = {tool.name: tool for tool in TOOLS}


async def told(hub: Hub, who: Caller, tool: str, **arguments: Any) -> str:
    """What a tool answers, as a model reads it."""
    named: Tool = BY_NAME[tool]
    said = await named.run(Call(hub.deps, act(who, tool), "1", Deadline(hub.deps.clock, 53.0)), arguments)
    assert isinstance(said, Answer | Refusal)
    return said.text if isinstance(said, Answer) else refusal_text(said)


async def test_the_checklist_leads_from_nothing_to_an_account_that_is_on(hub: Hub) -> None:
    start = await told(hub, hub.ada, "rift_whoami")
    assert "GitHub: not connected for pushes: rift_github_login connects your GitHub account." in start
    assert '-> rift_github_connect {"org": "acme"}' in start
    link = await told(hub, hub.ada, "rift_github_connect", org="acme")
    assert re.search(r"link and wait for them: https://github.com/apps/rift-test/installations/new\?state=\S+\n", link)
    assert link.endswith("next: rift_whoami {}")
    state = re.findall(r"state=(\S+)", link)[0]
    there = hub.github.install("acme-inc", "Organization", "ada-l")
    await hub.back(hub.ada, state, "ada-l", there.id)
    after = await told(hub, hub.ada, "rift_whoami")
    assert "GitHub: connected for pushes: as ada-l." in after
    assert '-> rift_github_enable {"org": "acme", "account": "acme-inc"}' in after
    on = await told(hub, hub.ada, "rift_github_enable", org="acme", account="acme-inc")
    assert "Rift is on for GitHub's acme-inc" in on
    assert on.endswith('next: rift_repos {"org": "acme"}')
    assert "as it was" in await told(hub, hub.ada, "rift_github_enable", org="acme", account="acme-inc")
    member = await told(hub, hub.bob, "rift_whoami")
    assert "gap: Your GitHub account is not connected: pushes from a box are refused. -> rift_github_login" in member


async def test_a_login_is_told_step_by_step(hub: Hub) -> None:
    first = await told(hub, hub.bob, "rift_github_login")
    code = re.findall(r"type this code there: (\S+)", first)[0]
    assert "https://github.com/login/device" in first
    assert first.endswith("next: rift_github_login {}")
    waiting = await told(hub, hub.bob, "rift_github_login")
    assert code in waiting
    assert "at least 5 seconds" in waiting
    hub.github.answer(code, "bobby")
    hub.clock.advance(5)
    assert "GitHub is connected: as bobby." in await told(hub, hub.bob, "rift_github_login")
    assert "connected already: as bobby" in await told(hub, hub.bob, "rift_github_login")


async def test_what_is_connected_at_once_says_what_comes_next(hub: Hub) -> None:
    await hub.logged_in(hub.ada, "ada-l")
    there = hub.github.install("acme-inc", "Organization", "ada-l")
    said = await told(hub, hub.ada, "rift_github_connect", org="acme")
    assert said.endswith('next: rift_github_enable {"org": "acme", "account": "acme-inc"}')
    hub.github.install("ada-l")
    assert 'connected to "personal"' in await told(hub, hub.ada, "rift_github_connect", org="personal")
    assert "connected already" not in said
    await told(hub, hub.ada, "rift_github_enable", org="personal", account="ada-l")
    again = await told(hub, hub.ada, "rift_github_connect", org="personal")
    assert 'connected to "personal" already, and Rift is on for it.' in again
    for name in ("labs", "shop"):
        hub.github.install(name, "Organization", "ada-l")
    several = await told(hub, hub.ada, "rift_github_connect", org="acme")
    assert "The App is in labs and shop already: http://127.0.0.1:7433/app/organizations/org_" in several
    async with hub.deps.db.tx() as tx:
        await actions.note_suspended(tx, hub.deps, there.id, True)
    who = await told(hub, hub.ada, "rift_whoami")
    assert "The App is suspended at GitHub's acme-inc" in who
