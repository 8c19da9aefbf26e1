"""A month goes to a file: nothing is lost wherever it is cut off, and what went is told from what was deleted."""

from __future__ import annotations

import asyncio
import gzip
import json
import stat
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import psycopg
import pytest
from psycopg import errors
from tests.unit.keel.ledger.archives import (
    FEBRUARY,
    JANUARY,
    MARCH,
    RECORDS,
    archived,
    files,
    owner_of,
    three_months,
)  # fmt: skip
from tests.unit.keel.ledger.chain import Chain

from keel.ledger import archive_store
from keel.ledger.archive import ArchiveTrouble, due, plan
from keel.ledger.archive_file import check, prove
from keel.ledger.keys import KeyFolder


class Killed(BaseException):
    """What a kill looks like from inside: nothing after it runs."""


@pytest.fixture
async def filled(empty: Chain) -> Chain:
    await three_months(empty)
    return empty


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "archives"


async def state(made: Chain, month: str = JANUARY) -> str:
    async with made.db.look() as tx:
        return await archive_store.state(tx, month)


async def test_an_archived_month_is_a_file_that_holds_by_itself(filled: Chain, folder: Path) -> None:
    done = await archived(filled, folder)
    assert (done.changed, done.dropped, done.content.count) == (True, False, RECORDS[JANUARY])
    assert stat.S_IMODE(done.path.stat().st_mode) == 0o600
    checked = check(done.path, filled.keys.public())
    assert (checked.problems, checked.records, checked.content) == ([], RECORDS[JANUARY], done.content)
    lines = [json.loads(line) for line in gzip.decompress(done.path.read_bytes()).splitlines()]
    records = [json.loads(line["record"]) for line in lines if "record" in line]
    assert [one["at"][:7] for one in records] == [JANUARY] * RECORDS[JANUARY]
    assert sum("leaf" in line for line in lines) == 3  # of February, in January's last tree
    assert await state(filled) == "detached"


async def test_the_ledger_without_its_archived_months_is_intact(filled: Chain, folder: Path) -> None:
    await archived(filled, folder)
    await archived(filled, folder, FEBRUARY, drop=True)
    report = await filled.verify()
    gone = RECORDS[JANUARY] + RECORDS[FEBRUARY]
    assert (report.problems, report.archived, report.unseen) == ([], gone, gone)
    report = await filled.verify(archives=files(folder, [JANUARY, FEBRUARY]))
    assert (report.problems, report.archived, report.unseen) == ([], gone, 0)
    assert report.unsealed == 2  # that they were archived is recorded like anything else
    await filled.seal()
    assert (await filled.verify()).problems == []
    assert (await state(filled), await state(filled, FEBRUARY)) == ("detached", "absent")


async def test_the_record_of_an_archive_may_be_archived_itself(filled: Chain, folder: Path) -> None:
    await archived(filled, folder)
    await filled.seal()
    filled.clock.set(datetime(2026, 4, 1, tzinfo=UTC))
    await archived(filled, folder, MARCH, drop=True)
    await filled.seal()
    report = await filled.verify(archives=files(folder, [JANUARY, MARCH]))
    assert (report.problems, report.unseen) == ([], 0)
    assert report.archived == RECORDS[JANUARY] + RECORDS[MARCH] + 1


async def test_a_record_is_proved_from_the_file_of_its_month(filled: Chain, folder: Path) -> None:
    done = await archived(filled, folder, drop=True)
    for seq in (1, RECORDS[JANUARY]):
        proof = prove(done.path, seq)
        assert proof is not None
        assert proof.problem() is None
        assert json.loads(proof.entry)["seq"] == seq
    assert prove(done.path, RECORDS[JANUARY] + 1) is None


# Cut off anywhere


@pytest.mark.parametrize("at", ["written", "recording", "recorded", "dropped"])
@pytest.mark.parametrize("drop", [False, True])
async def test_cut_off_at_any_step_nothing_is_lost_and_a_second_run_finishes(
    filled: Chain, folder: Path, at: str, drop: bool
) -> None:
    def killing(step: str) -> None:
        if step == at:
            raise Killed

    if at == "dropped" and not drop:
        await archived(filled, folder)
    else:
        with pytest.raises(Killed):
            await archived(filled, folder, drop=drop, tell=killing)
    report = await filled.verify()
    assert report.problems == []
    path = folder / "ledger-2026-01.jsonl.gz"
    assert report.archived == 0 or check(path, filled.keys.public()).records == RECORDS[JANUARY]
    again = await archived(filled, folder, drop=drop)
    assert (again.content.count, again.dropped) == (RECORDS[JANUARY], drop)
    report = await filled.verify(archives=[path])
    assert (report.problems, report.archived, report.unseen) == ([], RECORDS[JANUARY], 0)
    assert not (await archived(filled, folder, drop=drop)).changed
    async with filled.db.look() as tx:
        found = await tx.row("SELECT count(*) AS n FROM ledger WHERE action = 'ledger.archived'")
    assert found == {"n": 1}
    assert [one.name for one in folder.iterdir() if one.suffix == ".gz"] == [path.name]


async def test_what_a_killed_run_had_begun_to_write_is_written_anew(filled: Chain, folder: Path) -> None:
    folder.mkdir()
    (folder / "ledger-2026-01.jsonl.gz.new").write_bytes(b"half of something")
    assert (await archived(filled, folder)).changed
    assert (await filled.verify(archives=files(folder, [JANUARY]))).problems == []
    assert len(list(folder.iterdir())) == 1


async def test_of_two_runs_at_once_one_archives_and_the_other_says_so_or_finds_it_done(
    filled: Chain, folder: Path
) -> None:
    said = await asyncio.gather(*(archived(filled, folder) for _ in range(3)), return_exceptions=True)
    assert any(not isinstance(one, BaseException) for one in said)
    assert all(isinstance(one, ArchiveTrouble | errors.UniqueViolation) for one in said if isinstance(one, Exception))
    assert (await filled.verify(archives=files(folder, [JANUARY]))).problems == []


async def test_a_partition_that_was_put_back_is_checked_and_leaves_again(filled: Chain, folder: Path) -> None:
    await archived(filled, folder)
    filled.attack(
        "DROP TRIGGER ledger_no_change ON ledger_2026_01",
        "ALTER TABLE ledger ATTACH PARTITION ledger_2026_01 FOR VALUES FROM ('2026-01-01Z') TO ('2026-02-01Z')",
    )
    report = await filled.verify()
    assert (report.problems, report.archived) == ([], 0)
    assert (await archived(filled, folder)).changed
    assert (await filled.verify()).archived == RECORDS[JANUARY]


# Refused


async def test_a_month_that_is_not_over_or_not_there_is_refused(filled: Chain, folder: Path) -> None:
    for month, why in (
        (MARCH, "not over"), ("2026-04", "not over"), ("2025-12", "no records"), ("2026-13", "written as|month must"),
        ("rest", "written as"), ("2026-1", "written as"), ("٢٠٢٦-٠١", "written as"),
    ):  # fmt: skip
        with pytest.raises(ArchiveTrouble, match=why):
            await archived(filled, folder, month)
    assert not folder.exists()


async def test_a_month_with_records_that_are_not_sealed_is_refused(filled: Chain, folder: Path) -> None:
    filled.clock.set(datetime(2026, 2, 3, tzinfo=UTC))
    await filled.add(1)
    filled.clock.set(datetime(2026, 3, 2, tzinfo=UTC))
    with pytest.raises(ArchiveTrouble, match="1 records of 2026-02 are not sealed"):
        await archived(filled, folder, FEBRUARY)
    assert (await archived(filled, folder, JANUARY)).changed


async def test_a_month_in_the_rest_partition_is_refused(filled: Chain, folder: Path) -> None:
    filled.clock.set(datetime(2025, 11, 3, tzinfo=UTC))
    await filled.add(2)
    filled.clock.set(datetime(2026, 3, 2, tzinfo=UTC))
    await filled.seal()
    with pytest.raises(ArchiveTrouble, match="ledger_rest"):
        await archived(filled, folder, "2025-11")


async def test_a_month_whose_texts_are_still_kept_is_refused(filled: Chain, folder: Path) -> None:
    filled.clock.set(datetime(2026, 1, 20, tzinfo=UTC))
    await filled.add(1, text="make test")
    filled.clock.set(datetime(2026, 3, 2, tzinfo=UTC))
    await filled.seal()
    with pytest.raises(ArchiveTrouble, match="1 texts"):
        await archived(filled, folder)
    async with filled.db.tx() as tx:
        await tx.run("DELETE FROM ledger_texts")
    assert (await archived(filled, folder)).changed


async def test_a_month_that_the_sink_has_not_got_is_refused(filled: Chain, folder: Path) -> None:
    with pytest.raises(ArchiveTrouble, match="sink"):
        await archived(filled, folder, delivered=RECORDS[JANUARY] - 1)
    assert (await archived(filled, folder, delivered=RECORDS[JANUARY])).changed


@pytest.mark.parametrize(
    "attack",
    [
        "UPDATE ledger SET outcome = 'error' WHERE seq = 3",
        "DELETE FROM ledger WHERE seq = 3",
        "UPDATE ledger_leaves SET leaf = sha256('x') WHERE seq = 3",
        "UPDATE ledger_checkpoints SET root = sha256('x') WHERE number = 1",
    ],
)
async def test_a_ledger_that_is_not_intact_is_not_archived(filled: Chain, folder: Path, attack: str) -> None:
    filled.attack(attack)
    with pytest.raises(ArchiveTrouble, match="not intact"):
        await archived(filled, folder)
    assert await state(filled) == "attached"
    assert not list(folder.glob("*.gz"))


def _other_months(path: Path) -> None:
    path.write_bytes(b"something of somebody's")


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


@pytest.mark.parametrize("spoil", [_other_months, _cut])
async def test_a_file_that_is_there_and_is_another_one_is_never_written_over(
    filled: Chain, folder: Path, spoil: Callable[[Path], None]
) -> None:
    path = folder / "ledger-2026-01.jsonl.gz"
    with pytest.raises(Killed):
        await archived(filled, folder, tell=_kill)
    spoil(path)
    before = path.read_bytes()
    with pytest.raises(ArchiveTrouble, match="move it away"):
        await archived(filled, folder)
    assert path.read_bytes() == before
    assert await state(filled) == "attached"


def _kill(step: str) -> None:
    raise Killed


async def test_a_month_whose_file_is_away_is_not_dropped(filled: Chain, folder: Path, tmp_path: Path) -> None:
    await archived(filled, folder)
    with pytest.raises(ArchiveTrouble, match="--to"):
        await archived(filled, tmp_path / "elsewhere", drop=True)
    path = folder / "ledger-2026-01.jsonl.gz"
    whole = path.read_bytes()
    path.write_bytes(whole + b"\0")
    with pytest.raises(ArchiveTrouble, match="not the file that was recorded"):
        await archived(filled, folder, drop=True)
    assert await state(filled) == "detached"
    path.write_bytes(whole)
    assert (await archived(filled, folder, drop=True)).dropped


async def test_the_running_system_cannot_archive_anything(filled: Chain, database: object) -> None:
    for statement in (
        "ALTER TABLE ledger DETACH PARTITION ledger_2026_01", "DROP TABLE ledger_2026_01",
        "INSERT INTO ledger_archives VALUES ('2026-01-01', now(), '1-1', 1, sha256(''), sha256(''), 1, 'x', '')",
        "UPDATE ledger_archives SET count = 1", "DELETE FROM ledger_archives", "TRUNCATE ledger_archives",
    ):  # fmt: skip
        with psycopg.connect(filled.db.url) as connection, pytest.raises(errors.InsufficientPrivilege):
            connection.execute(statement.encode())


async def test_the_owner_changes_neither_a_manifest_nor_a_month_that_stands_alone(filled: Chain, folder: Path) -> None:
    await archived(filled, folder)
    for statement in (
        "UPDATE ledger_archives SET count = 1", "DELETE FROM ledger_archives", "TRUNCATE ledger_archives",
        "UPDATE ledger_2026_01 SET outcome = 'ok'", "DELETE FROM ledger_2026_01", "TRUNCATE ledger_2026_01",
    ):  # fmt: skip
        with psycopg.connect(filled.owner) as connection, pytest.raises(errors.RaiseException, match="append-only"):
            connection.execute(statement.encode())


async def test_what_is_due_and_what_would_be_done_is_told_beforehand(filled: Chain, folder: Path) -> None:
    async with owner_of(filled) as db:
        assert await due(db, filled.clock) == [JANUARY, FEBRUARY]
        first = await plan(db, filled.clock, JANUARY, folder)
        assert (first.records, first.bytes, first.recorded) == (RECORDS[JANUARY], None, False)
    await archived(filled, folder)
    async with owner_of(filled) as db:
        assert await due(db, filled.clock) == [FEBRUARY]
        again = await plan(db, filled.clock, JANUARY, folder)
        assert (again.records, again.recorded, (again.bytes or 0) > 0) == (RECORDS[JANUARY], True, True)


async def test_decisions_go_on_while_somebody_reads_the_ledger_for_long(filled: Chain, folder: Path) -> None:
    """A dump holds its lock for hours: the archiving gives up in time, and nobody waits behind it."""
    with psycopg.connect(filled.owner) as dump:
        dump.execute("SELECT 1 FROM ledger LIMIT 1")
        trying = asyncio.create_task(archived(filled, folder))
        while not trying.done():
            async with asyncio.timeout(20):
                await filled.add(1)
            await asyncio.sleep(0.05)
        with pytest.raises(ArchiveTrouble, match="run it again"):
            await trying
    assert await state(filled) == "attached"
    assert (await archived(filled, folder)).changed
    await filled.seal()
    assert (await filled.verify(archives=files(folder, [JANUARY]))).problems == []


async def test_a_month_is_archived_after_the_key_was_replaced(filled: Chain, folder: Path) -> None:
    filled.keys.rotate(filled.clock.now())
    await archived(filled, folder)
    filled.keys.rotate(filled.clock.now())
    await filled.seal()
    await archived(filled, folder, FEBRUARY)
    await filled.seal()
    assert (await filled.verify(archives=files(folder, [JANUARY, FEBRUARY]))).problems == []


async def test_a_file_says_nothing_to_who_knows_another_key(filled: Chain, folder: Path, tmp_path: Path) -> None:
    done = await archived(filled, folder)
    stranger = KeyFolder(tmp_path / "stranger")
    stranger.signer(filled.clock.now())
    assert "nobody vouches" in check(done.path, stranger.public()).problems[0]
