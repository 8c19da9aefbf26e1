"""Who reads a record beside the one who acted: written by the database itself, once, and changed by nobody."""

from __future__ import annotations

from datetime import timedelta

import psycopg
import pytest
from tests.behaviour.machines.harness import Place

from keel.testing.plugin import FreshDatabase
from rift.audit import audited, note

READERS = """
    SELECT l.action, r.reader FROM ledger l LEFT JOIN ledger_readers r ON r.seq = l.seq AND r.at = l.at
    ORDER BY l.seq, r.reader
"""


async def readers(rift: Place) -> list[tuple[str, str | None]]:
    return [(row["action"], row["reader"]) for row in await rift.rows(READERS)]


async def fail_about(rift: Place, org: str) -> None:
    async with audited(rift.deps, rift.act(tool="web remove member")) as (_, row):
        row.org = org
        raise LookupError


async def test_a_record_of_a_box_is_read_by_its_repositorys_organization_once(rift: Place) -> None:
    lease = await rift.open_task()
    box = (await rift.running_box(lease.handle)).id
    before = len(await readers(rift))
    await rift.bash(lease.handle, box)
    await rift.bash(lease.handle, "app-main-77")
    assert (await readers(rift))[before:] == [("rift_bash", rift.repo.org), ("rift_bash", None)]


async def test_what_upkeep_does_to_a_task_is_read_by_its_owner(rift: Place) -> None:
    lease = await rift.open_task()
    rift.clock.advance(timedelta(hours=4))
    await rift.upkeep()
    assert (await readers(rift))[-1] == ("task closed itself", rift.ada.user)
    assert ("rift_task_new", None) in await readers(rift)
    assert lease.task.owner == rift.ada.user


async def test_what_is_about_an_organization_is_read_by_it_also_when_it_failed(rift: Place) -> None:
    org = rift.repo.org
    async with audited(rift.deps, rift.act(tool="web remove member")) as (_, row):
        row.org = org
    with pytest.raises(LookupError):
        await fail_about(rift, org)
    async with rift.deps.db.tx() as tx:
        await note(tx, rift.deps, "invitation is over", task=None, box=None, org=org)
    assert (await readers(rift))[-3:] == [
        ("web remove member", org), ("web remove member", org), ("invitation is over", org)
    ]  # fmt: skip


async def test_a_box_of_the_organization_that_a_record_is_about_is_noted_once(rift: Place) -> None:
    lease = await rift.open_task()
    box = (await rift.running_box(lease.handle)).id
    async with audited(rift.deps, rift.act(tool="web look")) as (_, row):
        row.box, row.org = box, rift.repo.org
    assert (await readers(rift))[-1] == ("web look", rift.repo.org)
    assert [one for one in await readers(rift) if one[0] == "web look"] == [("web look", rift.repo.org)]


async def test_a_record_is_of_whoever_turned_out_to_act(rift: Place) -> None:
    async with audited(rift.deps, rift.act(tool="web look")) as (_, row):
        row.actor = "user_other"
    found = await rift.rows("SELECT actor FROM ledger ORDER BY seq DESC LIMIT 1")
    assert found[0]["actor"] == rift.ada.user  # who acts is known: nobody else turns out to


async def test_who_reads_what_can_be_changed_by_nobody(rift: Place, database: FreshDatabase) -> None:
    lease = await rift.open_task()
    await rift.running_box(lease.handle)
    for url in (database.runtime, database.owner):
        for statement in (
            "DELETE FROM ledger_readers",
            "UPDATE ledger_readers SET reader = 'user_mallory'",
            "TRUNCATE ledger_readers",
            "ALTER TABLE ledger_readers DISABLE TRIGGER ALL",
            "DROP TRIGGER ledger_has_readers ON ledger",
        ):
            if url == database.owner and statement.startswith(("ALTER", "DROP")):
                continue  # the owner of a table may do that to any; `rift audit verify` is for what they then do
            with psycopg.connect(url) as connection, pytest.raises(psycopg.Error):
                connection.execute(statement)
