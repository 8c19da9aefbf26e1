"""The door of a box: who may ask at it at which moment, what a push is refused with, and what is on record."""

from __future__ import annotations

import gzip
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import httpx2
import pytest
from starlette.applications import Starlette
from tests.behaviour.machines.harness import HEAD, URL, Place

from rift.agents.model import Agent
from rift.boxes.model import Box
from rift.drivers.forge.packets import FLUSH, Packets, packet
from rift.tasks import actions as tasks
from rift.wire.agent import door as door_module
from rift.wire.agent.door import MOST, routes

NEW, NONE = "b" * 40, "0" * 40
REFS = "/git/acme/app.git/info/refs?service=git-{}-pack"
PACK = b"PACK\0\0\0\2\0\0\0\0"


@dataclass
class Jail:
    """What git in the jail of one box asks for."""

    http: httpx2.AsyncClient
    agent: Agent
    box: Box
    handle: str

    async def ask(
        self, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None, **other: Any
    ) -> httpx2.Response:
        agent = other.get("agent", self.agent)
        token = {"Authorization": f"Bearer {other.get('token', agent.token)}"}
        where = f"/agent/v1/{agent.box}/{other.get('incarnation', agent.incarnation)}/door{path}"
        return await self.http.request(method, where, content=body, headers={**token, **(headers or {})})

    async def refs(self, service: str = "upload", **other: Any) -> httpx2.Response:
        return await self.ask("GET", REFS.format(service), **other)

    async def push(
        self, *updates: str, pack: bytes = PACK, repo: str = "acme/app.git", **other: Any
    ) -> httpx2.Response:
        return await self.raw(command_list(*updates) + pack, repo=repo, **other)

    async def raw(
        self, body: bytes, service: str = "receive", repo: str = "acme/app.git", **other: Any
    ) -> httpx2.Response:
        kind = {"Content-Type": f"application/x-git-{service}-pack-request"} | other.pop("headers", {})
        return await self.ask("POST", f"/git/{repo}/git-{service}-pack", body, kind, **other)


def command_list(*updates: str, able: str = "report-status side-band-64k") -> bytes:
    """Each update is `OLD NEW REF`."""
    lines = [one.encode() + (f"\0 {able}".encode() if number == 0 else b"") for number, one in enumerate(updates)]
    return b"".join(map(packet, lines)) + FLUSH


def told(answer: bytes) -> tuple[str, list[str]]:
    """What git shows of a push's answer: the remote's words, and the line of each ref."""
    bands, _ = Packets().take(answer)
    said = b"".join(one[1:] for one in bands if one[:1] == b"\2").decode()
    lines, _ = Packets().take(b"".join(one[1:] for one in bands if one[:1] == b"\1"))
    return said, [line.decode().rstrip("\n") for line in lines]


@pytest.fixture
async def jail(rift: Place) -> AsyncIterator[Jail]:
    lease = await rift.open_task()
    box = await rift.running_box(lease.handle)
    transport = httpx2.ASGITransport(Starlette(routes=routes(rift.deps)))
    async with httpx2.AsyncClient(transport=transport, base_url="http://door") as http:
        yield Jail(http, rift.agent(box.id), box, lease.handle)


async def recorded(rift: Place) -> list[tuple[str, str]]:
    rows = await rift.rows("SELECT action, outcome FROM ledger WHERE via = 'box' ORDER BY seq")
    return [(row["action"], row["outcome"]) for row in rows]


async def test_a_fetch_and_a_push_go_to_the_origin_and_each_is_one_record(rift: Place, jail: Jail) -> None:
    said = await jail.refs()
    assert (said.status_code, said.headers["content-type"]) == (200, "application/x-git-upload-pack-advertisement")
    assert HEAD.encode() in said.content
    assert (await jail.refs("receive")).status_code == 200
    assert (await jail.raw(FLUSH)).content == b""  # git asks whether it will be let in
    said = await jail.push(f"{NONE} {NEW} refs/heads/fix")
    assert told(said.content)[1] == ["unpack ok", "ok refs/heads/fix"]
    assert rift.forge.repositories[URL] == {"main": HEAD, "fix": NEW}
    assert await recorded(rift) == [("fetch", "ok"), ("push", "ok")]
    (row,) = await rift.rows("SELECT actor, task, box, arguments FROM ledger WHERE via = 'box' AND action = 'push'")
    assert (row["actor"], row["task"], row["box"]) == (rift.ada.user, jail.box.task, jail.box.id)
    assert row["arguments"] == {
        "repo": "acme/app", "refs": {"refs/heads/fix": f"{NONE[:12]}..{NEW[:12]}"}, "count": 1,
    }  # fmt: skip


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
    assert await recorded(rift) == [("push", "refused_by_origin")]


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


async def test_github_is_asked_as_the_person_or_not_at_all(rift: Place, jail: Jail) -> None:
    async with rift.deps.db.tx() as tx:
        await tx.run(
            "INSERT INTO github_accounts (installation, org, account_id, login, kind, enabled,"
            " connected_by, connected_at) SELECT 7, org, 70, 'acme', 'Organization', true, %(ada)s, now() FROM repos",
            {"ada": rift.ada.user},
        )  # fmt: skip
        await tx.run("UPDATE repos SET forge = 'github', account = 7, github_id = 1")
    said = await jail.refs()
    assert said.status_code == 403
    assert "no GitHub account connected" in said.text


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
