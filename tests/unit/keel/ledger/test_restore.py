"""A dump that is restored into another cluster: what was sealed stays sealed, and sealing goes on."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from tests.unit.keel.ledger.chain import RECORDS, Chain, chain

from keel.accounts import account
from keel.ledger import store
from keel.postgres import SUPERUSER, EmbeddedPostgres
from keel.postgres_host import installation, place_for
from keel.testing import FakeClock, scratch
from keel.testing.plugin import FreshDatabase


@pytest.fixture(scope="module")
def cluster_elsewhere() -> Iterator[EmbeddedPostgres]:
    """Another cluster, whose transactions are counted from the beginning."""
    with tempfile.TemporaryDirectory(prefix="keel-restore-", dir=scratch()) as folder:
        Path(folder).chmod(0o711)
        postgres = EmbeddedPostgres(Path(folder), durable=False)
        postgres.start()
        yield postgres
        postgres.remove()


@pytest.fixture
def other(cluster_elsewhere: EmbeddedPostgres) -> EmbeddedPostgres:
    """The same, with nothing in its database."""
    with psycopg.connect(cluster_elsewhere.url(SUPERUSER, "postgres"), autocommit=True) as admin:
        admin.execute("DROP DATABASE rift WITH (FORCE)")
        admin.execute("CREATE DATABASE rift OWNER rift_owner")
    return cluster_elsewhere


def copy(database: FreshDatabase, other: EmbeddedPostgres) -> None:
    """Dump as docs/operations.md says, and load it."""
    who = account("rift-postgres")
    programs = installation(place_for(other.place.parent / "programs", who), who) / "bin"
    dump = subprocess.run([programs / "pg_dump", database.owner], capture_output=True, check=True)
    load: list[str | Path] = [programs / "psql", "-q", "-v", "ON_ERROR_STOP=1", other.url(other.owner)]
    subprocess.run(load, input=dump.stdout, capture_output=True, check=True)


async def test_what_was_sealed_stays_sealed_in_another_cluster_and_sealing_goes_on(
    sealed: Chain, database: FreshDatabase, other: EmbeddedPostgres, tmp_path: Path, clock: FakeClock
) -> None:
    await sealed.add(2)  # not sealed yet
    copy(database, other)
    moved = FreshDatabase("rift", other.url(other.owner), other.url())
    async with chain(moved, other.url(SUPERUSER), tmp_path, clock) as made:
        assert (await made.verify()).unsealed == 2
        assert await made.seal() == 2
        await made.add(3)
        assert await made.seal() == 3
        report = await made.verify()
        assert (report.problems, report.records, report.checkpoints) == ([], RECORDS + 5, 6)
        async with made.db.look() as tx:
            newest = await store.newest(tx)
    assert newest is not None
    assert newest.checkpoint.settled == RECORDS + 5


async def test_an_older_copy_is_told_until_a_person_has_looked(
    sealed: Chain, database: FreshDatabase, other: EmbeddedPostgres, tmp_path: Path, clock: FakeClock
) -> None:
    copy(database, other)
    await sealed.add(2)
    await sealed.seal()  # the host has seen checkpoint 5, and the copy has not
    moved = FreshDatabase("rift", other.url(other.owner), other.url())
    async with chain(moved, other.url(SUPERUSER), tmp_path, clock) as made:
        await made.add(1)
        await made.seal()
        assert [(one.kind, one.checkpoint) for one in (await made.verify()).problems] == [("chain", 5)]
        (made.keys.folder / "seen.json").unlink()
        await made.add(1)
        await made.seal()
        assert (await made.verify()).intact
        assert made.keys.seen() is not None
