"""Repositories of GitHub's: thousands that are covered, few that are watched, and what they give while out of reach."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from tests.behaviour.repos.hub import Hub, connected
from tests.unit.people.house import act, caller, user

from keel.refusal import Ask, Call, Refusal, Retry
from rift.checklist import actions as checklist
from rift.deps import Deps
from rift.drivers.github.protocol import GitHubError
from rift.origins import actions as origins
from rift.people.model import Caller
from rift.pools import actions as pools
from rift.repos import actions
from rift.repos.model import Unwatched, Watched
from rift.wire.mcp.tools import repos as tool
from rift.wire.mcp.tools import whoami

HEAD = "a" * 40


@pytest.fixture
async def ada(deps: Deps) -> Caller:
    """An admin of her own organization."""
    await user(deps, "ada@example.org", admin=True)
    return await caller(deps, "ada@example.org")


async def org_of(deps: Deps, who: Caller) -> str:
    async with deps.db.tx() as tx:
        row = await tx.row("SELECT id FROM orgs WHERE personal_of = %(who)s", {"who": who.user})
    assert row is not None
    return str(row["id"])


@pytest.fixture
async def hub(deps: Deps, ada: Caller) -> Hub:
    """Her account at GitHub."""
    return await connected(deps, await org_of(deps, ada))


async def read(hub: Hub, repo: str, **heads: str) -> None:
    """The repository as if it had been read."""
    async with hub.deps.db.tx() as tx:
        await tx.run("UPDATE repos SET synced_at = %(at)s WHERE id = %(id)s", {"id": repo, "at": hub.deps.clock.now()})
        for ref, commit in heads.items():
            await tx.run(
                "INSERT INTO heads (repo, ref, commit) VALUES (%(repo)s, %(ref)s, %(commit)s)",
                {"repo": repo, "ref": ref, "commit": commit},
            )


async def many(hub: Hub, count: int) -> None:
    async with hub.deps.db.tx() as tx:
        await tx.run(
            """
            INSERT INTO repos (id, org, owner, name, url, network, created_at, forge, account, github_id)
            SELECT 'repo_n' || n, %(org)s, 'acme', 'service-' || n, 'https://github.com/acme/service-' || n || '.git',
                   'proxy', now(), 'github', %(account)s, 100000 + n FROM generate_series(1, %(count)s) AS n
            """,
            {"org": hub.org, "account": hub.installation, "count": count},
        )


async def listed(deps: Deps, ada: Caller) -> tuple[str, Mapping[str, Any]]:
    found = await actions.list_org(deps, act(ada, "rift_repos"), "personal")
    assert not isinstance(found, Refusal)
    answer = tool.render(found, deps.clock.now())
    assert answer.structured is not None
    return answer.text, answer.structured


async def test_every_repository_that_the_app_covers_is_listed_with_its_account(
    deps: Deps, ada: Caller, hub: Hub
) -> None:
    app = await hub.repo("app", 1)
    await hub.repo("lib", 2)
    await read(hub, app, main=HEAD)
    assert isinstance(await actions.watch(deps, act(ada), "acme/app", "main", 2), Watched)
    text, value = await listed(deps, ada)
    assert "GitHub account acme: enabled, 2 covered, not listed yet" in text
    assert f"    main: warm 2, ready 0, head {HEAD}" in text
    assert "  no ref watched: acme/lib" in text
    assert [(one["login"], one["enabled"], one["suspended"]) for one in value["accounts"]] == [("acme", True, False)]
    (one,) = value["repositories"]
    assert (one["repository"], one["account"], one["enabled"]) == ("acme/app", "acme", True)
    assert value["unwatched"] == [{"account": "acme", "enabled": True, "repositories": ["acme/lib"]}]
    await hub.account(enabled=False, suspended_at=deps.clock.now())
    text, value = await listed(deps, ada)
    assert "GitHub account acme: not enabled, suspended at GitHub, 2 covered" in text
    assert "acme/lib (not enabled)" in text
    assert [(one["login"], one["enabled"], one["suspended"]) for one in value["accounts"]] == [("acme", False, True)]
    assert value["repositories"][0]["enabled"] is False


async def test_the_list_leads_to_the_first_watched_ref_and_not_back_to_where_one_came_from(
    deps: Deps, ada: Caller, hub: Hub
) -> None:
    await hub.repo("app", 1)
    await hub.account(enabled=False)
    text, value = await listed(deps, ada)
    assert "GitHub account acme: not enabled (rift_github_enable, for admins), 1 covered" in text
    assert value["next"] == 'rift_github_enable {"org": "personal", "account": "acme"}'
    await hub.account(enabled=True)
    _, value = await listed(deps, ada)
    assert value["next"] == 'rift_watch {"repo": "acme/app", "ref": "<branch>", "warm": 1}'
    await hub.repo("lib", 2)
    _, value = await listed(deps, ada)
    assert value["next"] == 'rift_watch {"repo": "<one of these>", "ref": "<branch>", "warm": 1}'


async def test_of_thousands_each_is_named_in_the_structure_and_a_text_stays_short(
    deps: Deps, ada: Caller, hub: Hub
) -> None:
    await many(hub, 3000)
    text, value = await listed(deps, ada)
    assert len(text) < 12_000
    assert ", and 2700 more" in text
    assert len(value["unwatched"][0]["repositories"]) == 3000
    told = whoami.render(await checklist.whoami(deps, act(ada)), deps.clock.now())
    assert '3000 repositories of GitHub\'s without a watched ref: rift_repos {"org": "personal"} names them' in told
    assert "gap: No ref of the 3000 repositories that the App covers in personal is watched" in told
    assert len(told) < 2000


async def test_a_name_close_to_one_of_thousands_is_suggested(deps: Deps, ada: Caller, hub: Hub) -> None:
    await many(hub, 3000)
    refused = await actions.watch(deps, act(ada), "acme/servce-2718", "main")
    assert isinstance(refused, Refusal)
    assert "acme/service-2718" in refused.sentence
    assert len(refused.sentence) < 400


CLOSED = [
    (
        {"enabled": False},
        {},
        "repository_not_enabled",
        Call("rift_github_enable", {"org": "personal", "account": "acme"}),
    ),
    ({"suspended_at": True}, {}, "repository_suspended", "unsuspend the App"),
    ({"removed_at": True}, {}, "repository_removed", Call("rift_github_connect", {"org": "personal"})),
    ({}, {"uncovered_at": True}, "repository_uncovered", "give the App access to acme/app"),
]


@pytest.mark.parametrize(("account", "row", "code", "mend"), CLOSED)
async def test_what_the_app_does_not_reach_gives_no_boxes_and_says_what_mends_it(
    deps: Deps, ada: Caller, hub: Hub, account: dict[str, Any], row: dict[str, Any], code: str, mend: Call | str
) -> None:
    app = await hub.repo("app", 1)
    await read(hub, app, main=HEAD)
    assert isinstance(await actions.watch(deps, act(ada), "acme/app", "main"), Watched)
    now = deps.clock.now()
    await hub.account(**{name: now if value is True else value for name, value in account.items()})
    await hub.change(app, **{name: now if value is True else value for name, value in row.items()})
    async with deps.db.tx() as tx:
        claim = await actions.find_watched(tx, deps, ada, "acme/app", "main")
    for refused in (claim, await actions.watch(deps, act(ada), "acme/app", "main", 2)):
        assert isinstance(refused, Refusal)
        assert refused.code == code
        first = refused.mends[0]
        assert first == mend if isinstance(mend, Call) else isinstance(first, Ask) and mend in first.page
    assert isinstance(await actions.unwatch(deps, act(ada), "acme/app", "main"), Unwatched)


@pytest.mark.parametrize(("account", "row", "code", "mend"), CLOSED)
async def test_its_warm_boxes_drain_and_those_that_tasks_hold_run_on(
    deps: Deps, ada: Caller, hub: Hub, account: dict[str, Any], row: dict[str, Any], code: str, mend: Call | str
) -> None:
    app = await hub.repo("app", 1)
    await read(hub, app, main=HEAD)
    assert isinstance(await actions.watch(deps, act(ada), "acme/app", "main"), Watched)
    now = deps.clock.now()
    async with deps.db.tx() as tx:
        await tx.run(
            """
            INSERT INTO tasks (id, owner, name, status, activity_at, created_at)
            VALUES ('task_1', %(who)s, 'work', 'open', %(at)s, %(at)s)
            """,
            {"who": ada.user, "at": now},
        )
        for number, task in ((1, None), (2, "task_1")):
            await tx.run(
                """
                INSERT INTO boxes (id, name, number, repo, ref, commit, task, state, used_at, created_at)
                VALUES (%(id)s, %(id)s, %(n)s, %(repo)s, 'main', %(commit)s, %(task)s, 'running', %(at)s, %(at)s)
                """,
                {"id": f"b-{number}", "n": number, "repo": app, "commit": HEAD, "task": task, "at": now},
            )
    assert (await pools.fill(deps, app, "main")).drain == ()
    await hub.account(**{name: now if value is True else value for name, value in account.items()})
    await hub.change(app, **{name: now if value is True else value for name, value in row.items()})
    assert (await pools.fill(deps, app, "main")).drain == ("b-1",)
    async with deps.db.tx() as tx:
        states = await tx.rows("SELECT id, state FROM boxes ORDER BY id")
    assert [one["state"] for one in states] == ["destroying", "running"]


async def test_a_repository_that_is_not_read_yet_says_to_come_back(deps: Deps, ada: Caller, hub: Hub) -> None:
    await hub.repo("app", 1)
    refused = await actions.watch(deps, act(ada), "acme/app", "main")
    assert isinstance(refused, Refusal)
    assert refused.code == "repository_being_read"
    assert refused.mends == (Retry(20), Call("rift_watch", {"repo": "acme/app", "ref": "main", "warm": 1}))


async def test_a_token_of_github_goes_to_the_github_that_is_set_and_nowhere_else(
    deps: Deps, ada: Caller, hub: Hub
) -> None:
    for number, url in enumerate(
        ("https://old.example/acme/app.git", "https://github.com.evil.example/acme/app.git", "/srv/git/app.git")
    ):
        id = await hub.repo(f"app-{number}", number + 1)
        async with deps.db.tx() as tx:
            repo = await actions.repo_by_id(tx, id)
        assert repo is not None
        with pytest.raises(GitHubError, match="whose token goes nowhere else"):
            await origins.access_of(deps, replace(repo, url=url))
