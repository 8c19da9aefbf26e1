"""A push whose box is parked in the middle of it: it lands whole or changes nothing, and the record says which."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import httpx2
from tests.behaviour.machines.harness import HEAD, URL, Place
from tests.behaviour.machines.jails import NEW, NONE, PACK, Jail, command_list, recorded

from keel.refusal import Refusal
from keel.testing import eventually

REF = "refs/heads/fix"


class Half:
    """A push of which the second half comes when it is let go, and never where its box is stopped for good."""

    def __init__(self, jail: Jail) -> None:
        self.rest = asyncio.Event()
        where = f"/agent/v1/{jail.agent.box}/{jail.agent.incarnation}/door/git/acme/app.git/git-receive-pack"
        headers = {
            "Authorization": f"Bearer {jail.agent.token}",
            "Content-Type": "application/x-git-receive-pack-request",
        }
        self.push: asyncio.Task[httpx2.Response] = asyncio.create_task(
            jail.http.post(where, content=self._body(), headers=headers)
        )

    async def _body(self) -> AsyncIterator[bytes]:
        yield command_list(f"{NONE} {NEW} {REF}") + PACK[:6]
        await self.rest.wait()
        yield PACK[6:]

    async def broken_off(self) -> None:
        self.push.cancel()
        await asyncio.gather(self.push, return_exceptions=True)


async def parked(rift: Place, jail: Jail) -> None:
    """Have the box be parked by its holder."""
    said = await rift.suspend(jail.handle, jail.box.id)
    assert not isinstance(said, Refusal), said


async def test_a_push_that_was_whole_at_rift_when_its_box_was_parked_lands(rift: Place, jail: Jail) -> None:
    rift.forge.silent.add(URL)
    push = asyncio.create_task(jail.push(f"{NONE} {NEW} {REF}"))
    await eventually(lambda: any(one.ended for one in rift.forge.sessions.values()))
    await parked(rift, jail)
    rift.forge.silent.discard(URL)
    assert b"ok refs/heads/fix" in (await push).content
    assert rift.forge.repositories[URL] == {"main": HEAD, "fix": NEW}
    assert await recorded(rift) == [("push", "begun"), ("push", "ok")]


async def test_a_push_whose_rest_comes_when_its_box_is_awake_again_lands(rift: Place, jail: Jail) -> None:
    half = Half(jail)
    await eventually(lambda: recorded(rift))
    await parked(rift, jail)
    await rift.rows("UPDATE boxes SET state = 'running' RETURNING id")
    half.rest.set()
    assert b"ok refs/heads/fix" in (await half.push).content
    assert rift.forge.repositories[URL] == {"main": HEAD, "fix": NEW}
    assert await recorded(rift) == [("push", "begun"), ("push", "ok")]


async def test_a_push_whose_rest_was_still_on_its_way_when_its_box_was_parked_is_refused(
    rift: Place, jail: Jail
) -> None:
    half = Half(jail)
    await eventually(lambda: recorded(rift))
    await parked(rift, jail)
    half.rest.set()
    assert b"ng refs/heads/fix refused by Rift" in (await half.push).content
    assert rift.forge.repositories[URL] == {"main": HEAD}
    assert await recorded(rift) == [("push", "begun"), ("push", "verb_vm_not_running")]


async def test_a_push_whose_rest_never_comes_changes_nothing_and_is_told_as_broken_off(rift: Place, jail: Jail) -> None:
    half = Half(jail)
    await eventually(lambda: recorded(rift))
    await parked(rift, jail)
    await half.broken_off()
    assert rift.forge.repositories[URL] == {"main": HEAD}
    assert await recorded(rift) == [("push", "begun"), ("push", "broken_off")]
