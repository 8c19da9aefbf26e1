"""rift_audit over the real wire: it answers an address, and nothing by which another's task could be told."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.wire.clients import python_client, text_of
from tests.wire.whole import Whole, whole_rift

from keel.testing.plugin import FreshDatabase

BOX = "b-6cc502538eaee2f589cae12f"
HANDLE = "task_t3fbd463." + "s" * 43


@pytest.fixture
async def rift(database: FreshDatabase, tmp_path: Path) -> AsyncIterator[Whole]:
    async with whole_rift(database, tmp_path) as made:
        yield made


async def test_the_audits_address_has_the_filter_and_nothing_else(rift: Whole) -> None:
    page = rift.deps.settings.server.address + "/app/audit"
    answers = {
        (): "",
        (("task", "task_t3fbd463"),): "?task=task_t3fbd463",
        (("task", HANDLE),): "?task=task_t3fbd463",
        (("task", f" {HANDLE} "), ("vm", "app-main-1")): "?task=task_t3fbd463&vm=app-main-1",
        (("vm", BOX),): f"?vm={BOX}",
        (("vm", f"{BOX}.12"),): f"?vm={BOX}",
        (("vm", "app-feature/x-3"),): "?vm=app-feature%2Fx-3",
        (("vm", "x&task=task_b2345678#"),): "?vm=x%26task%3Dtask_b2345678%23",
        (("task", None), ("vm", None)): "",
    }
    async with python_client(rift.url, rift.token) as client:
        for arguments, asked in answers.items():
            result = await client.call_tool("rift_audit", dict(arguments))
            assert not result.is_error, arguments
            assert text_of(result) == page + asked, arguments
            assert result.structured_content is None
        odd = await client.call_tool("rift_audit", {"vm": HANDLE})
        assert "s" * 43 not in text_of(odd)


async def test_a_task_of_anothers_or_of_nobody_gets_the_same_answer_and_leaves_no_trace_there(rift: Whole) -> None:
    async with python_client(rift.url, rift.token) as client:
        opened = text_of(await client.call_tool("rift_task_new", {"name": "mine"}))
        handle = next(line.removeprefix("handle: ") for line in opened.splitlines() if line.startswith("handle: "))
        mine = handle.partition(".")[0]
        said = [
            text_of(await client.call_tool("rift_audit", {"task": task})).replace(task, "X")
            for task in (mine, "task_zzzzzzzz")
        ]
    assert said[0] == said[1]
    async with rift.deps.db.tx() as tx:
        rows = await tx.rows("SELECT task, arguments, outcome FROM ledger WHERE action = 'rift_audit'")
    assert [(row["task"], row["arguments"], row["outcome"]) for row in rows] == [(None, {}, "ok")] * 2


async def test_a_text_that_is_no_task_is_refused_without_repeating_a_secret(rift: Whole) -> None:
    async with python_client(rift.url, rift.token) as client:
        for text in ("the parser", "task_", f"x{HANDLE}", "rift_" + "s" * 43):
            result = await client.call_tool("rift_audit", {"task": text})
            assert result.is_error
            assert "s" * 43 not in text_of(result)
            assert "rift_task_ls" in text_of(result)
