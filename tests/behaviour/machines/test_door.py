"""The door of a box: who may ask at it at which moment, what a push is refused with, and what is on record."""

from __future__ import annotations

import asyncio
import gzip
from typing import Any

import httpx2
import pytest
from starlette.applications import Starlette
from tests.behaviour.machines.harness import HEAD, URL, Place
from tests.behaviour.machines.jails import NEW, NONE, PACK, Jail, command_list, recorded, told
from tests.behaviour.machines.test_verbs import at_github

from keel.testing import eventually
from rift.drivers.carrier.fake import FakeCarrier
from rift.drivers.forge.packets import FLUSH, packet
from rift.tasks import actions as tasks
from rift.wire.agent import door as door_module
from rift.wire.agent.door import MOST, routes


async def test_a_fetch_and_a_push_go_to_the_origin_and_each_is_one_record(rift: Place, jail: Jail) -> None:
    said = await jail.refs()
    assert (said.status_code, said.headers["content-type"]) == (200, "application/x-git-upload-pack-advertisement")
    assert HEAD.encode() in said.content
    assert (await jail.refs("receive")).status_code == 200
    assert (await jail.raw(FLUSH)).content == b""  # git asks whether it will be let in
    said = await jail.push(f"{NONE} {NEW} refs/heads/fix")
    assert told(said.content)[1] == ["unpack ok", "ok refs/heads/fix"]
    assert rift.forge.repositories[URL] == {"main": HEAD, "fix": NEW}
    assert await recorded(rift) == [("fetch", "ok"), ("push", "begun"), ("push", "ok")]
    rows = await rift.rows("SELECT actor, task, box, arguments FROM ledger WHERE via = 'box' AND action = 'push'")
    assert len(rows) == 2
    for row in rows:
        assert (row["actor"], row["task"], row["box"]) == (rift.ada.user, jail.box.task, jail.box.id)
        assert row["arguments"] == {
            "repo": "acme/app", "refs": {"refs/heads/fix": f"{NONE[:12]}..{NEW[:12]}"}, "count": 1,
        }  # fmt: skip


@pytest.mark.parametrize("forge", ["local", "github"])
async def test_a_push_is_on_record_before_the_origin_hears_of_it_and_again_when_it_is_broken_off(
    rift: Place, jail: Jail, forge: str
) -> None:
    """What is on record while the origin is silent is what a server that is killed then leaves behind."""
    if forge == "github":
        await at_github(rift)
        assert isinstance(rift.deps.carrier, FakeCarrier)
        rift.deps.carrier.silent.add("https://github.com/acme/app.git/git-receive-pack")
    rift.forge.silent.add(URL)
    push = asyncio.create_task(jail.push(f"{NONE} {NEW} refs/heads/fix"))
    try:
        await eventually(lambda: recorded(rift))
        assert await recorded(rift) == [("push", "begun")]
        (row,) = await rift.rows("SELECT arguments FROM ledger WHERE via = 'box'")
        assert row["arguments"]["refs"] == {"refs/heads/fix": f"{NONE[:12]}..{NEW[:12]}"}
        assert not push.done()
    finally:
        push.cancel()
        await asyncio.gather(push, return_exceptions=True)
    assert await recorded(rift) == [("push", "begun"), ("push", "broken_off")]


async def test_a_push_outside_the_rules_is_refused_as_a_whole_and_says_what_may_be_done(
    rift: Place, jail: Jail
) -> None:
    said = await jail.push(f"{HEAD} {NEW} refs/heads/main", f"{NONE} {NEW} refs/heads/fix")
    remote, lines = told(said.content)
    assert remote.splitlines()[0] == (
        "Nothing was pushed: main is the default branch, and boxes of acme/app may not push to it. "
        "A branch of another name may be pushed."
    )
    assert "Ask an admin of the organization" in remote
    assert lines == [
        "unpack ok",
        "ng refs/heads/main main is the default branch, and boxes of acme/app may not push to it",
        "ng refs/heads/fix another ref of this push is refused",
    ]
    assert rift.forge.repositories[URL] == {"main": HEAD}
    assert await recorded(rift) == [("push", "push_refused")]


async def test_an_admin_may_allow_it_and_the_next_push_counts(rift: Place, jail: Jail) -> None:
    async with rift.deps.db.tx() as tx:
        await tx.run("UPDATE repos SET push_default = true, push_watched = true")
    said = await jail.push(f"{HEAD} {NEW} refs/heads/main")
    assert told(said.content)[1] == ["unpack ok", "ok refs/heads/main"]


async def test_what_the_origin_refuses_comes_through_and_is_on_record(rift: Place, jail: Jail) -> None:
    rift.forge.refusing["fix"] = rift.forge.refusing["refs/heads/fix"] = "hook declined"
    said = await jail.push(f"{NONE} {NEW} refs/heads/fix")
    assert told(said.content)[1][1] == "ng refs/heads/fix hook declined"
    assert await recorded(rift) == [("push", "begun"), ("push", "refused_by_origin")]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"PACK",
        b"00zz",
        packet(b"push-cert\0report-status") + FLUSH,
        packet(b"nothing of git's") + FLUSH,
        command_list(f"{NONE} {NEW} refs/heads/fix")[:-2],
        command_list(f"{NONE} {NEW} refs/heads/fix") + command_list(f"{HEAD} {NEW} refs/heads/main") + PACK,
        command_list(f"{NONE} {NEW} refs/heads/fix", f"{NONE} {NEW} refs/heads/fix") + PACK,
        command_list(f"{HEAD} {NONE} refs/heads/fix") + command_list(f"{HEAD} {NEW} refs/heads/main"),
        command_list(f"{HEAD} {NONE} refs/heads/fix") + PACK,
    ],
)
async def test_a_body_that_is_no_push_goes_nowhere(rift: Place, jail: Jail, body: bytes) -> None:
    said = await jail.raw(body)
    assert said.status_code == 403
    assert said.text.startswith("push was not done: ")
    assert rift.forge.repositories[URL] == {"main": HEAD}
    assert await recorded(rift) == [("push", "verb_malformed")]


async def test_a_body_packed_by_gzip_is_judged_by_what_is_in_it(rift: Place, jail: Jail) -> None:
    packed = {"Content-Encoding": "gzip"}
    guarded = gzip.compress(command_list(f"{HEAD} {NEW} refs/heads/main") + PACK)
    assert "ng refs/heads/main" in told((await jail.raw(guarded, headers=packed)).content)[1][1]
    fit = gzip.compress(command_list(f"{NONE} {NEW} refs/heads/fix") + PACK)
    assert told((await jail.raw(fit, headers=packed)).content)[1] == ["unpack ok", "ok refs/heads/fix"]
    assert (await jail.raw(b"no gzip", headers=packed)).status_code in (400, 403)


async def test_the_door_opens_no_other_repository(rift: Place, jail: Jail) -> None:
    for repo in ("acme/app-two.git", "other/app.git", "acme/app.git.git"):
        said = await jail.ask("GET", f"/git/{repo}/info/refs?service=git-upload-pack")
        assert said.status_code == 403
        assert said.text.startswith("This VM is one of acme/app, and its door opens no other repository.")
        refused = await jail.push(f"{NONE} {NEW} refs/heads/fix", repo=repo)
        assert told(refused.content)[1][1] == "ng refs/heads/fix refused by Rift"
    assert rift.forge.repositories[URL] == {"main": HEAD}
    assert (await jail.ask("GET", "/git/acme/%2e%2e%2fother.git/info/refs?service=git-upload-pack")).status_code in (
        403,
        404,
    )


async def closed(rift: Place, jail: Jail) -> None:
    task = await rift.task(str(jail.box.task))
    async with rift.deps.db.tx() as tx:
        await tasks.close_in(tx, rift.deps, task)


async def left(rift: Place, jail: Jail) -> None:
    await rift.rows("DELETE FROM members RETURNING org")


async def put_out(rift: Place, jail: Jail) -> None:
    await rift.rows("UPDATE users SET disabled_at = now() RETURNING id")


async def parked(rift: Place, jail: Jail) -> None:
    await rift.rows("UPDATE boxes SET state = 'parked' RETURNING id")


async def uncovered(rift: Place, jail: Jail) -> None:
    await rift.rows("UPDATE repos SET uncovered_at = now() RETURNING id")


@pytest.mark.parametrize(
    ("change", "code", "words"),
    [
        (closed, "verb_task_closed", "rift_task_new opens one"),
        (left, "verb_not_member", "no longer a member of the organization that acme/app belongs to"),
        (put_out, "verb_put_out", "is disabled"),
        (uncovered, "verb_uncovered", "out of Rift's reach"),
        (parked, "verb_vm_not_running", "is parked"),
    ],
)
async def test_who_may_is_looked_at_at_each_request(
    rift: Place, jail: Jail, change: Any, code: str, words: str
) -> None:
    assert (await jail.refs()).status_code == 200
    await change(rift, jail)
    said = await jail.refs()
    assert (said.status_code, said.headers["content-type"]) == (403, "text/plain; charset=utf-8")
    assert words in said.text
    remote, lines = told((await jail.push(f"{NONE} {NEW} refs/heads/fix")).content)
    assert words in remote
    assert lines == ["unpack ok", "ng refs/heads/fix refused by Rift"]
    # In git's protocol, as an error status would hide the words of a request that is under way.
    assert packet(b"ERR ")[4:] in (await jail.raw(FLUSH, service="upload")).content
    assert rift.forge.repositories[URL] == {"main": HEAD}
    assert [outcome for _, outcome in await recorded(rift)] == ["ok", code, code, code]


async def test_a_box_that_nobody_claimed_asks_for_nothing(rift: Place) -> None:
    (box,) = await rift.warm(1)
    transport = httpx2.ASGITransport(Starlette(routes=routes(rift.deps)))
    async with httpx2.AsyncClient(transport=transport, base_url="http://door") as http:
        said = await Jail(http, rift.agent(box.id), box, "").refs()
    assert (said.status_code, said.text.partition(",")[0]) == (403, f"The VM {box.name} is in no open task")


async def test_another_boxs_token_and_an_older_start_open_nothing(rift: Place, jail: Jail) -> None:
    other = await rift.running_box(jail.handle)
    assert (await jail.refs(token=rift.agent(other.id).token)).status_code == 410
    assert (await jail.refs(incarnation=jail.agent.incarnation + 1)).status_code == 410
    assert (await jail.refs(token="")).status_code == 401
    assert (await jail.push(f"{NONE} {NEW} refs/heads/fix", token="guess")).status_code == 410
    await rift.destroy(jail.handle, jail.box.id)
    assert (await jail.refs()).status_code == 410
    assert rift.forge.repositories[URL] == {"main": HEAD}
    assert await recorded(rift) == []


async def test_an_origin_that_cannot_be_read_is_told_with_its_reason(rift: Place, jail: Jail) -> None:
    rift.forge.broken[URL] = "it burns"
    said = await jail.refs()
    assert (said.status_code, said.text.splitlines()[0]) == (
        403,
        f"The origin of acme/app did not do it: {URL} cannot be read: it burns.",
    )
    assert await recorded(rift) == [("fetch", "verb_origin_failed")]


async def test_one_box_has_so_many_requests_at_the_door_and_no_more(rift: Place, jail: Jail) -> None:
    door_module._asking[jail.box.id] = MOST
    try:
        said = await jail.refs()
    finally:
        del door_module._asking[jail.box.id]
    assert (said.status_code, said.text) == (503, f"This box has {MOST} requests at Rift's door. Try again.\n")
