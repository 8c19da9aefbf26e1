"""Archives in Postgres: a month's state, its records, its manifest, its end as a partition. Never commits.

All but the reading is the owner's: the runtime role has no right to any of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC
from typing import Literal

from psycopg import errors, sql

from keel.db import OperationalError, Tx
from keel.ledger.canonical import Row
from keel.ledger.manifest import Content, Manifest, bounds
from keel.ledger.store import ROWS

State = Literal["attached", "detached", "absent"]


@dataclass(frozen=True, slots=True)
class Extent:
    """What the ledger has of a month: how many records, how many of them unsealed, from which position to which."""

    count: int
    unsealed: int
    first: int | None
    last: int | None
    texts: int
    """How many texts are kept of it."""
    rest: int
    """How many of its records stand in the partition of what has no month."""


def partition(month: str) -> str:
    """The name of a month's partition, as the function ledger_month makes it."""
    return f"ledger_{month.replace('-', '_')}"


async def state(tx: Tx, month: str) -> State:
    """Whether a month's partition is part of the ledger, stands alone, or is not there."""
    row = await tx.row(
        """
        SELECT to_regclass(%(name)s) IS NOT NULL AS there,
               EXISTS (SELECT FROM pg_inherits
                       WHERE inhrelid = to_regclass(%(name)s) AND inhparent = 'ledger'::regclass) AS attached
        """,
        {"name": partition(month)},
    )
    assert row is not None  # it is one row
    return "attached" if row["attached"] else "detached" if row["there"] else "absent"


async def months(tx: Tx) -> list[str]:
    """The months that have a partition in the ledger, the oldest first."""
    found = await tx.rows(
        """
        SELECT relname FROM pg_inherits JOIN pg_class ON oid = inhrelid
        WHERE inhparent = 'ledger'::regclass AND relname ~ '^ledger_[0-9]{4}_[0-9]{2}$' ORDER BY 1
        """
    )
    return [row["relname"].removeprefix("ledger_").replace("_", "-") for row in found]


async def extent(tx: Tx, month: str) -> Extent:
    """What there is of a month."""
    since, until = bounds(month)
    row = await tx.row(
        """
        SELECT count(*) AS count, count(*) - count(l.seq) AS unsealed, min(position) AS first, max(position) AS last,
               (SELECT count(*) FROM ledger_texts WHERE at >= %(since)s AND at < %(until)s) AS texts,
               (SELECT count(*) FROM ledger_rest WHERE at >= %(since)s AND at < %(until)s) AS rest
        FROM ledger r LEFT JOIN ledger_leaves l ON l.seq = r.seq
        WHERE at >= %(since)s AND at < %(until)s
        """,
        {"since": since, "until": until},
    )
    assert row is not None  # an aggregate is one row
    return Extent(**row)


_SEALED_THERE = """
    WHERE at >= %(since)s AND at < %(until)s AND seq = ANY(ARRAY(
        SELECT seq FROM ledger_leaves WHERE position BETWEEN %(first)s AND %(last)s
    ))
"""


async def rows(tx: Tx, month: str, first: int, last: int) -> dict[int, Row]:
    """A month's records that are sealed at positions from one to another, by their positions."""
    since, until = bounds(month)
    found = await tx.tuples(ROWS + _SEALED_THERE, {"since": since, "until": until, "first": first, "last": last})
    by_seq = {row[0]: Row(*row) for row in found}
    places = await tx.tuples(
        "SELECT position, seq FROM ledger_leaves WHERE position BETWEEN %(first)s AND %(last)s",
        {"first": first, "last": last},
    )
    return {position: by_seq[seq] for position, seq in places if seq in by_seq}


async def missing(tx: Tx, first: int, last: int) -> list[tuple[int, int]]:
    """Position and seq of the leaves from one position to another whose record is in no partition."""
    return await tx.tuples(
        """
        SELECT position, seq FROM ledger_leaves l
        WHERE position BETWEEN %(first)s AND %(last)s AND NOT EXISTS (SELECT FROM ledger r WHERE r.seq = l.seq)
        ORDER BY position
        """,
        {"first": first, "last": last},
    )


_MANIFESTS = """
    SELECT to_char(month, 'YYYY-MM'), positions, count, root, at, file_sha256, record, key, signature
    FROM ledger_archives
"""


async def manifests(tx: Tx) -> list[Manifest]:
    """Every archive that was made, by its month."""
    found = await tx.tuples(_MANIFESTS + "ORDER BY month")
    return [Manifest(Content(*row[:4]), row[4].astimezone(UTC), *row[5:]) for row in found]


async def insert_manifest(tx: Tx, made: Manifest) -> None:
    """Add the manifest of a month. UniqueViolation where it has one."""
    told = made.content
    await tx.run(
        """
        INSERT INTO ledger_archives (month, at, positions, count, root, file_sha256, record, key, signature)
        VALUES (%(month)s, %(at)s, %(positions)s, %(count)s, %(root)s, %(file)s, %(record)s, %(key)s, %(signature)s)
        """,
        {
            "month": bounds(told.month)[0].date(), "at": made.at, "positions": told.positions, "count": told.count,
            "root": told.root, "file": made.file_sha256, "record": made.record, "key": made.key,
            "signature": made.signature,
        },
    )  # fmt: skip


async def last_seq(tx: Tx) -> int:
    """The seq of the record that this connection wrote last."""
    row = await tx.row("SELECT currval('ledger_seq') AS seq")
    assert row is not None  # it is one row
    return int(row["seq"])


ARCHIVING = 7_434
"""The class of the advisory lock that keeps archiving and checking apart; each schema's ledger has its own."""


async def alone(tx: Tx, patience: str) -> None:
    """Let no check go on until this transaction ends; wait for no lock of this transaction longer than `patience`.

    It and `hold` raise OperationalError where a lock was not to be had.
    """
    await tx.run("SELECT set_config('lock_timeout', %(patience)s, true)", {"patience": patience})
    await tx.run("SELECT pg_advisory_xact_lock(%(key)s, 'ledger'::regclass::oid::int)", {"key": ARCHIVING})


async def share(tx: Tx) -> None:
    """Let nothing be archived on the way of a check, until `unshare` on the same connection."""
    await tx.run("SELECT pg_advisory_lock_shared(%(key)s, 'ledger'::regclass::oid::int)", {"key": ARCHIVING})


async def unshare(tx: Tx) -> None:
    """End what `share` began."""
    await tx.run("SELECT pg_advisory_unlock_shared(%(key)s, 'ledger'::regclass::oid::int)", {"key": ARCHIVING})


async def hold(tx: Tx, month: str) -> None:
    """Let nothing be added to a month until this transaction ends."""
    await tx.connection.execute(sql.SQL("LOCK TABLE ONLY {} IN SHARE MODE").format(sql.Identifier(partition(month))))


def is_of_locks(error: OperationalError) -> bool:
    """Whether a statement failed because a lock was not to be had: nothing was done, and it may be tried again."""
    return isinstance(error, errors.LockNotAvailable | errors.DeadlockDetected)


async def count(tx: Tx, month: str) -> int:
    """How many records a month has now."""
    since, until = bounds(month)
    row = await tx.row(
        "SELECT count(*) AS count FROM ledger WHERE at >= %(since)s AND at < %(until)s",
        {"since": since, "until": until},
    )
    assert row is not None  # an aggregate is one row
    return int(row["count"])


async def detach(tx: Tx, month: str) -> None:
    """Take a month out of the ledger. What stands alone from then on may be dropped, and not changed."""
    name = sql.Identifier(partition(month))
    await tx.connection.execute(sql.SQL("ALTER TABLE ledger DETACH PARTITION {}").format(name))
    await tx.connection.execute(
        sql.SQL(
            "CREATE TRIGGER ledger_no_change BEFORE UPDATE OR DELETE ON {} "
            "FOR EACH ROW EXECUTE FUNCTION ledger_is_append_only()"
        ).format(name)
    )


async def drop(tx: Tx, month: str) -> None:
    """Drop a month that stands alone."""
    await tx.connection.execute(sql.SQL("DROP TABLE {}").format(sql.Identifier(partition(month))))
