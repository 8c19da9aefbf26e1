"""What every forge does."""

from __future__ import annotations

import asyncio

import pytest
from tests.conformance.forges.conftest import Kit

from keel import db
from rift.drivers.forge.packets import FLUSH, Packets, packet
from rift.drivers.forge.protocol import ForgeError, Gathered, Part, Service

BOX = "b-00000000000000000000000a"
OTHER = "b-00000000000000000000000b"
NONE = "0" * 40


async def request(kit: Kit, service: Service, part: Part, body: bytes = b"", version: int = 0) -> bytes:
    """The whole answer to one request of the smart protocol."""
    session = await kit.forge.open(kit.mirror, kit.url, service, part, version)
    await kit.forge.feed(session, body, last=True)
    told = b""
    async with asyncio.timeout(60):
        while (more := await kit.forge.drain(session)) is not None:
            told += more
    await kit.forge.close(session)
    return told


def refs(told: bytes) -> dict[str, str]:
    """The branches of what `refs` answered, after the line that names the service."""
    packets = Packets()
    first, ended = packets.take(told)
    assert ended
    assert first[0].startswith(b"# service=git-")
    lines, ended = packets.take(b"")
    assert ended
    pairs = (line.partition(b"\0")[0].decode().split() for line in lines)
    return {ref.removeprefix("refs/heads/"): commit for commit, ref in pairs if ref.startswith("refs/heads/")}


def update(ref: str, old: str, new: str) -> bytes:
    """A push of one ref, without its pack."""
    return packet(f"{old} {new} {ref}\0report-status".encode()) + FLUSH


async def test_the_heads_are_the_branches_by_their_short_names(kit: Kit) -> None:
    heads = {branch: kit.commit(branch) for branch in ("main", "feature/x", "release-1.2")}
    assert await kit.forge.heads(kit.url) == heads


async def test_the_default_branch_is_what_head_names_there_and_none_where_it_names_none(kit: Kit) -> None:
    assert await kit.forge.default(kit.url) is None  # an empty one
    kit.commit("main")
    kit.commit("team/trunk")
    assert await kit.forge.default(kit.url) == "main"
    kit.name("team/trunk")
    assert await kit.forge.default(kit.url) == "team/trunk"
    kit.name("gone")
    assert await kit.forge.default(kit.url) is None
    kit.name(None)
    assert await kit.forge.default(kit.url) is None
    kit.remove()
    with pytest.raises(ForgeError):
        await kit.forge.default(kit.url)


async def test_an_empty_repository_has_no_heads_and_can_be_fetched(kit: Kit) -> None:
    assert await kit.forge.heads(kit.url) == {}
    assert await kit.forge.fetch(kit.url, kit.mirror) == {}
    commit = kit.commit("main")
    assert await kit.forge.fetch(kit.url, kit.mirror) == {"main": commit}


async def test_fetching_follows_what_moves_and_forgets_what_goes(kit: Kit) -> None:
    first, side = kit.commit("main"), kit.commit("side")
    assert await kit.forge.fetch(kit.url, kit.mirror) == {"main": first, "side": side}
    second = kit.commit("main")
    kit.delete("side")
    assert await kit.forge.fetch(kit.url, kit.mirror) == {"main": second}
    assert await kit.forge.heads(kit.url) == {"main": second}


async def test_what_was_fetched_stays_though_its_branch_moved_and_went(kit: Kit) -> None:
    first, side = kit.commit("main"), kit.commit("side")
    await kit.forge.fetch(kit.url, kit.mirror)
    kit.commit("main")
    kit.delete("side")
    await kit.forge.fetch(kit.url, kit.mirror)
    assert kit.has(first)
    assert kit.has(side)


async def test_a_branch_may_take_the_place_of_a_folder_of_branches_and_back(kit: Kit) -> None:
    kit.commit("topic/one")
    await kit.forge.fetch(kit.url, kit.mirror)
    kit.delete("topic/one")
    commit = kit.commit("topic")
    assert await kit.forge.fetch(kit.url, kit.mirror) == {"topic": commit}
    kit.delete("topic")
    commit = kit.commit("topic/two")
    assert await kit.forge.fetch(kit.url, kit.mirror) == {"topic/two": commit}


async def test_pins_are_kept_by_box_and_fetching_leaves_them(kit: Kit) -> None:
    first = kit.commit("main")
    await kit.forge.fetch(kit.url, kit.mirror)
    await kit.forge.pin(kit.mirror, BOX, first)
    second = kit.commit("main")
    await kit.forge.fetch(kit.url, kit.mirror)
    await kit.forge.pin(kit.mirror, OTHER, second)
    await kit.forge.pin(kit.mirror, OTHER, second)
    assert kit.pins() == {BOX: first, OTHER: second}
    for _ in range(2):
        await kit.forge.unpin(kit.mirror, BOX)
    assert kit.pins() == {OTHER: second}


async def test_pins_are_no_heads(kit: Kit) -> None:
    commit = kit.commit("main")
    await kit.forge.fetch(kit.url, kit.mirror)
    await kit.forge.pin(kit.mirror, BOX, commit)
    assert await kit.forge.fetch(kit.url, kit.mirror) == {"main": commit}


async def test_a_commit_that_is_not_there_cannot_be_pinned(kit: Kit) -> None:
    kit.commit("main")
    await kit.forge.fetch(kit.url, kit.mirror)
    with pytest.raises(ForgeError):
        await kit.forge.pin(kit.mirror, BOX, "f" * 40)


async def test_there_is_nothing_to_unpin_in_a_mirror_that_was_never_made(kit: Kit) -> None:
    await kit.forge.unpin(kit.mirror, BOX)


async def test_a_repository_that_is_gone_is_told_and_the_mirror_stays(kit: Kit) -> None:
    commit = kit.commit("main")
    await kit.forge.fetch(kit.url, kit.mirror)
    kit.remove()
    with pytest.raises(ForgeError, match="cannot be read"):
        await kit.forge.heads(kit.url)
    with pytest.raises(ForgeError, match="cannot be"):
        await kit.forge.fetch(kit.url, kit.mirror)
    assert kit.has(commit)


async def test_racing_fetches_all_come_to_the_same_heads(kit: Kit) -> None:
    heads = {branch: kit.commit(branch) for branch in ("main", "a", "b")}
    fetched = await asyncio.gather(*(kit.forge.fetch(kit.url, kit.mirror) for _ in range(4)))
    assert fetched == [heads] * 4


async def test_a_mirror_is_there_from_its_first_fetch_on(kit: Kit) -> None:
    kit.commit("main")
    assert not await kit.forge.has(kit.mirror)
    await kit.forge.fetch(kit.url, kit.mirror)
    assert await kit.forge.has(kit.mirror)


async def test_forges_refuse_to_work_inside_a_transaction(kit: Kit) -> None:
    inside = db._inside.set(True)
    try:
        for call in (
            kit.forge.heads(kit.url),
            kit.forge.default(kit.url),
            kit.forge.fetch(kit.url, kit.mirror),
            kit.forge.pin(kit.mirror, BOX, "0" * 40),
            kit.forge.unpin(kit.mirror, BOX),
            kit.forge.gather(kit.url, kit.mirror, "0" * 40),
            kit.forge.open(kit.mirror, kit.url, "upload-pack", "refs"),
            kit.forge.feed("0" * 32, b"", last=True),
            kit.forge.drain("0" * 32),
            kit.forge.close("0" * 32),
        ):
            with pytest.raises(RuntimeError, match="inside a database transaction"):
                await call
    finally:
        db._inside.reset(inside)


async def test_a_commit_is_gathered_where_the_mirror_has_it(kit: Kit) -> None:
    commit = kit.commit("main")
    await kit.forge.fetch(kit.url, kit.mirror)
    assert await kit.forge.gather(kit.url, kit.mirror, commit) == Gathered()
    with pytest.raises(ForgeError):
        await kit.forge.gather(kit.url, kit.mirror, "f" * 40)


@pytest.mark.parametrize("service", ["upload-pack", "receive-pack"])
async def test_a_session_tells_the_branches_as_they_are_now(kit: Kit, service: Service) -> None:
    first = kit.commit("main")
    assert refs(await request(kit, service, "refs")) == {"main": first}
    await kit.forge.pin(kit.mirror, BOX, first)
    heads = {"main": kit.commit("main"), "side": kit.commit("side")}
    assert refs(await request(kit, service, "refs")) == heads


async def test_a_push_removes_a_branch_and_only_as_the_client_saw_it(kit: Kit) -> None:
    main, side = kit.commit("main"), kit.commit("side")
    await kit.forge.fetch(kit.url, kit.mirror)
    refused = await request(kit, "receive-pack", "rpc", update("refs/heads/side", main, NONE))
    assert b"unpack ok" in refused
    assert b"ng refs/heads/side " in refused
    assert await kit.forge.heads(kit.url) == {"main": main, "side": side}
    taken = await request(kit, "receive-pack", "rpc", update("refs/heads/side", side, NONE))
    assert b"ok refs/heads/side" in taken
    assert await kit.forge.heads(kit.url) == {"main": main}


async def test_a_session_that_was_closed_or_never_was_is_told(kit: Kit) -> None:
    kit.commit("main")
    session = await kit.forge.open(kit.mirror, kit.url, "upload-pack", "rpc")
    for _ in range(2):
        await kit.forge.close(session)
    for number in (session, "0" * 32):
        with pytest.raises(ForgeError, match="no such session"):
            await kit.forge.feed(number, b"", last=True)
        with pytest.raises(ForgeError, match="no such session"):
            await kit.forge.drain(number)


async def test_no_session_is_opened_where_the_origin_cannot_be_read(kit: Kit) -> None:
    kit.commit("main")
    await kit.forge.fetch(kit.url, kit.mirror)
    kit.remove()
    with pytest.raises(ForgeError, match="cannot be"):
        await kit.forge.open(kit.mirror, kit.url, "upload-pack", "refs")
