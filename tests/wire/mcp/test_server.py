"""The MCP server under the official client in both eras: lists, answers, refusals, failures, waiting, hanging up."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator

import pytest
from mcp import MCPError
from mcp_types import ImageContent
from tests.wire.clients import HANDSHAKE, MODERN, PYTHON_MODES, Raw, python_client, text_of
from tests.wire.mcp.stub import ADA, Stub, stub_server

from keel.refusal import Retry


@pytest.fixture
async def stub() -> AsyncIterator[Stub]:
    async with stub_server(tick=0.05) as serving:
        yield serving


def raw(stub: Stub) -> Raw:
    return Raw(stub.url, stub.token)


@pytest.mark.parametrize("mode", PYTHON_MODES)
async def test_the_official_client_lists_the_tools_and_calls_one(stub: Stub, mode: str) -> None:
    async with python_client(stub.url, stub.token, mode) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert list(tools)[:2] == ["rift_task_new", "rift_task_ls"]
        assert tools["rift_task_ls"].annotations is not None
        assert tools["rift_task_ls"].annotations.read_only_hint is True
        result = await client.call_tool("rift_task_new", {"name": "hello", "count": 2})
    assert not result.is_error
    assert text_of(result) == "echo hello"
    assert result.structured_content == {"name": "hello", "count": 2}


async def test_a_client_is_told_how_to_begin_before_it_calls_anything(stub: Stub) -> None:
    async with python_client(stub.url, stub.token, "legacy") as client:
        said = client.instructions or ""
    assert said.count(". ") == 2
    assert "rift_whoami" in said
    assert "rift_task_new" in said
    assert len(said.encode()) < 2048
    discovered = (await raw(stub).rpc("server/discover")).result
    assert discovered["instructions"] == said
    assert discovered["supportedVersions"] == [MODERN]


@pytest.mark.parametrize("version", HANDSHAKE)
async def test_an_older_revision_is_spoken_to_whoever_asks_for_it(stub: Stub, version: str) -> None:
    asked = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "old", "version": "1"}}
    shaken = await raw(stub).rpc("initialize", asked, version=None)
    assert shaken.result["protocolVersion"] == version
    assert "mcp-session-id" not in shaken.headers
    called = await raw(stub).call("rift_task_new", {"name": "hi"}, version=version)
    assert called.result["structuredContent"] == {"name": "hi", "count": 1}


async def test_prompts_and_templates_are_there_and_empty(stub: Stub) -> None:
    async with python_client(stub.url, stub.token) as client:
        assert (await client.list_prompts()).prompts == []
        assert (await client.list_resource_templates()).resource_templates == []


async def test_lists_say_how_long_and_for_whom_they_hold(stub: Stub) -> None:
    result = (await raw(stub).rpc("tools/list")).result
    assert result["ttlMs"] > 0
    assert result["cacheScope"] == "public"


async def test_the_tool_learns_who_calls(stub: Stub) -> None:
    async with python_client(stub.url, stub.token) as client:
        await client.call_tool("rift_task_new", {"name": "hello"})
    (call,) = stub.calls
    assert call.caller == ADA
    assert call.act.tool == "rift_task_new"
    assert call.act.arguments == {"name": "hello"}
    assert 0 < call.deadline.left() <= 53


@pytest.mark.parametrize(
    "arguments", ['{"name": "x"}', {"name": "x", "count": None}, {"name": "x", "task_progress": 1}]
)
@pytest.mark.parametrize("version", [MODERN, *HANDSHAKE])
async def test_arguments_as_clients_really_send_them_are_taken(stub: Stub, arguments: object, version: str) -> None:
    assert (await raw(stub).call("rift_task_new", arguments, version=version)).result["isError"] is False


@pytest.mark.parametrize("arguments", [None, ..., {}, "null"])
async def test_no_arguments_in_any_spelling_are_none(stub: Stub, arguments: object) -> None:
    assert "a pixel" in str((await raw(stub).call("rift_vm_new", arguments)).result)


@pytest.mark.parametrize("mode", PYTHON_MODES)
async def test_wrong_arguments_are_refused_before_the_tool_runs(stub: Stub, mode: str) -> None:
    async with python_client(stub.url, stub.token, mode) as client:
        result = await client.call_tool("rift_task_new", {"nam": "hello", "count": 11})
    assert result.is_error
    said, mend = text_of(result).splitlines()
    assert said.startswith(
        "rift_task_new did not run: `name` is missing; `nam` is not one of its arguments; `count` must"
    )
    assert mend == 'rift_task_new {"name": "hello", "count": 9}'
    assert result.structured_content is None
    assert result.meta is not None
    assert result.meta["rift/refusal"]["code"] == "bad_arguments"
    assert stub.calls == []
    ((act, refused),) = stub.refused
    assert (act.tool, act.caller, refused.code) == ("rift_task_new", ADA, "bad_arguments")


@pytest.mark.parametrize("arguments", [[1], 5, "not json", True])
@pytest.mark.parametrize("version", [MODERN, *HANDSHAKE])
async def test_arguments_that_are_no_object_are_a_refusal_too(stub: Stub, arguments: object, version: str) -> None:
    result = (await raw(stub).call("rift_task_new", arguments, version=version)).result
    assert result["isError"] is True
    assert "the arguments must be one JSON object" in result["content"][0]["text"]


@pytest.mark.parametrize("mode", PYTHON_MODES)
async def test_a_tools_refusal_reaches_the_client_though_it_has_an_output_schema(stub: Stub, mode: str) -> None:
    async with python_client(stub.url, stub.token, mode) as client:
        await client.list_tools()
        result = await client.call_tool("rift_task_attach", {"task": "task_abc"})
    assert result.is_error
    assert "Tell the user: it is held" in text_of(result)
    assert text_of(result).endswith('rift_task_attach {"task": "task_abc", "takeover": true}')


async def test_a_call_of_no_tool_is_recorded_under_its_name_without_secrets(stub: Stub) -> None:
    for name in ("rift_task_lss", "x" * 5000, f"rift_{'s3cr3t' * 8}"):
        await raw(stub).call(name)
    told = [(act.tool, refused.code, act.arguments["name"]) for act, refused in stub.refused]
    assert told == [
        ("tools/call", "unknown_tool", "rift_task_lss"),
        ("tools/call", "unknown_tool", "x" * 500 + "…"),
        ("tools/call", "unknown_tool", "<your token>"),
    ]


async def test_an_unknown_tool_is_a_protocol_error_that_names_the_near_ones(stub: Stub) -> None:
    async with python_client(stub.url, stub.token) as client:
        with pytest.raises(MCPError) as caught:
            await client.call_tool("rift_task_news", {})
    assert caught.value.error.code == -32602
    assert "rift_task_new" in caught.value.error.message


@pytest.mark.parametrize("mode", PYTHON_MODES)
async def test_a_tool_that_fails_gives_an_id_and_nothing_of_the_failure(stub: Stub, mode: str) -> None:
    async with python_client(stub.url, stub.token, mode) as client:
        result = await client.call_tool("rift_task_release", {})
    assert result.is_error
    assert stub.calls[0].request in text_of(result)
    assert "secret" not in str(result)
    assert "RuntimeError" not in str(result)
    assert result.meta is not None
    assert result.meta["rift/refusal"]["mends"] == [{"kind": "retry", "after_seconds": Retry(5).after}]


async def test_a_failure_of_a_call_that_may_have_worked_is_not_to_be_repeated(stub: Stub) -> None:
    async with python_client(stub.url, stub.token) as client:
        result = await client.call_tool("rift_bash", {"task": "task_abc.secret"})
    assert "again" not in text_of(result)
    assert "the call may have done its work" in text_of(result)
    assert stub.calls[0].act.arguments == {}


@pytest.mark.parametrize("mode", PYTHON_MODES)
async def test_a_picture_of_the_largest_size_stands_beside_the_text(stub: Stub, mode: str) -> None:
    """The official client takes no event over 1 MiB, and waits for ever when one comes."""
    stub.pixel = b"x" * 1024 * 1024
    async with python_client(stub.url, stub.token, mode) as client:
        _, image = (await asyncio.wait_for(client.call_tool("rift_vm_new", {}), 30)).content
    assert isinstance(image, ImageContent)
    assert image.mime_type == "image/png"
    assert base64.b64decode(image.data) == stub.pixel


@pytest.mark.parametrize("mode", PYTHON_MODES)
async def test_a_client_that_waits_hears_of_it(stub: Stub, mode: str) -> None:
    heard: list[tuple[float, str | None]] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        heard.append((progress, message))
        if len(heard) == 3:
            stub.may_end.set()

    async with python_client(stub.url, stub.token, mode) as client:
        result = await client.call_tool("rift_task_ls", {}, progress_callback=hear)
    assert text_of(result) == "waited"
    assert len(heard) >= 3
    assert [step for step, _ in heard] == sorted({step for step, _ in heard})
    assert all((message or "").startswith("waiting for the box") for _, message in heard)


async def test_a_client_that_does_not_ask_for_progress_gets_one_json_answer(stub: Stub) -> None:
    stub.may_end.set()
    reply = await raw(stub).call("rift_task_ls", {})
    assert reply.headers["content-type"] == "application/json"
    assert len(reply.messages) == 1


async def test_a_tool_past_its_deadline_is_answered_for_and_goes_on(stub: Stub) -> None:
    async with python_client(stub.url, stub.token) as client:
        result = await client.call_tool("rift_vm_ls", {})
    assert result.is_error
    assert "what it began goes on" in text_of(result)
    assert not stub.cancelled.is_set()
    stub.may_end.set()


async def hang_up(stub: Stub, tool: str, version: str) -> None:
    """Call a tool, and close the connection once it has begun."""
    call = asyncio.create_task(raw(stub).call(tool, {}, version=version))
    await asyncio.wait_for(stub.begun.wait(), 5)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call


@pytest.mark.parametrize("version", [MODERN, "2025-11-25"])
async def test_a_write_that_has_begun_ends_though_its_client_hung_up(stub: Stub, version: str) -> None:
    await hang_up(stub, "rift_task_close", version)
    stub.may_end.set()
    await asyncio.wait_for(stub.written.wait(), 5)


@pytest.mark.parametrize("version", [MODERN, "2025-11-25"])
async def test_a_read_ends_when_its_client_hangs_up(stub: Stub, version: str) -> None:
    await hang_up(stub, "rift_task_ls", version)
    await asyncio.wait_for(stub.cancelled.wait(), 5)


async def test_a_server_that_stops_lets_a_write_finish() -> None:
    async with stub_server() as stub:
        call = asyncio.create_task(raw(stub).call("rift_task_close", {}))
        await asyncio.wait_for(stub.begun.wait(), 5)
        stub.may_end.set()
        call.cancel()
    assert stub.written.is_set()
    await asyncio.gather(call, return_exceptions=True)
