"""Arguments: what clients really send is taken, what is wrong is named, and what is private is never repeated."""

from __future__ import annotations

import json
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from keel.refusal import Call as CallMend
from keel.refusal import Refusal
from rift.wire.mcp import schemas
from rift.wire.mcp.arguments import read_arguments
from rift.wire.mcp.tool import Answer, Call, Tool

HANDLE = "task_abcdefgh.s3cr3t-s3cr3t-s3cr3t-s3cr3t"


async def _never(call: Call, arguments: Any) -> Answer:
    raise AssertionError("no tool runs in these tests")


def tool(name: str = "rift_bash", **more: Any) -> Tool:
    """A tool like rift_bash, with an optional list and an optional boolean."""
    settings: dict[str, Any] = {
        "input_schema": schemas.arguments(
            required={
                "task": schemas.string(minLength=1),
                "vm": schemas.string(minLength=1),
                "command": schemas.string(),
                "timeout": schemas.integer(low=1, high=259200),
                "block_for": schemas.integer(low=0, high=45),
            },
            optional={
                "commands": schemas.array(
                    schemas.arguments(required={"id": schemas.string(), "offset": schemas.integer(low=0)}),
                    low=1,
                    high=4,
                ),
                "takeover": schemas.boolean(),
                "role": schemas.string(enum=["member", "admin"]),
                "share": {"type": "number", "minimum": 0},
            },
        ),
        "example": {"task": "<your handle>", "vm": "app-main-1", "command": "make", "timeout": 600, "block_for": 30},
        **more,
    }
    return Tool(name=name, title="Run", description="Runs.", run=_never, **settings)


GOOD = {"task": HANDLE, "vm": "app-main-1", "command": "ls", "timeout": 60, "block_for": 0}


def read(given: object) -> dict[str, Any]:
    result = read_arguments(tool(), given)
    assert not isinstance(result, Refusal), result.sentence
    return result


def refused(given: object, of: Tool | None = None) -> Refusal:
    result = read_arguments(of or tool(), given)
    assert isinstance(result, Refusal), result
    assert result.code == "bad_arguments"
    return result


def test_good_arguments_come_through_as_they_are() -> None:
    assert read(GOOD) == GOOD


@pytest.mark.parametrize(
    ("name", "sent", "meant"),
    [
        ("timeout", "30", 30),
        ("timeout", " 30 ", 30),
        ("timeout", "30.0", 30),
        ("timeout", 30.0, 30),
        ("takeover", "true", True),
        ("takeover", "False", False),
        ("commands", '[{"id": "b-1.1", "offset": 0}]', [{"id": "b-1.1", "offset": 0}]),
        ("commands", [{"id": "b-1.1", "offset": "0"}], [{"id": "b-1.1", "offset": 0}]),
        ("commands", ['{"id": "b-1.1", "offset": 8192.0}'], [{"id": "b-1.1", "offset": 8192}]),
        ("share", "2.5", 2.5),
        ("command", "[1, 2]", "[1, 2]"),
        ("command", "30", "30"),
        ("command", "", ""),
    ],
)
def test_what_a_client_means_is_taken(name: str, sent: object, meant: object) -> None:
    assert read({**GOOD, name: sent})[name] == meant


def test_null_arguments_are_no_arguments() -> None:
    ls = tool(input_schema=schemas.arguments(), example={})
    assert read_arguments(ls, None) == {}
    assert read_arguments(ls, {}) == {}
    assert read_arguments(ls, "null") == {}
    assert read_arguments(ls, "{}") == {}


def test_an_optional_argument_that_is_null_is_absent() -> None:
    assert read({**GOOD, "takeover": None}) == GOOD


def test_the_whole_set_as_a_string_of_json_is_taken() -> None:
    assert read(json.dumps(GOOD)) == GOOD


def test_a_clients_own_extra_is_dropped() -> None:
    assert read({**GOOD, "task_progress": "half way"}) == GOOD


def test_a_required_argument_that_is_null_is_missing() -> None:
    assert "`vm` is missing" in refused({**GOOD, "vm": None}).sentence


def test_one_refusal_names_all_that_is_missing_unknown_and_wrong_and_all_the_tool_has() -> None:
    refusal = refused({"task": HANDLE, "cmd": "ls", "timeout": 0, "block_for": "soon"})
    assert refusal.sentence == (
        "rift_bash did not run: `vm` and `command` are missing; `cmd` is not one of its arguments; `timeout` must be "
        'an integer from 1 to 259200; 0 came; `block_for` must be an integer from 0 to 45; "soon" came. It takes task, '
        "vm, command, timeout, block_for, commands (optional), takeover (optional), role (optional), share (optional)."
    )


def test_the_mend_is_a_call_with_what_was_right_and_the_nearest_of_what_was_out_of_range() -> None:
    (mend,) = refused({**GOOD, "timeout": 300000, "block_for": "60", "command": 5}).mends
    assert mend == CallMend(
        "rift_bash",
        {"task": "<your handle>", "vm": "app-main-1", "command": "make", "timeout": 259200, "block_for": 45},
    )


def test_a_missing_handle_names_the_tool_that_opens_a_task() -> None:
    first, second = refused({name: value for name, value in GOOD.items() if name != "task"}).mends
    assert isinstance(first, CallMend)
    assert first.tool == "rift_task_new"
    assert isinstance(second, CallMend)
    assert second.arguments["task"] == "<your handle>"


def test_a_tool_without_arguments_says_so() -> None:
    refusal = refused({"verbose": True}, tool("rift_task_ls", input_schema=schemas.arguments(), example={}))
    assert refusal.sentence == "rift_task_ls did not run: `verbose` is not one of its arguments. It takes no arguments."


@pytest.mark.parametrize(
    ("name", "sent", "said"),
    [
        ("timeout", True, "an integer from 1 to 259200; true came"),
        ("timeout", 1.5, "an integer from 1 to 259200; 1.5 came"),
        ("timeout", float("nan"), "an integer from 1 to 259200; nan came"),
        ("timeout", 10**30, "an integer from 1 to 259200; a number came"),
        ("timeout", "x" * 100, "an integer from 1 to 259200; a string of 100 characters came"),
        ("timeout", "1\n2", "an integer from 1 to 259200; a string of 3 characters came"),
        ("timeout", HANDLE[:30], "an integer from 1 to 259200; a string of 30 characters came"),
        ("takeover", "yes", 'true or false; "yes" came'),
        ("takeover", 1, "true or false; 1 came"),
        ("role", "owner", 'one of "member", "admin"; "owner" came'),
        ("vm", "", "a string that is not empty; an empty string came"),
        ("vm", 5, "a string that is not empty; 5 came"),
        ("vm", ["a"], "a string that is not empty; a list of 1 came"),
        ("commands", [], "a list of 1 to 4 objects; a list of 0 came"),
        ("commands", [{"id": "x", "offset": 0}] * 5, "a list of 1 to 4 objects; a list of 5 came"),
        ("commands", {"id": "x"}, "a list of 1 to 4 objects; an object came"),
        ("commands", ["b-1.1"], '`commands[0]` must be an object with `id` and `offset`; "b-1.1" came'),
        ("commands", [{"id": "x", "offset": -1}], "`commands[0].offset` must be an integer of at least 0; -1 came"),
        ("commands", [{"id": "x"}], "`commands[0].offset` is missing"),
        ("commands", [{"id": "x", "offset": 0, "n": 1}], "`commands[0].n` is not one of its arguments"),
        ("share", "much", 'a number of at least 0; "much" came'),
        ("command", "a\ud800b", "half a character (a lone surrogate)"),
    ],
)
def test_each_mistake_is_named_with_what_it_must_be_and_what_came(name: str, sent: object, said: str) -> None:
    assert said in refused({**GOOD, name: sent}).sentence


@pytest.mark.parametrize("sent", [[], "[1]", "not json", 5, True, "[" * 100_000])
def test_arguments_that_are_no_object_are_refused(sent: object) -> None:
    assert "the arguments must be one JSON object" in refused(sent).sentence


@pytest.mark.parametrize(
    "sent",
    [
        {**GOOD, "task": [HANDLE]},
        {**GOOD, HANDLE: 1},
        {**GOOD, "timeout": HANDLE},
        {**GOOD, "vm": HANDLE, "timeout": 0},
        {**GOOD, "command": f"echo {HANDLE}", "timeout": 0},
        {**GOOD, "takeover": HANDLE[:40]},
    ],
)
def test_a_handle_is_never_repeated(sent: dict[str, object]) -> None:
    refusal = refused(sent)
    assert "s3cr3t" not in refusal.sentence
    assert "s3cr3t" not in str(refusal.mends)


def test_file_content_is_never_repeated() -> None:
    write = tool(
        "rift_write",
        input_schema=schemas.arguments(required={"path": schemas.string(), "content": schemas.string()}),
        example={"path": "notes.txt", "content": "<the text>"},
    )
    for sent in ({"path": 5, "content": "secret words"}, {"path": "x", "content": ["secret words"]}):
        refusal = refused(sent, write)
        assert "secret words" not in refusal.sentence + str(refusal.mends)


def test_a_long_list_of_mistakes_is_cut_short() -> None:
    refusal = refused({**GOOD, **{f"a{n}": 1 for n in range(5000)}})
    assert len(refusal.sentence) < 1000
    assert "4995 more" in refusal.sentence


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=8), inner, max_size=5),
    max_leaves=10,
)
near_misses = st.fixed_dictionaries(
    {},
    optional={
        name: json_values | st.sampled_from([GOOD.get(name), "30", 30.0, '[{"id":"x","offset":0}]', "true", "admin"])
        for name in tool().input_schema["properties"]
    },
)


@given(json_values | near_misses | near_misses.map(json.dumps))
@example({"share": -1})  # below the least, where there is no most
def test_whatever_comes_is_read_by_the_schema_or_refused_with_a_valid_call(sent: object) -> None:
    """The reader agrees with a full JSON schema validator about what it lets through and what it suggests."""
    result = read_arguments(tool(), sent)
    schema = dict(tool().input_schema)
    if isinstance(result, Refusal):
        assert "\n" not in result.sentence
        for mend in result.mends:
            assert isinstance(mend, CallMend)
            if mend.tool == "rift_bash":
                jsonschema.validate(mend.arguments, schema)
    else:
        jsonschema.validate(result, schema)


@given(near_misses)
def test_reading_twice_is_reading_once(sent: dict[str, object]) -> None:
    once = read_arguments(tool(), sent)
    if not isinstance(once, Refusal):
        assert read_arguments(tool(), once) == once
