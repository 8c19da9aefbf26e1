"""Agents, registered, read, changed and forgotten over HTTP, each change with its record."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.behaviour.onbe.directory.office import Office, key, registration

from keel.testing.fakes import FakeClock


async def test_an_agent_is_registered_and_read_back(admin: Office) -> None:
    made = await admin.register("mailer", max_task_ttl="PT1800S")
    assert made.status_code == 201, made.text
    assert made.headers["location"] == "/admin/agents/mailer"
    assert made.json() == {
        **registration("mailer"),
        "max_task_ttl": "PT30M",
        "max_token_ttl": None,
        "max_delegation_depth": 1,
        "high_risk_audiences": [],
        "jwks_uri": None,
        "enabled": True,
        "created_at": "2026-01-02T03:04:05Z",
        "updated_at": "2026-01-02T03:04:05Z",
    }
    assert (await admin.http.get("/agents/mailer")).json() == made.json()
    assert (await admin.http.get("/agents")).json() == {"agents": [made.json()], "next": None}
    (record,) = await admin.records()
    assert (record["via"], record["action"], record["outcome"]) == ("admin", "agent.created", "ok")
    assert record["arguments"]["agent"] == "mailer"


async def test_pages_lead_through_all_agents_in_order(admin: Office) -> None:
    names = [f"agent-{number:02}" for number in range(7)]
    for name in reversed(names):
        assert (await admin.register(name)).status_code == 201
    seen: list[str] = []
    after: str | None = ""
    while after is not None:
        page = (await admin.http.get("/agents", params={"limit": 3, "after": after})).json()
        seen += [agent["agent_id"] for agent in page["agents"]]
        after = page["next"]
    assert seen == names


async def test_a_patch_changes_what_it_names_and_null_unsets(admin: Office, clock: FakeClock) -> None:
    before = (await admin.register(max_task_ttl="PT10M", max_delegation_depth=3)).json()
    clock.advance(60)
    patch = {"max_task_ttl": None, "max_delegation_depth": None, "display_name": "Post"}
    after = await admin.http.patch(
        "/agents/mailer", json=patch, headers={"Content-Type": "application/merge-patch+json"}
    )
    assert after.status_code == 200, after.text
    assert after.json() == {
        **before,
        "max_task_ttl": None,
        "max_delegation_depth": 1,
        "display_name": "Post",
        "updated_at": "2026-01-02T03:05:05Z",
    }
    assert (await admin.records())[-1]["arguments"] == {
        "agent": "mailer",
        "changed": {
            "display_name": {"old": "The mailer", "new": "Post"},
            "max_task_ttl": {"old": "PT10M", "new": None},
            "max_delegation_depth": {"old": 3, "new": 1},
        },
    }


async def test_a_patch_that_changes_nothing_leaves_no_trace(admin: Office, clock: FakeClock) -> None:
    before = (await admin.register(max_task_ttl="PT30M")).json()
    clock.advance(60)
    after = await admin.http.patch("/agents/mailer", json={"max_task_ttl": "PT1800S", "agent_id": "mailer"})
    assert after.json() == before
    assert len(await admin.records()) == 1


async def test_keys_move_to_an_address_in_one_patch(admin: Office) -> None:
    await admin.register()
    uri = "https://mailer.example.com/jwks.json"
    alone = await admin.http.patch("/agents/mailer", json={"jwks_uri": uri})
    assert alone.status_code == 422
    moved = await admin.http.patch("/agents/mailer", json={"jwks_uri": uri, "jwks": None})
    assert (moved.json()["jwks_uri"], moved.json()["jwks"]) == (uri, None)
    changed = (await admin.records())[-1]["arguments"]["changed"]
    assert changed["jwks_uri"] == {"old": None, "new": "mailer.example.com"}
    assert changed["jwks"]["new"] == []
    assert len(changed["jwks"]["old"]) == 1


async def test_twenty_patches_at_once_are_applied_one_after_the_other(admin: Office) -> None:
    keys = [key(f"k{number}") for number in range(20)]
    await admin.register(jwks={"keys": [keys[0]]}, allowed_scopes=["s0"])

    async def change(number: int) -> int:
        patch: dict[str, Any] = {"allowed_scopes": [f"s{number}"], "jwks": {"keys": [keys[number]]}}
        return (await admin.http.patch("/agents/mailer", json=patch)).status_code

    assert await asyncio.gather(*(change(number) for number in range(1, 20))) == [200] * 19
    said = (await admin.http.get("/agents/mailer")).json()
    number = int(said["allowed_scopes"][0][1:])
    assert said["jwks"]["keys"] == [keys[number]]
    steps = [one["arguments"]["changed"]["allowed_scopes"] for one in (await admin.records())[1:]]
    assert [step["old"] for step in steps] == [["s0"], *(step["new"] for step in steps[:-1])]
    assert steps[-1]["new"] == [f"s{number}"]


async def test_of_many_that_register_one_agent_one_does(admin: Office) -> None:
    answers = await asyncio.gather(*(admin.register() for _ in range(20)))
    assert sorted(one.status_code for one in answers) == [201] + [409] * 19
    outcomes = sorted(one["outcome"] for one in await admin.records())
    assert outcomes == ["agent_exists"] * 19 + ["ok"]


async def test_an_agent_goes_once_no_task_of_it_is_stored(admin: Office) -> None:
    await admin.register()
    async with admin.deps.db.tx() as tx:
        await tx.run("INSERT INTO sponsors (key) VALUES ('ann')")
        await tx.run(
            """
            INSERT INTO tasks (id, agent, sponsor, audience, scope, created_at, expires_at, depth, chain, grant_sha256)
            VALUES ('task_1', 'mailer', 'ann', 'https://mail.example.com/', '{mail.read}', now(),
                    now() + interval '1 hour', 1, '{mailer}', sha256('x'))
            """
        )
    kept = await admin.http.delete("/agents/mailer")
    assert (kept.status_code, kept.json()["type"]) == (409, "urn:onbe:refusal:agent_in_use")
    async with admin.deps.db.tx() as tx:
        await tx.run("DELETE FROM tasks")
    gone = await admin.http.delete("/agents/mailer")
    assert (gone.status_code, gone.content) == (204, b"")
    assert (await admin.http.delete("/agents/mailer")).status_code == 404
    assert [(one["action"], one["outcome"]) for one in await admin.records()][1:] == [
        ("agent.deleted", "agent_in_use"),
        ("agent.deleted", "ok"),
        ("agent.deleted", "agent_unknown"),
    ]


async def test_a_dry_run_says_what_would_be_and_changes_nothing(admin: Office) -> None:
    would = await admin.http.post("/agents", params={"dry_run": True}, json=registration())
    assert would.status_code == 201
    assert (await admin.http.get("/agents/mailer")).status_code == 404
    await admin.register()
    twice = await admin.http.post("/agents", params={"dry_run": True}, json=registration())
    assert twice.status_code == 409
    would = await admin.http.patch("/agents/mailer", params={"dry_run": True}, json={"display_name": "Post"})
    assert would.json()["display_name"] == "Post"
    assert (await admin.http.get("/agents/mailer")).json()["display_name"] == "The mailer"
    assert [one["outcome"] for one in await admin.records()] == ["ok", "agent_exists"]
