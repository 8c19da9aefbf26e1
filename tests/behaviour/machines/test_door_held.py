"""What is held open at the door: what outlasts whoever began it, strangers in a box's places, tiny packets."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from starlette.requests import Request
from tests.behaviour.machines.harness import HEAD, URL, Place
from tests.behaviour.machines.jails import NEW, NONE, PACK, Jail, command_list, recorded, told
from tests.behaviour.machines.test_door import closed, left, put_out, uncovered
from tests.behaviour.machines.test_lfs import DOOR, answers, batch
from tests.behaviour.machines.test_verbs import RESULT, Origin, at_github

from rift.drivers.carrier.fake import FakeCarrier
from rift.drivers.forge.packets import BadRequest, Packets, packet, section
from rift.verbs.actions import Withdrawn
from rift.wire.agent import door as door_module

FIX = f"{NONE} {NEW} refs/heads/fix"


async def push_while(rift: Place, jail: Jail, change: Any, *parts: bytes) -> Any:
    """A push that comes in parts, before the last of which something changes."""

    async def body() -> AsyncIterator[bytes]:
        for part in parts[:-1]:
            yield part
        await change(rift, jail)
        yield parts[-1]

    return await jail.raw(body())  # type: ignore[arg-type]  # a body as it comes


async def disconnected(rift: Place, jail: Jail) -> None:
    await rift.rows("DELETE FROM github_users RETURNING login")


async def destroyed(rift: Place, jail: Jail) -> None:
    await rift.rows("UPDATE boxes SET state = 'destroying' RETURNING id")


CHANGES = [
    (closed, "verb_task_closed"), (left, "verb_not_member"), (put_out, "verb_put_out"),
    (uncovered, "verb_uncovered"), (destroyed, "verb_task_closed"),
]  # fmt: skip
WAYS = [
    (command_list(FIX), PACK),
    (command_list(FIX) + PACK[:8], PACK[8:]),
    (command_list(FIX) + PACK[:6], PACK[6:9], PACK[9:]),
]


@pytest.mark.parametrize(("change", "code"), CHANGES)
@pytest.mark.parametrize("parts", WAYS)
async def test_a_push_that_waits_does_not_outlast_who_may(
    rift: Place, jail: Jail, change: Any, code: str, parts: tuple[bytes, ...]
) -> None:
    said = await push_while(rift, jail, change, *parts)
    assert told(said.content)[1] == ["unpack ok", "ng refs/heads/fix refused by Rift"]
    assert rift.forge.repositories[URL] == {"main": HEAD}
    assert await recorded(rift) == [("push", "begun"), ("push", code)]


@pytest.mark.parametrize(("change", "code"), [*CHANGES, (disconnected, "no_github_login")])
async def test_nor_does_one_to_github_or_one_that_removes_a_branch(
    rift: Place, jail: Jail, change: Any, code: str
) -> None:
    await at_github(rift)
    origin = Origin(rift)
    origin.answer = (200, {"content-type": RESULT}, b"")
    said = await push_while(rift, jail, change, command_list(FIX) + PACK[:6], PACK[6:])
    assert told(said.content)[1] == ["unpack ok", "ng refs/heads/fix refused by Rift"]
    assert origin.asked == []
    assert await recorded(rift) == [("push", "begun"), ("push", code)]


@pytest.mark.parametrize(("change", "code"), [*CHANGES, (disconnected, "no_github_login")])
async def test_nor_does_an_lfs_file(rift: Place, jail: Jail, change: Any, code: str) -> None:
    await at_github(rift)
    origin = Origin(rift)
    rift.deps.carrier.origins["https://store.example/"] = origin  # type: ignore[attr-defined]  # the fake's
    answers(origin)
    href = (await batch(jail)).json()["objects"][0]["actions"]["upload"]["href"].removeprefix(DOOR)
    before = len(origin.asked)

    async def body() -> AsyncIterator[bytes]:
        yield b"ab"
        await change(rift, jail)
        yield b"c"

    said = await jail.ask("PUT", href, body(), {"Content-Length": "3"})  # type: ignore[arg-type]  # a body as it comes
    assert said.status_code == 403
    assert origin.asked[before:] == []
    assert await recorded(rift) == [("lfs", "ok"), ("lfs", "begun"), ("lfs", code)]


async def parked(rift: Place, jail: Jail) -> None:
    await rift.rows("UPDATE boxes SET state = 'parked' RETURNING id")


async def unchanged(rift: Place, jail: Jail) -> None:
    """Nothing happens meanwhile."""


def read_from(rift: Place, jail: Jail, address: str, kind: str, change: Any) -> None:
    """Have an origin answer in two parts, between which something changes."""

    async def parts() -> AsyncIterator[bytes]:
        yield b"one"
        await change(rift, jail)
        yield b"two"

    assert isinstance(rift.deps.carrier, FakeCarrier)
    rift.deps.carrier.origins[address] = lambda *_: (200, {"content-type": kind}, parts())


async def fetched(rift: Place, jail: Jail, change: Any) -> bytes:
    read_from(rift, jail, "https://github.com/", "application/x-git-upload-pack-result", change)
    return (await jail.raw(b"0000", "upload")).content


async def downloaded(rift: Place, jail: Jail, change: Any) -> bytes:
    origin = Origin(rift)
    answers(origin, name="download")
    href = (await batch(jail, "download")).json()["objects"][0]["actions"]["download"]["href"].removeprefix(DOOR)
    read_from(rift, jail, "https://store.example/", "application/octet-stream", change)
    return (await jail.ask("GET", href)).content


@pytest.mark.parametrize("change", [unchanged, parked])
@pytest.mark.parametrize("reading", [fetched, downloaded])
async def test_what_is_read_comes_whole(rift: Place, jail: Jail, reading: Any, change: Any) -> None:
    await at_github(rift)
    assert await reading(rift, jail, change) == b"onetwo"


@pytest.mark.parametrize(("change", "code"), [*CHANGES, (disconnected, "no_github_login")])
@pytest.mark.parametrize(("reading", "tool"), [(fetched, "fetch"), (downloaded, "lfs")])
async def test_nor_does_a_fetch_or_an_lfs_file_that_comes(
    rift: Place, jail: Jail, reading: Any, tool: str, change: Any, code: str
) -> None:
    await at_github(rift)
    with pytest.raises(Withdrawn):  # the answer had begun: it is broken off
        await reading(rift, jail, change)
    assert (await recorded(rift))[-1] == (tool, code)


async def test_a_stranger_takes_no_place_at_the_door_and_nothing_of_theirs_is_read(
    rift: Place, jail: Jail, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[Request] = []

    async def stream(request: Request) -> AsyncIterator[bytes]:
        read.append(request)
        yield b""

    paths = ("/verbs/pr-status", "/git/acme/app.git/info/lfs/objects/batch", "/git/acme/app.git/git-upload-pack")
    door_module._asking[jail.box.id] = door_module.MOST
    monkeypatch.setattr(Request, "stream", stream)
    try:
        for path in paths:
            said = await jail.ask("POST", path, b"x" * 1000, token="guess")
            assert (said.status_code, said.text) == (410, "this box, or this start of its agent, is over\n")
    finally:
        del door_module._asking[jail.box.id]
    assert read == []
    assert await recorded(rift) == []


async def test_packets_count_for_what_they_cost_and_not_for_their_bytes_alone() -> None:
    seen = 0

    async def tiny() -> AsyncIterator[bytes]:
        nonlocal seen
        while True:
            seen += 1000
            yield packet(b"xy") * 1000

    with pytest.raises(BadRequest):
        await section(Packets(), tiny(), 4 << 20)
    assert seen < 100_000
