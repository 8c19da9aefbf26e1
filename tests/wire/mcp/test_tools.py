"""The real tools over the real wire: a whole Rift, in which only the jails and the origins are in memory."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from mcp import Client
from mcp_types import CallToolResult
from tests.wire.clients import PYTHON_MODES, Raw, python_client, text_of
from tests.wire.testers import inspector, mcpcheck
from tests.wire.whole import COMMIT, Whole, whole_rift

from keel.testing.plugin import FreshDatabase
from rift.wire.mcp.arguments import read_arguments
from rift.wire.mcp.tools import TOOLS

BY_NAME = {tool.name: tool for tool in TOOLS}


@pytest.fixture
async def rift(database: FreshDatabase, tmp_path: Path) -> AsyncIterator[Whole]:
    async with whole_rift(database, tmp_path) as made:
        yield made


class Agent:
    """An agent with a task and a box, that checks every answer as strictly as a client may."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.task = ""
        self.vm = ""

    async def call(self, tool: str, /, **arguments: Any) -> CallToolResult:
        """Call a tool; the task's handle and the box are filled in where the tool takes them."""
        takes = BY_NAME[tool].input_schema["properties"]
        own = {"task": self.task, "vm": self.vm}
        given = {name: value for name, value in own.items() if name in takes and value} | arguments
        result = await self.client.call_tool(tool, given)
        check(tool, result, self.task)
        return result

    async def begin(self) -> None:
        """Watch main, open a task, take a box."""
        await self.call("rift_watch", repo="acme/app", ref="main", warm=0)
        opened = text_of(await self.call("rift_task_new", name="try it"))
        self.task = found(r"^handle: (\S+)$", opened)
        self.vm = found(r"^id (b-[0-9a-f]{24}), name app-main-\d+$", text_of(await self.vm_new()))

    async def vm_new(self) -> CallToolResult:
        """Take a box at main."""
        return await self.call("rift_vm_new", repo="acme/app", ref="main")

    async def bash(self, command: str, block_for: int = 20) -> dict[str, Any]:
        """Run a command; its structured answer."""
        result = await self.call("rift_bash", command=command, timeout=60, block_for=block_for)
        assert isinstance(result.structured_content, dict)
        return result.structured_content


def found(pattern: str, text: str) -> str:
    match = re.search(pattern, text, re.MULTILINE)
    assert match, text
    return match[1]


def check(tool: str, result: CallToolResult, handle: str) -> None:
    """Whatever a tool answers: no handle but where it is minted, structure as promised, mends that can be called."""
    text = text_of(result)
    if tool not in ("rift_task_new", "rift_task_attach"):
        assert not handle or handle.partition(".")[2] not in str(result)
    schema = BY_NAME[tool].output_schema
    if result.is_error:
        assert result.structured_content is None
        assert result.meta is not None
        told = result.meta["rift/refusal"]
        assert told["mends"]
        for mend in told["mends"]:
            if mend["kind"] == "call":
                callable_as_it_is(mend["tool"], mend["arguments"])
    elif schema is not None:
        jsonschema.validate(result.structured_content, dict(schema))
        assert isinstance(result.structured_content, dict)
        if after := result.structured_content["next"]:
            assert text.splitlines()[-1] == f"next: {after}"
    if (last := text.splitlines()[-1]).startswith("next: "):
        name, _, arguments = last.removeprefix("next: ").partition(" ")
        callable_as_it_is(name, json.loads(arguments))


def callable_as_it_is(tool: str, arguments: dict[str, Any]) -> None:
    """A call that an answer suggests is of a tool there is, with arguments it takes."""
    assert read_arguments(BY_NAME[tool], arguments) == arguments


@pytest.mark.parametrize("mode", PYTHON_MODES)
async def test_an_agent_opens_a_task_takes_a_box_works_in_it_and_closes(rift: Whole, mode: str) -> None:
    async with python_client(rift.url, rift.token, mode) as client:
        agent = Agent(client)
        assert "next: " not in text_of(await agent.call("rift_whoami"))
        assert "gap: acme/app: no ref is watched. -> rift_watch " in text_of(await agent.call("rift_whoami"))
        await agent.begin()
        assert text_of(await agent.call("rift_whoami")).splitlines()[-1].startswith("ready: rift_vm_new ")
        said = await agent.bash("echo hello")
        assert (said["status"], said["exit"], said["output"]) == ("finished", 0, "hello\n")
        await agent.call("rift_write", path="notes.txt", content="one\n")
        read = (await agent.call("rift_read", path="notes.txt")).structured_content
        assert read["output"] == "one\n"
        listed = (await agent.call("rift_vm_ls")).structured_content
        assert [(vm["id"], vm["status"], vm["commit"]) for vm in listed["vms"]] == [(agent.vm, "running", COMMIT)]
        assert text_of(await agent.call("rift_vm_suspend")).startswith("parked: ")
        assert (await agent.bash("true"))["exit"] == 0
        assert text_of(await agent.call("rift_vm_destroy")).startswith("destroyed: ")
        assert "it had no VMs" in text_of(await agent.call("rift_task_close"))


async def test_commands_that_wait_are_read_on_by_the_call_that_the_answer_gives(rift: Whole) -> None:
    async with python_client(rift.url, rift.token) as client:
        agent = Agent(client)
        await agent.begin()
        first = await agent.bash("echo one\nsleep-until-released gate\necho two", block_for=1)
        assert (first["status"], first["output"]) == ("has not finished", "one\n")
        second = await agent.bash("sleep-until-released never", block_for=0)
        refused = await agent.call("rift_vm_suspend")
        assert first["command"] in text_of(refused)
        rift.boxes.release(agent.vm, "gate")
        name, _, arguments = first["next"].partition(" ")
        after = await agent.call(name, **{**json.loads(arguments), "task": agent.task})
        assert after.structured_content["output"] == "two\n"
        both = [{"id": first["command"], "offset": 8}, {"id": second["command"], "offset": 0}]
        several = (await agent.call("rift_output", commands=both, block_for=5)).structured_content
        assert several["ended"] == [first["command"]]
        stopped = (await agent.call("rift_stop", id=second["command"])).structured_content
        assert stopped["status"] == "finished"
        assert "rift_stop" in stopped["reason"]


async def test_a_task_is_taken_over_and_the_first_holder_learns_who_has_it(rift: Whole) -> None:
    async with python_client(rift.url, rift.token) as client:
        agent = Agent(client)
        await agent.begin()
        id, _, _ = agent.task.partition(".")
        busy = await agent.call("rift_task_attach", task=id)
        assert busy.is_error
        taken = text_of(await agent.call("rift_task_attach", task=id, takeover=True))
        handle = found(r"^handle: (\S+)$", taken)
        assert handle != agent.task
        stale = await agent.call("rift_vm_ls")
        assert stale.is_error
        assert "held by mcp:Claude since" in text_of(stale)
        agent.task = handle
        assert not (await agent.call("rift_vm_ls")).is_error
        listed = (await agent.call("rift_task_ls")).structured_content
        assert [(task["id"], task["holder"]) for task in listed["tasks"]] == [(id, "mcp:Claude")]
        await agent.call("rift_task_release")
        assert (await agent.call("rift_task_ls")).structured_content["next"].startswith("rift_task_attach ")
        assert (await agent.call("rift_vm_ls")).is_error


WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("rift_bash", {"command": "a\0b", "timeout": 60, "block_for": 0}, "nul_byte"),
    ("rift_bash", {"command": "  ", "timeout": 60, "block_for": 0}, "empty"),
    ("rift_bash", {"command": "x" * 140_000, "timeout": 60, "block_for": 0}, "too_long"),
    ("rift_bash", {"command": "ls", "timeout": 0, "block_for": 0}, "bad_arguments"),
    ("rift_bash", {"command": "ls", "timeout": 60, "block_for": 46}, "bad_arguments"),
    ("rift_read", {"path": "../../../../etc/shadow"}, "path_outside"),
    ("rift_output", {"commands": [{"id": "nonsense", "offset": 0}], "block_for": 0}, "command_id"),
    ("rift_output", {"commands": [{"id": "b-1.1", "offset": 0}] * 2, "block_for": 0}, "command_twice"),
    ("rift_output", {"commands": [{"id": "b-1.1", "offset": 0}] * 5, "block_for": 0}, "bad_arguments"),
    ("rift_stop", {"id": "b-1.1"}, "command_id"),
    ("rift_vm_new", {"repo": "acme/app", "ref": "dev"}, "ref_not_watched"),
    ("rift_vm_new", {"repo": "acme/nothing", "ref": "main"}, "no_such_repository"),
    ("rift_vm_destroy", {"vm": "b-none"}, "vm_unknown"),
    ("rift_repos", {"org": "elsewhere"}, "no_such_org"),
    ("rift_task_close", {"task": "task_abcdefgh.wrongwrongwrongwrong"}, "task_unknown"),
    ("rift_task_close", {"task": "nonsense"}, "no_handle"),
]
"""What a caller may get wrong, and the refusal's code."""


async def test_what_is_wrong_is_refused_with_a_call_that_mends_it_and_runs_nothing(rift: Whole) -> None:
    async with python_client(rift.url, rift.token) as client:
        agent = Agent(client)
        await agent.begin()
        for tool, arguments, code in WRONG:
            refused = await agent.call(tool, **arguments)
            assert refused.is_error, (tool, arguments)
            assert refused.meta is not None
            assert refused.meta["rift/refusal"]["code"] == code, (tool, arguments)
        assert (await agent.call("rift_vm_ls")).structured_content["vms"][0]["open_commands"] == []


async def test_a_handle_given_where_another_argument_belongs_is_not_repeated(rift: Whole) -> None:
    async with python_client(rift.url, rift.token) as client:
        agent = Agent(client)
        await agent.begin()
        for tool, wrong in (("rift_vm_destroy", "vm"), ("rift_stop", "id"), ("rift_repos", "org")):
            assert (await agent.call(tool, **{wrong: agent.task})).is_error


async def test_every_call_is_recorded_and_no_record_holds_a_handle_or_a_files_content(rift: Whole) -> None:
    async with python_client(rift.url, rift.token) as client:
        agent = Agent(client)
        await agent.begin()
        await agent.bash(f"nothing-called {agent.task}")
        await agent.call("rift_write", path="a", content="what the file says")
        await agent.call("rift_bash", command="ls", timeout=0, block_for=0)
    async with rift.deps.db.tx() as tx:
        rows = await tx.rows("SELECT * FROM ledger WHERE via = 'mcp:Claude' ORDER BY seq")
        texts = await tx.rows("SELECT text FROM ledger_texts")
    assert [(row["action"], row["outcome"]) for row in rows] == [
        ("rift_watch", "ok"),
        ("rift_task_new", "ok"),
        ("rift_vm_new", "ok"),
        ("rift_bash", "ok"),
        ("rift_write", "ok"),
        ("rift_bash", "bad_arguments"),
    ]
    assert [row["text"] for row in texts] == ["nothing-called <your handle>"]
    assert agent.task.partition(".")[2] not in str(rows)
    assert "what the file says" not in str(rows)


async def test_a_wrong_or_missing_token_reaches_no_tool(rift: Whole) -> None:
    for token in (None, rift.token + "x", "rift_"):
        assert (await Raw(rift.url, token).call("rift_whoami")).status == 401


async def test_mcpcheck_finds_nothing_wrong_with_the_whole(rift: Whole) -> None:
    ran = await mcpcheck(rift.url, rift.token, "--probe", "all")
    assert ran.code == 0, ran.out + ran.err


@pytest.mark.needs("node", "npm")
async def test_the_inspector_finds_no_fault_in_the_schemas_and_calls_the_whole(rift: Whole) -> None:
    listed = await inspector(rift.url, rift.token, "auto", "--method", "tools/list", "--strict")
    assert listed.code == 0, listed.err
    assert [tool["name"] for tool in listed.json["tools"]] == list(BY_NAME)
    call = ["--method", "tools/call", "--tool-name", "rift_repos", "--tool-args-json", '{"org": "personal"}']
    repositories = (await inspector(rift.url, rift.token, "modern", *call)).json["structuredContent"]["repositories"]
    assert [one["repository"] for one in repositories] == ["acme/app"]
