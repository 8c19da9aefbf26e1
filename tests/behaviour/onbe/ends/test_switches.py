"""What a switch ends, what it leaves alone, and what is recorded of it."""

from __future__ import annotations

from tests.behaviour.onbe.ends.rows import Rows

from keel.refusal import Refusal
from onbe.directory import actions as directory
from onbe.tasks import actions as tasks
from onbe.tasks.model import Task


def ids(ended: list[Task] | Refusal) -> list[str]:
    assert not isinstance(ended, Refusal)
    return [task.id for task in ended]


async def test_a_task_is_ended_with_all_that_is_delegated_from_it_and_nothing_beside_it(rows: Rows) -> None:
    root = await rows.task("a", renewals=7)
    child = await rows.task("b", parent=root, depth=2, renewals=1)
    grandchild = await rows.task("c", parent=child, depth=3)
    beside = await rows.task("a")
    rows.clock.advance(60)
    assert ids(await tasks.end_task(rows.deps, root)) == [root, child, grandchild]
    assert await rows.ends() == {
        root: ("revoked", "task_killed"),
        child: ("revoked", "parent_revoked"),
        grandchild: ("revoked", "parent_revoked"),
        beside: (None, None),
    }
    told = await rows.records()
    assert [(row["action"], row["task"], row["actor"], row["via"], row["outcome"]) for row in told] == [
        ("task.revoked", root, "ada", "a", "ok"),
        ("task.revoked", child, "ada", "b", "ok"),
        ("task.revoked", grandchild, "ada", "c", "ok"),
    ]
    assert [row["arguments"] for row in told] == [
        {"by": "admin", "renewals": 7, "reason": "task_killed"},
        {"by": "admin", "renewals": 1, "reason": "parent_revoked", "parent": root},
        {"by": "admin", "renewals": 0, "reason": "parent_revoked", "parent": child},
    ]


async def test_ending_a_part_of_a_chain_leaves_what_is_above_it(rows: Rows) -> None:
    root = await rows.task("a")
    child = await rows.task("b", parent=root, depth=2)
    grandchild = await rows.task("c", parent=child, depth=3)
    assert ids(await tasks.end_task(rows.deps, child)) == [child, grandchild]
    assert (await rows.ends())[root] == (None, None)


async def test_ending_what_has_ended_changes_nothing(rows: Rows) -> None:
    revoked, expired = await rows.task(), await rows.task(life=10)
    await tasks.end_task(rows.deps, revoked)
    rows.clock.advance(20)
    await tasks.sweep(rows.deps)
    before, told = await rows.rows("SELECT * FROM tasks ORDER BY id"), len(await rows.records())
    rows.clock.advance(20)
    for id in (revoked, expired):
        assert ids(await tasks.end_task(rows.deps, id)) == []
    assert ids(await tasks.end_tasks_of_agent(rows.deps, "scribe")) == []
    assert ids(await tasks.end_tasks_of_sponsor(rows.deps, "ada")) == []
    assert await rows.rows("SELECT * FROM tasks ORDER BY id") == before
    assert {row["action"] for row in (await rows.records())[told:]} == {"agent.tasks_ended", "sponsor.tasks_ended"}


async def test_what_had_expired_before_a_switch_expired_and_was_not_revoked(rows: Rows) -> None:
    over, alive = await rows.task(life=10, renewals=3), await rows.task(life=100)
    rows.clock.advance(10)
    assert ids(await tasks.end_tasks_of_sponsor(rows.deps, "ada")) == [alive]
    assert await rows.ends() == {over: ("expired", None), alive: ("revoked", "sponsor_killed")}
    told = {row["action"]: row for row in await rows.records("task.expired", "task.revoked")}
    assert told["task.expired"]["task"] == over
    assert told["task.expired"]["arguments"] == {"by": "admin", "renewals": 3}
    await tasks.sweep(rows.deps)
    assert len(await rows.records("task.expired")) == 1


async def test_the_switch_of_an_agent_reaches_every_person_and_what_other_agents_do_for_it(rows: Rows) -> None:
    first, second = await rows.task("a", "ada"), await rows.task("a", "bob")
    delegated = await rows.task("b", "bob", parent=second, depth=2)
    own = await rows.task("b", "bob")
    assert set(ids(await tasks.end_tasks_of_agent(rows.deps, "a"))) == {first, second, delegated}
    assert await rows.ends() == {
        first: ("revoked", "agent_killed"),
        second: ("revoked", "agent_killed"),
        delegated: ("revoked", "parent_revoked"),
        own: (None, None),
    }
    (told,) = await rows.records("agent.tasks_ended")
    assert (told["via"], told["arguments"]) == ("admin", {"agent": "a", "tasks": 3})


async def test_the_switch_of_an_agent_that_is_not_there_is_refused_and_recorded(rows: Rows) -> None:
    refused = await tasks.end_tasks_of_agent(rows.deps, "nobody")
    assert isinstance(refused, Refusal)
    assert refused.code == "agent_unknown"
    assert [(row["action"], row["outcome"]) for row in await rows.records()] == [("agent.tasks_ended", "agent_unknown")]


async def test_the_switch_of_a_person_reaches_every_agent_and_nobody_else(rows: Rows) -> None:
    hers = [await rows.task("a", "ada"), await rows.task("b", "ada")]
    his = await rows.task("a", "bob")
    assert ids(await tasks.end_tasks_of_sponsor(rows.deps, "ada")) == hers
    assert (await rows.ends())[his] == (None, None)


async def test_a_block_ends_and_stands_until_its_own_source_lifts_it(rows: Rows) -> None:
    task = await rows.task()
    standing = await tasks.block(rows.deps, "ada", "left the company")
    assert standing.open_tasks == 0
    assert standing.sponsor.blocks == {"admin": {"at": rows.clock.now().isoformat(), "reason": "left the company"}}
    assert await rows.ends() == {task: ("revoked", "sponsor_blocked")}
    refused = await tasks.unblock(rows.deps, "ada", "scim", "scim")
    assert isinstance(refused, Refusal)
    assert (refused.code, refused.facts) == ("block_of_another", {"source": "admin"})
    assert (await tasks.look_at(rows.deps, "ada")).sponsor.blocked
    lifted = await tasks.unblock(rows.deps, "ada")
    assert not isinstance(lifted, Refusal)
    assert not lifted.sponsor.blocked
    again = await tasks.unblock(rows.deps, "ada")
    assert isinstance(again, Refusal)
    assert again.code == "not_blocked"
    assert [(row["action"], row["outcome"]) for row in await rows.records("sponsor.blocked", "sponsor.unblocked")] == [
        ("sponsor.blocked", "ok"),
        ("sponsor.unblocked", "block_of_another"),
        ("sponsor.unblocked", "ok"),
        ("sponsor.unblocked", "not_blocked"),
    ]


async def test_two_sources_block_each_for_itself(rows: Rows) -> None:
    await tasks.block(rows.deps, "ada", "one", "admin", "admin")
    await tasks.block(rows.deps, "ada", "two", "scim", "scim")
    lifted = await tasks.unblock(rows.deps, "ada")
    assert not isinstance(lifted, Refusal)
    assert list(lifted.sponsor.blocks) == ["scim"]
    assert lifted.sponsor.blocked


async def test_a_block_that_stands_already_is_no_news(rows: Rows) -> None:
    await tasks.block(rows.deps, "ada", "same")
    first = await tasks.look_at(rows.deps, "ada")
    rows.clock.advance(5)
    again = await tasks.block(rows.deps, "ada", "same")
    assert again.sponsor.blocks == first.sponsor.blocks
    assert len(await rows.records("sponsor.blocked")) == 1
    await tasks.block(rows.deps, "ada", "another reason")
    assert len(await rows.records("sponsor.blocked")) == 2


async def test_every_fence_differs_from_the_one_before_also_when_the_clock_stands_or_goes_back(rows: Rows) -> None:
    seen = []
    for step in (0, 0, -30, -30, 60):
        rows.clock.set(rows.at(step))
        async with rows.db.tx() as tx:
            seen.append((await directory.fence_sponsor(tx, "ada", rows.clock.now())).tasks_ended_at)
    assert len(set(seen)) == 5
    assert seen == sorted(seen, key=str)
