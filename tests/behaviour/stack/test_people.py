"""Whose call it is, and what that person may do at the moment it runs; refs watched and unwatched under held boxes."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from tests.behaviour.stack import program
from tests.behaviour.stack.hands import Hands
from tests.wire.clients import Raw

from keel.testing import eventually


@pytest.fixture
async def grace(hands: Hands) -> AsyncIterator[Hands]:
    """Somebody else, with a task of her own, made a member of Ada's organization; out of it again after the test."""
    hands.stack.sql(
        "INSERT INTO members (org, user_id, role) "
        "SELECT r.org, u.id, 'member' FROM repos r, users u WHERE u.email = %(who)s",
        who=program.GRACE,
    )
    other = Hands(hands.stack, "grace")
    await other.open()
    yield other
    await other.close()
    leave(hands)


def leave(hands: Hands) -> None:
    """Grace leaves Ada's organization."""
    hands.stack.sql(
        "DELETE FROM members m USING repos r, users u WHERE m.org = r.org AND m.user_id = u.id AND u.email = %(who)s",
        who=program.GRACE,
    )


async def test_a_member_reads_and_works_and_asks_an_admin_for_changes(grace: Hands) -> None:
    assert program.REPO in (await grace.call("rift_whoami")).text
    await grace.take()
    assert (await grace.bash("echo mine"))["output"] == "mine\n"
    for tool, more in (("rift_watch", {"warm": 5}), ("rift_unwatch", {})):
        said = await grace.call(tool, repo=program.REPO, ref="main", **more)
        assert [mend["kind"] for mend in said.mends] == ["ask"], said.text
        assert f"{tool} " in said.text
        assert program.ADA in said.text
    unwatched = await grace.call("rift_vm_new", task=grace.task, repo=program.REPO, ref="nowhere")
    assert unwatched.refused == "ref_not_watched"
    assert unwatched.mends[0]["kind"] == "ask"
    assert "rift_watch " in unwatched.text
    assert "dmin" in unwatched.mends[0]["role"]


async def test_membership_is_looked_at_when_a_call_runs_also_for_a_box_claimed_before(
    hands: Hands, grace: Hands
) -> None:
    await grace.take()
    assert (await grace.bash("true"))["exit"] == 0
    leave(hands)
    said = await grace.bash("touch /tmp/never")
    assert said.refused == "vm_not_member"
    assert (await grace.call("rift_vm_new", task=grace.task, repo=program.REPO, ref="main")).refused is not None


async def test_a_revoked_token_reaches_nothing_at_its_next_call(hands: Hands) -> None:
    name = hands.stack.sql("SELECT id FROM tokens WHERE client = 'Cursor'")[0]["id"]
    raw = Raw(hands.stack.url, hands.stack.tokens["ada again"])
    assert (await raw.call("rift_whoami")).status == 200
    hands.stack.sql("UPDATE tokens SET revoked_at = now() WHERE id = %(id)s", id=name)
    assert (await raw.call("rift_whoami")).status == 401
    assert (await raw.call("rift_vm_ls", {"task": hands.task})).status == 401
    hands.stack.sql("UPDATE tokens SET revoked_at = NULL WHERE id = %(id)s", id=name)


async def test_an_unwatched_branch_drains_and_a_box_that_is_held_runs_on(hands: Hands) -> None:
    program.git(hands.stack.data / "origin", "branch", "-f", "leaving")
    watched = await hands.call("rift_watch", repo=program.REPO, ref="leaving")
    assert "1 warm VM at its head" in watched.text
    held = await hands.take("leaving")

    def warm() -> set[str]:
        rows = hands.stack.sql("SELECT id FROM boxes WHERE ref = 'leaving' AND task IS NULL AND state = 'running'")
        return {row["id"] for row in rows}

    spare = await eventually(warm, within=60, every=0.1)
    assert (await hands.call("rift_unwatch", repo=program.REPO, ref="leaving")).refused is None
    await eventually(lambda: not spare & set(hands.stack.boxes), within=60, every=0.2)
    assert (await hands.bash("echo on", vm=held))["output"] == "on\n"
    said = await hands.call("rift_vm_new", task=hands.task, repo=program.REPO, ref="leaving")
    assert said.refused == "ref_not_watched"
    task = hands.task
    await hands.close()
    assert held not in hands.stack.boxes
    assert (await hands.call("rift_vm_ls", task=task)).refused == "task_closed"


async def test_repositories_are_listed_with_what_is_watched_warm_and_ready(hands: Hands) -> None:
    head = program.git(hands.stack.data / "origin", "rev-parse", "main")

    async def full() -> bool:
        said = await hands.call("rift_repos", org="personal")
        return f"main: warm 1, ready 1, head {head}" in said.text

    await eventually(full, within=60, every=0.2)
