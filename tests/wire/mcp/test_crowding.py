"""One token's calls and bodies leave room for everybody else's, and what is sent to harm is refused."""

from __future__ import annotations

import asyncio
import json

import pytest
from tests.wire.clients import MODERN, Raw
from tests.wire.mcp.stub import TOKEN, stub_server

from keel.testing.waiting import eventually
from rift.wire.mcp.budget import Budget

HEADERS = {"MCP-Protocol-Version": MODERN, "Mcp-Method": "tools/list"}


async def test_a_token_has_no_more_calls_at_once_than_it_may_and_is_told_the_number() -> None:
    async with stub_server(calls_per_token=3) as stub:
        raw = Raw(stub.url, TOKEN)
        held = [asyncio.create_task(raw.call("rift_task_ls", {})) for _ in range(3)]
        await stub.begun.wait()

        async def refused() -> bool:
            return (await raw.call("rift_task_new", {"name": "x"})).status == 429

        await eventually(refused)
        reply = await raw.call("rift_task_new", {"name": "x"})
        assert "3 calls of this token" in reply.error["message"]
        assert "Rift:Server:CallsPerToken" in reply.error["message"]
        assert reply.headers["retry-after"] == "5"
        stub.may_end.set()
        assert {one.status for one in await asyncio.gather(*held)} == {200}
        assert (await raw.call("rift_task_new", {"name": "x"})).status == 200


async def test_a_call_whose_client_hung_up_holds_no_place() -> None:
    async with stub_server(calls_per_token=1) as stub:
        raw = Raw(stub.url, TOKEN)
        call = asyncio.create_task(raw.call("rift_task_ls", {}))
        await stub.begun.wait()
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)

        async def served() -> bool:
            return (await raw.call("rift_task_new", {"name": "x"})).status == 200

        await eventually(served)


async def test_large_bodies_beyond_the_bound_are_refused_with_the_number_while_small_calls_go_on() -> None:
    budget = Budget(each=2 * 2**20, all=3 * 2**20, seconds=0.1)
    async with stub_server(budget=budget) as stub:
        raw = Raw(stub.url, TOKEN)
        large = {"name": "x" * (1_500_000)}
        held = asyncio.create_task(raw.call("rift_task_ls", {**large}))  # refused for its argument only once it is read
        assert (await held).status == 200
        async with budget.hold("t-1", 1_000_000), budget.hold("t-2", 1_000_000):
            assert (await raw.call("rift_task_new", {"name": "small"})).status == 200
            reply = await raw.call("rift_task_new", large)
            assert reply.status == 429
            assert "2 MiB" in reply.error["message"]
        async with budget.hold("t-2", 2_000_000):
            reply = await raw.call("rift_task_new", large)
            assert reply.status == 503
            assert "3 MiB" in reply.error["message"]
            assert reply.headers["retry-after"] == "5"
        assert (await raw.call("rift_task_new", large)).status == 200


async def test_a_large_body_waits_a_moment_for_the_one_before_it() -> None:
    budget = Budget(each=100, all=1000, seconds=30)
    order: list[str] = []

    async def one(name: str, until: asyncio.Event) -> None:
        async with budget.hold("t-1", 80) as met:
            assert met is None
            order.append(name)
            await until.wait()

    first_ends, at_once = asyncio.Event(), asyncio.Event()
    at_once.set()
    first = asyncio.create_task(one("first", first_ends))
    await eventually(lambda: order == ["first"])
    second = asyncio.create_task(one("second", at_once))
    async with budget.hold("t-2", 80) as met:  # somebody else does not wait for them
        assert met is None
    assert order == ["first"]
    first_ends.set()
    await asyncio.gather(first, second)
    assert order == ["first", "second"]


async def test_no_more_bodies_wait_for_room_than_may() -> None:
    budget = Budget(each=100, all=1000, seconds=30, waits=2)
    async with budget.hold("t-1", 100):
        waiting = [asyncio.create_task(budget.hold("t-1", 50).__aenter__()) for _ in range(2)]
        await asyncio.wait(waiting, timeout=0)
        await eventually(lambda: budget._waiting["t-1"] == 2)
        async with budget.hold("t-1", 50) as met:
            assert met == 100
    await asyncio.gather(*waiting)


@pytest.mark.parametrize("part", ["[", '{"a":', '{"params":', "[{"])
@pytest.mark.parametrize("size", [100_000, 11_000_000])
async def test_json_as_deep_as_a_body_allows_is_a_bad_request(part: str, size: int) -> None:
    async with stub_server() as stub:
        raw = Raw(stub.url, TOKEN)
        deep = part * (size // len(part))
        for body in (deep, json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call"})[:-1] + f',"params":{deep}'):
            assert (await raw.post(body.encode(), HEADERS)).status == 400
        assert (await raw.rpc("tools/list")).status == 200


async def test_deep_arguments_that_are_whole_are_refused_and_nothing_breaks() -> None:
    async with stub_server() as stub:
        raw = Raw(stub.url, TOKEN)
        for depth in (50, 500, 5_000, 100_000):
            nested = "[" * depth + "]" * depth
            params = json.dumps({"name": "rift_task_new", "_meta": {}})[:-1] + f',"arguments":{{"name":{nested}}}}}'
            body = f'{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}'
            reply = await raw.post(body.encode(), {**HEADERS, "Mcp-Method": "tools/call", "Mcp-Name": "rift_task_new"})
            assert reply.status in (200, 400), depth
        assert (await raw.rpc("tools/list")).status == 200
