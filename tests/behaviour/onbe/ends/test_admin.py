"""Tasks and people in the hands of an administrator, over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from urllib.parse import quote

import httpx2
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.behaviour.onbe.directory.office import Office, office
from tests.behaviour.onbe.ends.rows import Rows, many

from keel.testing.fakes import FakeClock
from keel.testing.plugin import FreshDatabase
from onbe.tasks import jobs

ODD_KEYS = (
    "ada@example.com",
    "a/b",
    "/",
    "//",
    "..",
    ".",
    "block",
    "ada/block",
    "a%2Fb",
    "100% sure",
    "a b+c",
    "auth0|5f7c8ec7c33c6c004bbafe82",
    "?x=1#y",
    "Zoë Ångström",
    "名前",
    "\U0001f600",
    "'; DROP TABLE tasks; --",
    "e" * 256,
    "é" * 256,
)


@pytest.fixture
async def admin(onbe_database: FreshDatabase, tmp_path: Path, clock: FakeClock) -> AsyncIterator[Office]:
    async with office(onbe_database, tmp_path, clock=clock) as opened:
        yield opened


def beside(admin: Office, clock: FakeClock) -> Rows:
    return Rows(admin.deps.db, clock)


def path(key: str, rest: str = "") -> str:
    """A sponsor's address. A client that knows URLs folds a dot away, so dots are encoded too."""
    return f"/sponsors/{quote(key, safe='').replace('.', '%2E')}{rest}"


async def test_a_task_is_shown_ended_and_shown_again(admin: Office, clock: FakeClock) -> None:
    rows = beside(admin, clock)
    task = await rows.task(renewals=2)
    shown = (await admin.http.get(f"/tasks/{task}")).json()
    assert shown == {
        "id": task, "agent": "scribe", "sponsor": "ada", "audience": "https://tool.example", "scope": "read",
        "state": "open", "created_at": "2026-01-02T03:04:05Z", "expires_at": "2026-01-02T03:34:05Z", "ended_at": None,
        "end_reason": None, "parent": None, "depth": 1, "chain": ["scribe"], "instance": None, "renewals": 2,
    }  # fmt: skip
    clock.advance(60)
    ended = await admin.http.delete(f"/tasks/{task}")
    assert (ended.status_code, ended.json()) == (200, {"tasks_ended": 1})
    again = await admin.http.delete(f"/tasks/{task}")
    assert (again.status_code, again.json()) == (200, {"tasks_ended": 0})
    assert (await admin.http.get(f"/tasks/{task}")).json() == shown | {
        "state": "revoked",
        "ended_at": "2026-01-02T03:05:05Z",
        "end_reason": "task_killed",
    }


async def test_what_has_expired_is_shown_so_before_the_sweeper_comes(admin: Office, clock: FakeClock) -> None:
    task = await beside(admin, clock).task(life=10)
    clock.advance(10)
    shown = (await admin.http.get(f"/tasks/{task}")).json()
    assert (shown["state"], shown["ended_at"]) == ("expired", None)


@pytest.mark.parametrize("id", ["task_0", "x", "task_" + "0" * 25 + "%00", "task_" + "9" * 26, "%ff", "a%2Fb"])
async def test_a_task_that_is_not_there_is_not_found(admin: Office, id: str) -> None:
    for method in ("GET", "DELETE"):
        answer = await admin.http.request(method, f"/tasks/{id}")
        assert answer.status_code == 404, answer.text
        assert answer.json()["type"] in ("urn:onbe:refusal:task_unknown", "urn:onbe:refusal:path_unknown")


async def test_tasks_are_listed_by_every_filter_page_by_page(admin: Office, clock: FakeClock) -> None:
    rows = beside(admin, clock)
    made = [
        await rows.task("ab"[n % 2], ("ada", "bob", "cyd")[n % 3], life=10 if n % 5 == 0 else 900) for n in range(30)
    ]
    clock.advance(10)
    ending = made[1]
    await admin.http.delete(f"/tasks/{ending}")

    async def listed(**query: str) -> list[str]:
        found: list[str] = []
        before: dict[str, str] = {}
        for _ in range(20):
            page = (await admin.http.get("/tasks", params={**query, **before, "limit": "4"})).json()
            assert len(page["tasks"]) <= 4
            found += [task["id"] for task in page["tasks"]]
            if page["next"] is None:
                return found
            before = {"before": page["next"]}
        raise AssertionError("pages without end")

    newest_first = made[::-1]
    assert await listed() == newest_first
    assert await listed(agent="a") == made[::2][::-1]
    assert await listed(sponsor="bob") == made[1::3][::-1]
    dead = {ending, *made[::5]}
    assert await listed(open="true") == [id for id in newest_first if id not in dead]
    assert await listed(open="false") == [id for id in newest_first if id in dead]
    assert await listed(agent="b", sponsor="bob", open="false") == [
        id for n, id in reversed(list(enumerate(made))) if n % 2 == 1 and n % 3 == 1 and id in dead
    ]
    assert await listed(sponsor="nobody") == []


@pytest.mark.parametrize(
    "query", ["limit=0", "limit=201", "limit=x", "before=x", "open=perhaps", "agent=%00", "sponsor=%00", "agent=A/B"]
)
async def test_a_filter_that_is_none_is_told_and_changes_nothing(admin: Office, query: str) -> None:
    answer = await admin.http.get(f"/tasks?{query}")
    assert (answer.status_code, answer.json()["type"]) == (400, "urn:onbe:refusal:malformed_request")


@pytest.mark.parametrize("key", ODD_KEYS)
async def test_a_person_is_found_under_any_key(admin: Office, clock: FakeClock, key: str) -> None:
    rows = beside(admin, clock)
    task, other = await rows.task(sponsor=key), await rows.task(sponsor="somebody else")
    shown = await admin.http.get(path(key))
    assert shown.json() == {
        "sponsor": key, "blocked": False, "blocks": {}, "open_tasks": 1, "tasks_ended_at": None,
    }  # fmt: skip
    assert (await admin.http.get(path(key, "/block"))).status_code == 404
    blocked = await admin.http.put(path(key, "/block"), json={"reason": "left the company"})
    assert blocked.status_code == 200
    assert blocked.json()["sponsor"] == key
    assert blocked.json()["blocks"]["admin"]["reason"] == "left the company"
    assert blocked.json()["open_tasks"] == 0
    assert (await admin.http.get(path(key, "/block"))).json() == blocked.json()
    assert await rows.ends() == {task: ("revoked", "sponsor_blocked"), other: (None, None)}
    lifted = await admin.http.delete(path(key, "/block"))
    assert lifted.json()["blocked"] is False
    assert (await admin.http.delete(path(key, "/block"))).status_code == 404
    again = await rows.task(sponsor=key)
    assert (await admin.http.delete(path(key, "/tasks"))).json() == {"tasks_ended": 1}
    assert (await rows.ends())[again] == ("revoked", "sponsor_killed")
    assert {row["key"] for row in await rows.rows("SELECT key FROM sponsors")} == {key, "somebody else"}


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(key=st.text(st.characters(codec="utf-8").filter(str.isprintable), min_size=1, max_size=256))
async def test_what_is_blocked_is_the_very_key_of_the_path(admin: Office, key: str) -> None:
    answer = await admin.http.put(path(key, "/block"), json={"reason": "x"})
    assert (answer.status_code, answer.json()["sponsor"]) == (200, key)


@pytest.mark.parametrize("encoded", ["%00", "a%00b", "a%09b", "%ff", "%C3", "%ED%A0%80", "e" * 257])
async def test_what_cannot_be_a_key_is_told(admin: Office, encoded: str) -> None:
    answers: list[httpx2.Response] = [
        await admin.http.get(f"/sponsors/{encoded}"),
        await admin.http.get(f"/sponsors/{encoded}/block"),
        await admin.http.put(f"/sponsors/{encoded}/block", json={"reason": "x"}),
        await admin.http.delete(f"/sponsors/{encoded}/block"),
        await admin.http.delete(f"/sponsors/{encoded}/tasks"),
    ]
    assert {(one.status_code, one.json()["type"]) for one in answers} == {(400, "urn:onbe:refusal:malformed_request")}


@pytest.mark.parametrize(
    "body", ['{"reason": ""}', "{}", '{"reason": 1}', '{"reason": "x", "source": "scim"}', "[]", '{"reason": "a\\nb"}']
)
async def test_a_block_needs_a_reason_and_takes_nothing_else(admin: Office, body: str) -> None:
    answer = await admin.http.put(path("ada", "/block"), content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 400
    assert (await admin.http.get(path("ada"))).json()["blocked"] is False


async def test_the_switch_of_an_agent_is_at_its_address(admin: Office, clock: FakeClock) -> None:
    rows = beside(admin, clock)
    await rows.task("a", "ada")
    await rows.task("a", "bob")
    assert (await admin.http.delete("/agents/a/tasks")).json() == {"tasks_ended": 2}
    for unknown in ("nobody", "%00", "A%2FB"):
        assert (await admin.http.delete(f"/agents/{unknown}/tasks")).status_code == 404


async def test_nobody_throws_a_switch_without_the_key(admin: Office, clock: FakeClock) -> None:
    rows = beside(admin, clock)
    task = await rows.task()
    async with admin.stranger("Bearer " + "w" * 40) as stranger:
        answers = [
            await stranger.delete(f"/tasks/{task}"),
            await stranger.delete("/agents/scribe/tasks"),
            await stranger.delete("/sponsors/ada/tasks"),
            await stranger.put("/sponsors/ada/block", json={"reason": "x"}),
            await stranger.get("/sponsors/ada"),
            await stranger.get("/tasks"),
        ]
    assert {one.status_code for one in answers} == {401}
    assert len({one.text for one in answers}) == 1
    assert await rows.ends() == {task: (None, None)}


async def test_an_agent_can_be_deleted_once_its_tasks_are_forgotten(admin: Office, clock: FakeClock) -> None:
    rows = beside(admin, clock)
    root = await rows.task("a")
    await rows.task("b", parent=root, depth=2)
    await admin.http.delete(f"/tasks/{root}")
    assert (await admin.http.delete("/agents/a")).status_code == 409
    clock.advance(timedelta(days=29))
    await jobs.tick(admin.deps)
    assert (await admin.http.delete("/agents/a")).status_code == 409
    clock.advance(timedelta(days=2))
    for _ in range(2):
        await jobs.tick(admin.deps)
    assert (await admin.http.delete("/agents/a")).status_code == 204
    assert len(await rows.records("task.revoked")) == 2


async def test_a_switch_for_thousands_of_tasks_is_one_transaction_with_a_record_each(
    admin: Office, clock: FakeClock
) -> None:
    rows = beside(admin, clock)
    for person in ("ada", "bob", "cyd"):
        await many(rows, 1000, sponsor=person, life=100)
    assert (await admin.http.delete("/agents/scribe/tasks")).json() == {"tasks_ended": 3000}
    told = await rows.records()
    assert len({row["task"] for row in told if row["action"] == "task.revoked"}) == 3000
    assert len({row["at"] for row in told}) == 1
    assert (await admin.http.get("/tasks?open=true")).json()["tasks"] == []
