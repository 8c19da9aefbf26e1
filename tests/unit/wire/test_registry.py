"""The tool list: the contract's names and order, short descriptions, closed schemas, valid examples, a bounded size."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest

from keel.refusal import Call as CallMend
from rift.wire.mcp import schemas, tools
from rift.wire.mcp.arguments import read_arguments
from rift.wire.mcp.registry import CONTRACT, Registry, RegistryError, list_tokens
from rift.wire.mcp.tool import Answer, Call, Tool
from rift.wire.mcp.tools import TOOLS


async def _run(call: Call, arguments: Any) -> Answer:
    return Answer("")


GOOD = Tool("rift_task_new", "Good", "It is good.", schemas.arguments(), _run, {})


def faults(*given: Tool) -> str:
    with pytest.raises(RegistryError) as caught:
        Registry(given)
    return str(caught.value)


def test_the_tools_of_the_house_pass_every_check() -> None:
    registry = Registry(TOOLS)
    assert [tool.name for tool in registry] == [name for name in CONTRACT if registry.get(name)]
    assert registry.get("rift_nothing") is None
    assert registry.input_schema("rift_nothing") is None
    assert registry.input_schema("rift_bash") == TOOLS[9].input_schema


def test_every_tool_has_a_file_of_its_own_and_every_file_is_offered() -> None:
    folder = Path(tools.__file__).parent
    files = {f"rift_{path.stem}" for path in folder.glob("*.py") if path.stem != "__init__"}
    assert files == {tool.name for tool in TOOLS}


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_every_schema_is_valid_json_schema_and_the_example_fits_it(tool: Tool) -> None:
    jsonschema.Draft202012Validator.check_schema(dict(tool.input_schema))
    jsonschema.validate(tool.example, dict(tool.input_schema))
    assert read_arguments(tool, tool.example) == tool.example
    if tool.output_schema is not None:
        jsonschema.Draft202012Validator.check_schema(dict(tool.output_schema))


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_a_missing_task_names_a_tool_that_gives_one(tool: Tool) -> None:
    by_name = {one.name: one for one in TOOLS}
    for mend in tool.when_missing.values():
        assert isinstance(mend, CallMend)
        jsonschema.validate(mend.arguments, dict(by_name[mend.tool].input_schema))


ARGUMENTS = {
    "rift_task_new": "name",
    "rift_task_ls": "",
    "rift_task_attach": "task takeover?",
    "rift_task_release": "task",
    "rift_task_close": "task",
    "rift_vm_new": "task repo ref",
    "rift_vm_ls": "task",
    "rift_vm_destroy": "task vm",
    "rift_vm_suspend": "task vm",
    "rift_bash": "task vm command timeout block_for",
    "rift_read": "task vm path",
    "rift_write": "task vm path content",
    "rift_output": "task commands block_for",
    "rift_stop": "task id",
    "rift_whoami": "",
    "rift_org_new": "name",
    "rift_org_invite": "org email role?",
    "rift_org_accept": "org",
    "rift_account_invite": "email",
    "rift_waitlist": "since? limit?",
    "rift_github_connect": "org",
    "rift_github_enable": "org account",
    "rift_github_login": "",
    "rift_repos": "org",
    "rift_watch": "repo ref warm?",
    "rift_unwatch": "repo ref",
    "rift_feedback": "items",
    "rift_docs": "",
    "rift_audit": "task? vm?",
}
"""The arguments of each tool, in the contract's order; `?` is optional."""


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_the_arguments_are_the_contracts_in_its_order(tool: Tool) -> None:
    required = tool.input_schema.get("required", [])
    has = [name if name in required else f"{name}?" for name in tool.input_schema["properties"]]
    assert " ".join(has) == ARGUMENTS[tool.name]


def schemas_with_anyof(schema: object) -> Iterator[object]:
    if isinstance(schema, dict):
        if "anyOf" in schema or "oneOf" in schema:
            yield schema
        for inner in schema.values():
            yield from schemas_with_anyof(inner)


def test_no_input_schema_leaves_a_choice_of_types() -> None:
    assert [tool.name for tool in TOOLS if list(schemas_with_anyof(dict(tool.input_schema)))] == []


def test_the_bounds_are_the_contracts() -> None:
    schema = next(tool for tool in TOOLS if tool.name == "rift_bash").input_schema["properties"]
    assert (schema["timeout"]["minimum"], schema["timeout"]["maximum"]) == (1, 259200)
    assert (schema["block_for"]["minimum"], schema["block_for"]["maximum"]) == (0, 45)
    commands = next(tool for tool in TOOLS if tool.name == "rift_output").input_schema["properties"]["commands"]
    assert (commands["minItems"], commands["maxItems"]) == (1, 4)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"name": "rift_dance"}, "rift_dance is not in the contract"),
        ({"description": "No end"}, "has 0 sentences"),
        ({"description": "A. B. C. D. E."}, "has 5 sentences"),
        ({"description": "x" * 2100 + "."}, "2048 bytes or more"),
        ({"title": ""}, "has no title"),
        ({"input_schema": {"type": "object", "properties": {}}}, "does not forbid further properties"),
        ({"input_schema": {**schemas.arguments(), "required": ["a"]}}, "requires a, which it does not have"),
        ({"input_schema": schemas.arguments({"a": {"type": "string", "pattern": "x"}})}, "uses the keywords pattern"),
        ({"input_schema": schemas.arguments({"a": {"anyOf": []}})}, "has the type None"),
        ({"input_schema": schemas.arguments({"a": {"type": "array"}})}, "its input.a[] has the type None"),
        ({"input_schema": schemas.arguments({"a": schemas.string()})}, "its example is not valid"),
        ({"output_schema": {"type": "array"}}, "its output schema is not an object's"),
    ],
)
def test_a_tool_that_breaks_a_rule_stops_the_start_and_is_named(change: dict[str, Any], said: str) -> None:
    assert said in faults(replace(GOOD, **change))


def test_the_order_and_the_uniqueness_of_names_are_checked() -> None:
    ls = replace(GOOD, name="rift_task_ls")
    assert "the tools are not in the contract's order" in faults(ls, GOOD)
    assert "rift_task_new is there twice" in faults(GOOD, GOOD)


def test_a_list_that_costs_too_much_is_refused() -> None:
    long = {f"argument_{n}": schemas.string("words " * 20) for n in range(200)}
    assert "more than 6000" in faults(replace(GOOD, input_schema=schemas.arguments(optional=long)))


def test_the_whole_list_of_the_contract_leaves_room_for_a_better_word() -> None:
    registry = Registry(TOOLS)
    assert [tool.name for tool in registry] == list(CONTRACT)
    assert list_tokens(registry.wire) < 5900


@pytest.mark.parametrize(
    ("tool", "words"),
    [
        ("rift_org_new", ["name"]), ("rift_org_invite", ["org", "email"]), ("rift_org_accept", ["org"]),
        ("rift_account_invite", ["email"]),
    ],
)  # fmt: skip
def test_a_call_that_reaches_people_names_nobody_whom_the_caller_did_not_name(tool: str, words: list[str]) -> None:
    """A refusal shows the example's values for what is missing, and a model may send them as they stand."""
    (found,) = (one for one in TOOLS if one.name == tool)
    assert all(str(found.example[word]).startswith("<") for word in words), found.example


def test_the_example_of_feedback_is_no_feedback() -> None:
    (found,) = (one for one in TOOLS if one.name == "rift_feedback")
    assert all(item["text"].startswith("<") for item in found.example["items"])
