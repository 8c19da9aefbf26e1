"""Refusals on the wire: a sentence, what the person must hear, and the exact call that mends it."""

from __future__ import annotations

import json

import pytest
from mcp_types import TextContent

from keel.refusal import Ask, Call, Retry, Stop
from rift.wire.refusals import (
    bad_arguments,
    internal_error,
    refusal_problem,
    refusal_result,
    refusal_text,
)

EVERY = bad_arguments(
    Call("rift_task_new", {"name": "a – b"}),
    Ask("an admin", "the Repositories page"),
    Retry(0.5),
    Stop(),
    note="it is gone",
    tool="rift_bash",
    problems="`vm` is missing",
    has="It takes vm.",
)


def test_the_text_is_the_sentence_then_the_note_then_each_mend() -> None:
    assert refusal_text(EVERY).splitlines() == [
        "rift_bash did not run: `vm` is missing. It takes vm.",
        "Tell the user: it is gone",
        'rift_task_new {"name": "a – b"}',
        "Ask an admin: the Repositories page",
        "Make the same call again in 1 second.",
        "Do not try this again.",
    ]


def test_the_result_is_an_error_without_structure_whose_meta_holds_code_and_mends() -> None:
    result = refusal_result(EVERY)
    assert result.is_error
    assert result.structured_content is None
    (block,) = result.content
    assert isinstance(block, TextContent)
    assert block.text == refusal_text(EVERY)
    assert result.meta is not None
    assert result.meta["rift/refusal"] == {
        "code": "bad_arguments",
        "mends": [
            {"kind": "call", "tool": "rift_task_new", "arguments": {"name": "a – b"}},
            {"kind": "ask", "role": "an admin", "page": "the Repositories page"},
            {"kind": "retry", "after_seconds": 1},
            {"kind": "stop"},
        ],
    }


def test_a_refusal_echoes_no_handle_and_no_token_whole_or_cut() -> None:
    token, handle = "rift_WBL48j8rPdE8K31BQ7G1G9VAU2Y-yUhMbw7NwgepPLI", "task_abcdefgh.s3cr3t-s3cr3t-s3cr3t"
    told = bad_arguments(Call("rift_read", {"vm": handle, "path": token}), tool="x", problems=token[:40], has=token)
    assert refusal_text(told).splitlines() == [
        "x did not run: <your token>. <your token>",
        'rift_read {"vm": "<your handle>", "path": "<your token>"}',
    ]
    assert "s3cr3t" not in str(refusal_result(told).meta)
    assert "WBL48j8" not in str(refusal_result(told).meta)


@pytest.mark.parametrize("odd", ["two\nlines", "para\u2029graph", "next\x85line", 'quo"te', "tab\t"])
def test_a_call_stays_on_one_line_and_reads_back_as_it_was(odd: str) -> None:
    text = Call("rift_write", {"path": odd, "n": [1, {"a": None}]}).text
    assert len(text.splitlines()) == 1
    assert json.loads(text.removeprefix("rift_write ")) == {"path": odd, "n": [1, {"a": None}]}


def test_a_problem_document_says_what_the_text_says() -> None:
    status, document = refusal_problem(EVERY)
    assert status == 422
    assert document["detail"] == EVERY.sentence
    assert document["note"] == "it is gone"
    assert document["mends"][0]["tool"] == "rift_task_new"
    assert refusal_problem(internal_error(Stop(), request="r-1"))[0] == 500
