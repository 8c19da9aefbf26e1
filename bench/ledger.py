"""The ledger at a million records: what an append costs, how fast it is sealed and checked, how long a page takes."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import psycopg

from bench.harness import Row, System, folder, percentile, shown, timed
from keel.clock import SystemClock
from keel.db import Database
from keel.ledger import Record, append, store
from keel.ledger.canonical import entry
from keel.ledger.keys import KeyFolder
from keel.ledger.merkle import leaf_hash
from keel.ledger.seal import seal
from keel.ledger.store import Filter
from keel.ledger.verify import verify
from keel.postgres import SUPERUSER, EmbeddedPostgres
from rift.migrations import migrate
from rift.records import store as reading
from rift.records.decide import sources
from rift.records.model import Asked, Place, Reader

RECORDS = 1_000_000
MONTHS = 6
NAME = "bench_ledger"
FILL = """
    WITH made AS (
        SELECT n, now() - %(long)s::interval * (1 - n::float8 / %(records)s) AS at,
               (ARRAY['rift_bash', 'rift_output', 'rift_vm_ls', 'rift_read', 'rift_vm_new', 'rift_task_ls'])[1 + n %% 6]
                   AS action,
               'b-' || left(md5((n / 100)::text), 24) AS box
        FROM generate_series(1, %(records)s) n
    ), rows AS (
        INSERT INTO ledger (at, actor, via, action, task, box, outcome, duration_us, arguments, text_sha256)
        SELECT at, 'user_' || n %% 50, 'mcp:Claude', action, 'task_' || n / 200, box,
               CASE WHEN n %% 37 = 0 THEN 'vm_unknown' WHEN n %% 9973 = 0 THEN 'error' ELSE 'ok' END, n %% 5000,
               jsonb_build_object('vm', box, 'timeout', 60, 'block_for', 30),
               CASE WHEN n %% 6 = 0 THEN sha256(convert_to('salt' || 'make test', 'UTF8')) END
        FROM made ORDER BY n
        RETURNING seq, at, text_sha256
    )
    INSERT INTO ledger_texts SELECT seq, at, 'salt', 'make test' FROM rows WHERE text_sha256 IS NOT NULL
"""
"""Records of half a year: 50 people, 5,000 tasks, 10,000 boxes, every sixth with a text."""


async def ledger(system: System) -> list[Row]:
    """A million records in a database of their own on the same Postgres."""
    with folder() as place:
        async with _database(system) as db:
            keys, clock = KeyFolder(place / "audit"), SystemClock()
            ours, floor = await _appends(db)
            began = time.perf_counter()
            sealed = await seal(db, keys, clock)
            sealing = sealed / (time.perf_counter() - began)
            began = time.perf_counter()
            report = await verify(db, keys.public(), clock.now(), seen=keys.seen())
            checking = report.records / (time.perf_counter() - began)
            if not report.intact or report.records != sealed:
                raise RuntimeError(f"the ledger is not intact: {report.problems[:3]}")
            pages = await _pages(db)
            audit = await _audit(db)
            hashing = await _hashing(db)
    slowest = max(pages, key=lambda name: percentile(pages[name], 0.95))
    worst = percentile(pages[slowest], 0.95)
    searched = max(audit, key=lambda name: percentile(audit[name], 0.95))
    one = percentile(ours, 0.5)
    return [
        Row("ledger, an append", shown(ours), f"INSERT: {shown(floor)}", one / percentile(floor, 0.5), "≤ 2 ×",
            one <= 2 * percentile(floor, 0.5)),
        Row("ledger, sealing", f"{sealing:,.0f} records/s", f"hashing alone: {hashing:,.0f}/s", None, "", None),
        Row("ledger, verify at 1,000,000", f"{checking:,.0f} records/s", f"hashing alone: {hashing:,.0f}/s", None,
            "≥ 50,000/s", checking >= 50_000),
        Row("ledger, the slowest page of 50", f"{slowest}: {shown(pages[slowest])}", "—", None, "≤ 5 ms",
            worst <= 0.005, {name: percentile(taken, 0.95) for name, taken in pages.items()}),
        Row("the audit of an admin, the slowest page of 50", f"{searched}: {shown(audit[searched])}", "—", None,
            "≤ 5 ms", percentile(audit[searched], 0.95) <= 0.005,
            {name: percentile(taken, 0.95) for name, taken in audit.items()}),
    ]  # fmt: skip


@asynccontextmanager
async def _database(system: System) -> AsyncIterator[Database]:
    """A database with the records in it, that no worker looks at."""
    postgres = EmbeddedPostgres(system.data)
    with psycopg.connect(postgres.url(SUPERUSER, "postgres"), autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {NAME} OWNER {postgres.owner}".encode())
        try:
            _fill(postgres)
            async with Database(postgres.url(None, NAME)) as db:
                yield db
        finally:
            admin.execute(f"DROP DATABASE {NAME} WITH (FORCE)".encode())


def _fill(postgres: EmbeddedPostgres) -> None:
    migrate(postgres.url(postgres.owner, NAME))
    with psycopg.connect(postgres.url(postgres.owner, NAME), autocommit=True) as owner:
        for months in range(MONTHS + 1):
            owner.execute("SELECT ledger_month(now() - %(ago)s)", {"ago": timedelta(days=30 * months)})
        owner.execute(FILL, {"records": RECORDS, "long": timedelta(days=30 * MONTHS)})
        owner.execute("INSERT INTO ledger_readers SELECT 'org_big', at, seq FROM ledger WHERE seq % 2 = 0")
        owner.execute("CREATE TABLE floor (id bigserial PRIMARY KEY, arguments jsonb)")
        owner.execute("GRANT ALL ON ALL TABLES IN SCHEMA public TO rift_runtime")
        owner.execute("GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO rift_runtime")
        owner.execute("VACUUM ANALYZE")


async def _appends(db: Database) -> tuple[list[float], list[float]]:
    """A record in a transaction of its own; and a row of two columns in one."""
    record = Record(
        datetime.now(UTC), "user_1", "mcp:Claude", "rift_bash", "task_1", "b-1", "ok", 5.0,
        {"vm": "b-0123456789abcdef01234567", "timeout": 60, "block_for": 30}, "make test", "salt",
    )  # fmt: skip

    async def ours() -> None:
        async with db.tx() as tx:
            await append(tx, record)

    async def floor() -> None:
        async with db.tx() as tx:
            await tx.run('INSERT INTO floor (arguments) VALUES (\'{"vm": "b-0123456789abcdef01234567"}\')')

    beside = await timed(250, floor)
    taken = await timed(500, ours)
    return taken, beside + await timed(250, floor, 0)


async def _pages(db: Database) -> dict[str, list[float]]:
    """Pages of 50, each kind of filter alone and some together, at the end, in the middle, and where nothing fits."""
    now = datetime.now(UTC)
    half = RECORDS // 2
    wanted = {
        "all": Filter(),
        "all, from the middle": Filter(after=half),
        "task": Filter(task=f"task_{half // 200}"),
        "box": Filter(box="b-" + "0" * 24),
        "person": Filter(actor="user_7"),
        "person, from the middle": Filter(actor="user_7", after=half),
        "tool": Filter(action="rift_vm_new"),
        "tool that nobody used": Filter(action="rift_unwatch"),
        "refused": Filter(outcome="refused"),
        "error": Filter(outcome="error"),
        "code that nobody met": Filter(outcome="vm_full"),
        "person, tool and outcome": Filter(actor="user_7", action="rift_vm_new", outcome="error"),
        "person and refused": Filter(actor="user_7", outcome="refused"),
        "last hour": Filter(since=now - timedelta(hours=1)),
        "an hour long ago": Filter(since=now - timedelta(days=90), until=now - timedelta(days=90, hours=-1)),
        "person, an hour long ago": Filter(
            actor="user_7", since=now - timedelta(days=90), until=now - timedelta(days=90, hours=-1)
        ),
        "ok and tool, long ago": Filter(outcome="ok", action="rift_read", until=now - timedelta(days=150)),
    }
    taken = {}
    async with db.look() as tx:
        for name, one in wanted.items():
            taken[name] = await timed(40, lambda one=one: store.page(tx, one), 10)  # type: ignore[misc]  # its own `one`
    return taken


async def _audit(db: Database) -> dict[str, list[float]]:
    """Pages of the Audit page, of somebody who may read their own and half of all that there is."""
    reader, now = Reader("user_7", ("org_big", *(f"org_{n}" for n in range(5)))), datetime.now(UTC)
    middle = Place(now - timedelta(days=15 * MONTHS), 1)
    wanted = {
        "all": Asked(),
        "all, from the middle": Asked(before=middle),
        "another person": Asked(actor="user_8"),
        "a person who never came": Asked(actor="user_none"),
        "refused": Asked(outcome="refused"),
        "error, from the middle": Asked(outcome="error", before=middle),
        "tool that nobody used": Asked(action="rift_unwatch"),
        "an hour long ago": Asked(since=middle.at, until=middle.at + timedelta(hours=1)),
        "a task of others": Asked(task="task_none"),
    }
    taken = {}
    async with db.look() as tx:

        async def page(asked: Asked) -> None:
            where = sources(reader, asked)
            floor = await reading.floor(tx, reader, where, asked) if asked.narrowed else None
            await reading.page(tx, reader, "all", where, asked, floor)

        for name, one in wanted.items():
            taken[name] = await timed(40, lambda one=one: page(one), 10)  # type: ignore[misc]  # its own `one`
    return taken


async def _hashing(db: Database) -> float:
    """Records a second that one process makes into leaves, once they are in its memory."""
    async with db.look() as tx:
        rows = await store.rows_of(tx, range(1, 20_001))
    began = time.perf_counter()
    for row in rows:
        leaf_hash(entry(row))
    return len(rows) / (time.perf_counter() - began)
