"""The ledger in Postgres: what sealing, checking and reading need. Takes a transaction and never commits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, LiteralString

from keel.db import Tx
from keel.ledger.canonical import Row
from keel.ledger.checkpoint import Checkpoint, Signed
from keel.ledger.keys import PublicKey

ROWS = """
    SELECT seq, at, actor, via, action, task, box, outcome, duration_us, arguments::text, text_sha256 FROM ledger r
"""
_CHECKPOINTS = """
    SELECT number, at, first, last, root, previous, settled, key, signature FROM ledger_checkpoints
"""
SEALING = 7_433
"""The class of the advisory lock of whoever makes a checkpoint or changes the key; each schema's ledger has its own."""


@dataclass(frozen=True, slots=True)
class Writers:
    """Who may still bring rows: `upto` was the highest seq given out when `holders` had rows that nobody sees yet."""

    upto: int
    holders: frozenset[str]


@dataclass(frozen=True, slots=True)
class Filter:
    """Which records; None is any. `outcome` is an outcome, or `refused` for every refusal's code."""

    task: str | None = None
    box: str | None = None
    actor: str | None = None
    via: str | None = None
    action: str | None = None
    outcome: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    after: int | None = None
    """The seq of the record after which the page begins, in the order of the list."""
    limit: int = 50


# Sealing


async def lock(tx: Tx, *, wait: bool = False) -> bool:
    """Be the only one who makes a checkpoint, until this transaction ends. False when another one is."""
    if wait:
        await tx.run("SELECT pg_advisory_xact_lock(%(key)s, 'ledger'::regclass::oid::int)", {"key": SEALING})
        return True
    row = await tx.row(
        "SELECT pg_try_advisory_xact_lock(%(key)s, 'ledger'::regclass::oid::int) AS mine", {"key": SEALING}
    )
    return row is not None and bool(row["mine"])


async def writers(tx: Tx) -> Writers:
    """The highest seq given out, and then which transactions may hold rows with such a seq and have not ended.

    Whoever inserts locks the table before it takes a seq, and lets go once its rows are seen by everybody. So a holder
    of a seq up to `upto` is among `holders`, or its rows are there for the next statement, or it has none.
    """
    given = await tx.row("SELECT CASE WHEN is_called THEN last_value ELSE 0 END AS upto FROM ledger_seq")
    assert given is not None  # a sequence is one row
    holding = await tx.rows(
        """
        SELECT virtualtransaction AS id FROM pg_locks
        WHERE locktype = 'relation' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
          AND (relation = 'ledger'::regclass
               OR relation IN (SELECT inhrelid FROM pg_inherits WHERE inhparent = 'ledger'::regclass))
          AND mode IN ('RowExclusiveLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
          AND pid IS DISTINCT FROM pg_backend_pid()
        """
    )
    return Writers(given["upto"], frozenset(row["id"] for row in holding))


async def unsealed(tx: Tx, above: int, at_most: int) -> list[Row]:
    """The rows that have no leaf, of those above a seq, in the order of their seqs."""
    found = await tx.tuples(
        ROWS
        + """
        WHERE seq > %(above)s
          AND NOT EXISTS (SELECT FROM ledger_leaves l WHERE l.seq = r.seq AND l.seq > %(above)s)
        ORDER BY seq LIMIT %(most)s
        """,
        {"above": above, "most": at_most},
    )
    return [Row(*row) for row in found]


async def insert_leaves(tx: Tx, first: int, seqs: Sequence[int], leaves: Sequence[bytes]) -> None:
    """Add leaves from a position on. UniqueViolation where a row has one already."""
    await tx.run(
        """
        INSERT INTO ledger_leaves (position, seq, leaf)
        SELECT %(first)s + n - 1, seq, leaf
        FROM unnest(%(seqs)s::bigint[], %(leaves)s::bytea[]) WITH ORDINALITY AS sealed (seq, leaf, n)
        """,
        {"first": first, "seqs": list(seqs), "leaves": list(leaves)},
    )


async def insert_checkpoint(tx: Tx, signed: Signed, pending: Writers | None) -> None:
    """Add a checkpoint, and whose rows were still to come when it was made."""
    one = signed.checkpoint
    await tx.run(
        """
        INSERT INTO ledger_checkpoints
            (number, at, first, last, root, previous, settled, key, signature, pending_upto, pending_holders)
        VALUES (%(number)s, %(at)s, %(first)s, %(last)s, %(root)s, %(previous)s, %(settled)s, %(key)s, %(signature)s,
                %(upto)s, %(holders)s)
        """,
        {
            "number": one.number, "at": one.at, "first": one.first, "last": one.last, "root": one.root,
            "previous": one.previous, "settled": one.settled, "key": one.key, "signature": signed.signature,
            "upto": pending.upto if pending else None, "holders": sorted(pending.holders) if pending else None,
        },
    )  # fmt: skip


async def have_key(tx: Tx, key: PublicKey) -> None:
    """Note a public key."""
    await tx.run(
        """
        INSERT INTO ledger_keys (id, public, at, previous, endorsement)
        VALUES (%(id)s, %(public)s, %(at)s, %(previous)s, %(endorsement)s) ON CONFLICT (id) DO NOTHING
        """,
        {"id": key.id, "public": key.public, "at": key.at, "previous": key.previous, "endorsement": key.endorsement},
    )


# Checkpoints, keys, leaves


async def newest(tx: Tx) -> Signed | None:
    """The last checkpoint; None before the first."""
    return _signed(await tx.tuples(_CHECKPOINTS + "ORDER BY number DESC LIMIT 1"))


async def pending(tx: Tx) -> Writers | None:
    """Whose rows were still to come when the last checkpoint was made."""
    row = await tx.row("SELECT pending_upto, pending_holders FROM ledger_checkpoints ORDER BY number DESC LIMIT 1")
    if row is None or row["pending_upto"] is None:
        return None
    return Writers(row["pending_upto"], frozenset(row["pending_holders"]))


async def checkpoint(tx: Tx, number: int) -> Signed | None:
    """One checkpoint by its number."""
    return _signed(await tx.tuples(_CHECKPOINTS + "WHERE number = %(number)s", {"number": number}))


async def checkpoint_of(tx: Tx, position: int) -> Signed | None:
    """The checkpoint whose tree has this position."""
    return _signed(
        await tx.tuples(
            _CHECKPOINTS + "WHERE last >= %(at)s AND first <= %(at)s ORDER BY number LIMIT 1",
            {"at": position},
        )
    )


async def checkpoints(tx: Tx, after: int, at_most: int) -> list[Signed]:
    """Checkpoints in their order, those after a number."""
    found = await tx.tuples(
        _CHECKPOINTS + "WHERE number > %(after)s ORDER BY number LIMIT %(most)s",
        {"after": after, "most": at_most},
    )
    return [one for row in found if (one := _signed([row]))]


async def keys(tx: Tx) -> dict[str, PublicKey]:
    """Every public key, by its id, the oldest first."""
    found = await tx.tuples("SELECT id, public, at, previous, endorsement FROM ledger_keys ORDER BY at, id")
    return {row[0]: PublicKey(row[0], row[1], row[2].astimezone(UTC), row[3], row[4]) for row in found}


async def leaves(tx: Tx, first: int, last: int) -> list[tuple[int, int, bytes]]:
    """Position, seq and hash of the leaves from one position to another."""
    return await tx.tuples(
        "SELECT position, seq, leaf FROM ledger_leaves WHERE position BETWEEN %(first)s AND %(last)s ORDER BY position",
        {"first": first, "last": last},
    )


async def position_of(tx: Tx, seq: int) -> int | None:
    """Where a record is sealed; None when it is not yet."""
    row = await tx.row("SELECT position FROM ledger_leaves WHERE seq = %(seq)s", {"seq": seq})
    return row["position"] if row else None


async def sealed_until(tx: Tx) -> int:
    """The highest position; 0 when nothing is sealed."""
    row = await tx.row("SELECT coalesce(max(position), 0) AS position FROM ledger_leaves")
    assert row is not None  # an aggregate is one row
    return int(row["position"])


async def strays(tx: Tx, at_most: int) -> list[tuple[int, datetime]]:
    """Rows without a leaf: seq and instant, the lowest seq first."""
    return await tx.tuples(
        """
        SELECT seq, at FROM ledger r WHERE NOT EXISTS (SELECT FROM ledger_leaves l WHERE l.seq = r.seq)
        ORDER BY seq LIMIT %(most)s
        """,
        {"most": at_most},
    )


# Records


async def rows_of(tx: Tx, seqs: Iterable[int]) -> list[Row]:
    """The records with these seqs, in no order."""
    found = await tx.tuples(ROWS + "WHERE seq = ANY(%(seqs)s::bigint[])", {"seqs": list(seqs)})
    return [Row(*row) for row in found]


async def text_hashes(tx: Tx, seqs: Iterable[int]) -> list[tuple[int, bytes]]:
    """Of the texts that are kept of these records: seq and salted hash."""
    return await tx.tuples(
        """
        SELECT seq, sha256(convert_to(salt || text, 'UTF8')) FROM ledger_texts WHERE seq = ANY(%(seqs)s::bigint[])
        """,
        {"seqs": list(seqs)},
    )


async def text_of(tx: Tx, seq: int) -> tuple[str, str] | None:
    """Salt and text of a record; None when it has none or it was erased."""
    found = await tx.tuples("SELECT salt, text FROM ledger_texts WHERE seq = %(seq)s", {"seq": seq})
    return found[0] if found else None


async def page(tx: Tx, wanted: Filter) -> list[Row]:
    """Records, the newest first, found by an index and never by counting through what comes before."""
    conditions: list[LiteralString] = []
    params: dict[str, Any] = {
        "task": wanted.task, "box": wanted.box, "actor": wanted.actor, "via": wanted.via, "action": wanted.action,
        "outcome": wanted.outcome, "since": wanted.since, "until": wanted.until, "limit": wanted.limit,
    }  # fmt: skip
    if wanted.task is not None:
        conditions.append("task = %(task)s")
    if wanted.box is not None:
        conditions.append("box = %(box)s")
    if wanted.actor is not None:
        conditions.append("actor = %(actor)s")
    if wanted.via is not None:
        conditions.append("via = %(via)s")
    if wanted.action is not None:
        conditions.append("action = %(action)s")
    if wanted.outcome == "refused":
        conditions.append("outcome <> 'ok' AND outcome <> 'error'")
    elif wanted.outcome is not None:
        conditions.append(
            "outcome = %(outcome)s" if wanted.outcome == "ok" else "outcome <> 'ok' AND outcome = %(outcome)s"
        )
    if wanted.since is not None:
        conditions.append("at >= %(since)s")
    if wanted.until is not None:
        conditions.append("at < %(until)s")
    if wanted.after is not None:
        last = await tx.row("SELECT at FROM ledger WHERE seq = %(seq)s", {"seq": wanted.after})
        if last is None:
            return []
        conditions.append("(at, seq) < (%(after_at)s, %(after)s)")
        params |= {"after_at": last["at"], "after": wanted.after}
    where: LiteralString = "WHERE " + " AND ".join(conditions) if conditions else ""
    found = await tx.tuples(ROWS + where + " ORDER BY at DESC, seq DESC LIMIT %(limit)s", params)
    return [Row(*row) for row in found]


# Texts


async def erase_texts(tx: Tx, before: datetime, at_most: int) -> int:
    """Delete texts of records from before an instant; how many."""
    return await tx.run(
        """
        DELETE FROM ledger_texts WHERE seq IN (
            SELECT seq FROM ledger_texts WHERE at < %(before)s ORDER BY at LIMIT %(most)s FOR UPDATE SKIP LOCKED
        )
        """,
        {"before": before, "most": at_most},
    )


async def erase_texts_of_task(tx: Tx, task: str) -> int:
    """Delete every text of a task's records; how many."""
    return await tx.run(
        "DELETE FROM ledger_texts WHERE seq IN (SELECT seq FROM ledger WHERE task = %(task)s)", {"task": task}
    )


def _signed(rows: Sequence[tuple[Any, ...]]) -> Signed | None:
    if not rows:
        return None
    number, at, first, last, root, previous, settled, key, signature = rows[0]
    return Signed(Checkpoint(number, at.astimezone(UTC), first, last, root, previous, settled, key), signature)
