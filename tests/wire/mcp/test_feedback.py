"""rift_feedback over the real wire."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from tests.wire.clients import PYTHON_MODES, python_client, text_of
from tests.wire.whole import Whole, whole_rift

from keel.testing.plugin import FreshDatabase
from rift.feedback.decide import DRAFT_MOST, ITEMS_MOST

ITEM = {"text": "rift_vm_new took 40 s", "category": "bug", "context": "request r-0c1d2e3f4a5b"}


@pytest.fixture
async def rift(database: FreshDatabase, tmp_path: Path) -> AsyncIterator[Whole]:
    async with whole_rift(database, tmp_path) as made:
        yield made


async def draft(rift: Whole) -> list[dict[str, Any]]:
    async with rift.deps.db.tx() as tx:
        return await tx.rows("SELECT text, category, context, client, submitted_at FROM feedback ORDER BY created_at")


async def said(client: Client, items: object) -> str:
    result = await client.call_tool("rift_feedback", {"items": items})
    assert not result.is_error, text_of(result)
    return text_of(result)


@pytest.mark.parametrize("mode", PYTHON_MODES)
async def test_items_are_added_to_one_draft_and_the_link_is_always_the_same(rift: Whole, mode: str) -> None:
    link = f"{rift.deps.settings.server.address}/app/feedback"
    async with python_client(rift.url, rift.token, mode) as client:
        first = await said(client, [ITEM])
        second = await said(client, json.dumps([{"text": "more", "category": "improvement"}] * ITEMS_MOST))
    assert first.startswith("1 item added to the draft, which holds 1. Nothing is sent")
    assert second.startswith("10 items added to the draft, which holds 11. Nothing is sent")
    assert [link in text.splitlines() for text in (first, second)] == [True, True]
    held = await draft(rift)
    assert {key: held[0][key] for key in ITEM} == ITEM
    assert len(held) == 11
    assert all(row["submitted_at"] is None for row in held)


@pytest.mark.parametrize(
    "items",
    [
        [], [ITEM] * (ITEMS_MOST + 1), [{"text": "no category"}], [{"category": "bug"}],
        [{**ITEM, "category": "praise"}],
        [{**ITEM, "text": ""}], [{**ITEM, "text": "x" * 4001}], [{**ITEM, "context": "x" * 4001}],
        [{**ITEM, "more": "?"}], "no list", [ITEM, 5], {"text": "x", "category": "bug"},
    ],
)  # fmt: skip
async def test_what_is_no_list_of_items_is_refused_before_anything_is_kept(rift: Whole, items: object) -> None:
    async with python_client(rift.url, rift.token) as client:
        result = await client.call_tool("rift_feedback", {"items": items})
    assert result.is_error
    assert "items" in text_of(result)
    assert await draft(rift) == []


async def test_secrets_are_taken_out_and_the_record_has_nothing_of_the_text(rift: Whole) -> None:
    secret = f"rift_{'x' * 43}"
    async with python_client(rift.url, rift.token) as client:
        await said(client, [{"text": f"words of mine {secret}", "category": "bug", "context": f"context {secret}"}])
    (row,) = await draft(rift)
    assert (row["text"], row["context"]) == ("words of mine <your token>", "context <your token>")
    async with rift.deps.db.tx() as tx:
        for record in await tx.rows("SELECT l::text AS row FROM ledger l"):
            assert not {secret, "words of mine"} & {part for part in (secret, "words of mine") if part in record["row"]}


async def test_a_full_draft_says_where_to_make_room(rift: Whole) -> None:
    async with python_client(rift.url, rift.token) as client:
        for _ in range(DRAFT_MOST // ITEMS_MOST):
            await said(client, [ITEM] * ITEMS_MOST)
        result = await client.call_tool("rift_feedback", {"items": [ITEM]})
    assert result.is_error
    assert "/app/feedback" in text_of(result)
    assert len(await draft(rift)) == DRAFT_MOST
