"""The records that one person may read, in Postgres. Takes a transaction, never commits and never decides.

A page is found by walking an index backwards from where it begins, in each place where its records can be, and never
by counting through what comes before. Where few of the records that somebody may read are the ones that are asked for,
a walk ends after `LOOKED` of them: the page then says how far it looked.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from typing import Any, LiteralString

from keel.db import Tx
from keel.ledger.canonical import Row
from rift.records.decide import Route
from rift.records.model import UNREFUSED, Asked, Place, Reader, Sources

LOOKED = 1_000
"""So many records are looked at in one place for one page."""

_END = Place(datetime.max.replace(tzinfo=UTC), 0)
_BEGIN = Place(datetime.min.replace(tzinfo=UTC), 0)

_COLUMNS: LiteralString = """
    SELECT l.seq, l.at, l.actor, l.via, l.action, l.task, l.box, l.outcome, l.duration_us, l.arguments::text,
           l.text_sha256
"""
_FITS: LiteralString = """
    (%(task)s::text IS NULL OR l.task = %(task)s) AND (%(box)s::text IS NULL OR l.box = %(box)s)
    AND (%(actor)s::text IS NULL OR l.actor = %(actor)s) AND (%(action)s::text IS NULL OR l.action = %(action)s)
    AND CASE WHEN %(outcome)s::text IS NULL THEN true
             WHEN %(outcome)s = 'refused' THEN l.outcome <> ALL(%(unrefused)s)
             ELSE l.outcome = %(outcome)s END
"""
# The bounds stand twice: rows compared as pairs are found by the index, and instants say which months to look in.
_WITHIN_LEDGER: LiteralString = """
    l.at <= %(end_at)s AND l.at >= %(begin_at)s
    AND (l.at, l.seq) < (%(end_at)s, %(end_seq)s) AND (l.at, l.seq) >= (%(begin_at)s, %(begin_seq)s)
"""
_WITHIN_NOTED: LiteralString = """
    r.at <= %(end_at)s AND r.at >= %(begin_at)s
    AND (r.at, r.seq) < (%(end_at)s, %(end_seq)s) AND (r.at, r.seq) >= (%(begin_at)s, %(begin_seq)s)
"""
# Looked up on purpose for one record after the other, until there are enough: a join would be of all there are.
_READABLE: LiteralString = """
    (l.actor = %(user)s OR coalesce((
        SELECT true FROM ledger_readers r WHERE r.reader = ANY(%(names)s::text[]) AND r.at = l.at AND r.seq = l.seq
        LIMIT 1
    ), false))
"""
_OWN: LiteralString = "(SELECT l.at, l.seq FROM ledger l WHERE %(own)s AND l.actor = %(user)s AND "
_NOTED: LiteralString = """
    (SELECT one.at, one.seq FROM unnest(%(names)s::text[]) AS name (reader) CROSS JOIN LATERAL (
        SELECT r.at, r.seq FROM ledger_readers r WHERE r.reader = name.reader AND
"""
_NOTED_THAT_FIT: LiteralString = """
    (SELECT one.at, one.seq FROM unnest(%(names)s::text[]) AS name (reader) CROSS JOIN LATERAL (
        SELECT r.at, r.seq FROM (SELECT r.at, r.seq FROM ledger_readers r WHERE r.reader = name.reader AND
"""
_THAT_FIT: LiteralString = """
        ORDER BY r.at DESC, r.seq DESC LIMIT %(looked)s) r
        CROSS JOIN LATERAL (SELECT FROM ledger l WHERE l.at = r.at AND l.seq = r.seq AND
"""
_NOBODYS: LiteralString = """
    (SELECT l.at, l.seq FROM ledger l
     WHERE %(nobodys)s AND l.actor IS NULL AND l.task IS NULL AND l.box IS NULL AND
"""
_LIMIT: LiteralString = " ORDER BY at DESC, seq DESC LIMIT %(limit)s"
_LIMIT_NOTED: LiteralString = " ORDER BY r.at DESC, r.seq DESC LIMIT %(limit)s) one) "
_LAST: LiteralString = " ORDER BY at DESC, seq DESC OFFSET %(looked)s - 1 LIMIT 1)"
_LAST_NOTED: LiteralString = " ORDER BY r.at DESC, r.seq DESC OFFSET %(looked)s - 1 LIMIT 1) one) "

_FOUND: LiteralString = "FROM (SELECT at, seq FROM found ORDER BY at DESC, seq DESC LIMIT %(limit)s) f "
_REACHED: LiteralString = "SELECT at, seq FROM ("
_NOTED_FOR: LiteralString = """
    , ARRAY(SELECT r.reader FROM ledger_readers r
            WHERE r.reader = ANY(%(names)s::text[]) AND r.at = l.at AND r.seq = l.seq)
"""

_ALL: LiteralString = (
    "WITH found AS ("
    + _OWN + _WITHIN_LEDGER + " AND " + _FITS + _LIMIT + ") UNION "
    + _NOTED_THAT_FIT + _WITHIN_NOTED + _THAT_FIT + _FITS + " OFFSET 0) fits" + _LIMIT_NOTED + " UNION "
    + _NOBODYS + _WITHIN_LEDGER + " AND " + _FITS + _LIMIT + "))"
    + _COLUMNS + _FOUND + "JOIN ledger l ON l.at = f.at AND l.seq = f.seq ORDER BY l.at DESC, l.seq DESC"
)  # fmt: skip
_OF_TASK: LiteralString = (
    _COLUMNS + "FROM ledger l WHERE l.task = %(task)s AND " + _WITHIN_LEDGER + " AND " + _FITS + " AND " + _READABLE
    + _LIMIT
)  # fmt: skip
_OF_BOX: LiteralString = (
    _COLUMNS + "FROM ledger l WHERE l.box = %(box)s AND " + _WITHIN_LEDGER + " AND " + _FITS + " AND " + _READABLE
    + _LIMIT
)  # fmt: skip
_FLOOR: LiteralString = (
    _REACHED
    + _OWN + _WITHIN_LEDGER + _LAST + " UNION ALL " + _NOTED + _WITHIN_NOTED + _LAST_NOTED + " UNION ALL "
    + _NOBODYS + _WITHIN_LEDGER + _LAST + ") reached ORDER BY at DESC, seq DESC LIMIT 1"
)  # fmt: skip
_ONE: LiteralString = _COLUMNS + _NOTED_FOR + "FROM ledger l WHERE l.seq = %(seq)s"


async def floor(tx: Tx, reader: Reader, where: Sources, asked: Asked) -> Place | None:
    """How far back a page looks at most, so that in no place more than `LOOKED` records are read; None: to the end."""
    found = await tx.tuples(_FLOOR, _params(reader, where, asked, None))
    return Place(found[0][0].astimezone(UTC), found[0][1]) if found else None


async def page(
    tx: Tx, reader: Reader, by: Route, where: Sources, asked: Asked, floor: Place | None = None
) -> list[Row]:
    """The newest records that fit and that the reader may read, down to `floor`, which is the last one looked at."""
    sql = {"task": _OF_TASK, "box": _OF_BOX, "all": _ALL}[by]
    return [Row(*row) for row in await tx.tuples(sql, _params(reader, where, asked, floor))]


async def find(tx: Tx, reader: Reader, seq: int) -> tuple[Row, list[str]] | None:
    """One record, and for which of the reader's names it is noted."""
    found = await tx.tuples(_ONE, {"names": list(reader.names), "seq": seq})
    return (Row(*found[0][:-1]), found[0][-1]) if found else None


async def in_task(tx: Tx, reader: Reader, task: str) -> bool:
    """Whether a task is the reader's, or has a box of an organization that they are an admin of."""
    row = await tx.row(
        """
        SELECT EXISTS (SELECT FROM tasks WHERE id = %(task)s AND owner = %(user)s)
            OR EXISTS (SELECT FROM boxes b JOIN repos r ON r.id = b.repo
                       WHERE b.task = %(task)s AND r.org = ANY(%(orgs)s)) AS stake
        """,
        {"task": task, "user": reader.user, "orgs": list(reader.orgs)},
    )
    return bool(row and row["stake"])


async def in_box(tx: Tx, reader: Reader, box: str) -> bool:
    """Whether a box is of an organization that the reader is an admin of, or of a task of theirs."""
    row = await tx.row(
        """
        SELECT FROM boxes b JOIN repos r ON r.id = b.repo LEFT JOIN tasks t ON t.id = b.task
        WHERE b.id = %(box)s AND (t.owner = %(user)s OR r.org = ANY(%(orgs)s))
        """,
        {"box": box, "user": reader.user, "orgs": list(reader.orgs)},
    )
    return row is not None


async def boxes_named(tx: Tx, reader: Reader, name: str, task: str | None, at_most: int) -> list[str]:
    """Ids of the boxes of this name in which the reader has a stake, the newest first; of one task, or of any."""
    found = await tx.rows(
        """
        SELECT b.id FROM boxes b JOIN repos r ON r.id = b.repo LEFT JOIN tasks t ON t.id = b.task
        WHERE b.name = %(name)s AND (%(task)s::text IS NULL OR b.task = %(task)s)
          AND (t.owner = %(user)s OR r.org = ANY(%(orgs)s))
        ORDER BY b.created_at DESC, b.id LIMIT %(most)s
        """,
        {"name": name, "task": task, "user": reader.user, "orgs": list(reader.orgs), "most": at_most},
    )
    return [row["id"] for row in found]


async def names(
    tx: Tx, reader: Reader, tasks: Collection[str], boxes: Collection[str]
) -> tuple[dict[str, str], dict[str, str]]:
    """Names of the reader's own tasks among these, and of these boxes, by id."""
    own = await tx.rows(
        "SELECT id, name FROM tasks WHERE id = ANY(%(ids)s) AND owner = %(user)s",
        {"ids": list(tasks), "user": reader.user},
    )
    theirs = await tx.rows("SELECT id, name FROM boxes WHERE id = ANY(%(ids)s)", {"ids": list(boxes)})
    return {row["id"]: row["name"] for row in own}, {row["id"]: row["name"] for row in theirs}


async def of_task(tx: Tx, task: str) -> tuple[str | None, list[tuple[str, str]]]:
    """A task's owner (None where there is no such task) and its boxes, each with its organization."""
    owner = await tx.row("SELECT owner FROM tasks WHERE id = %(task)s", {"task": task})
    boxes = await tx.tuples(
        "SELECT b.id, r.org FROM boxes b JOIN repos r ON r.id = b.repo WHERE b.task = %(task)s ORDER BY b.id",
        {"task": task},
    )
    return owner["owner"] if owner else None, boxes


async def count_texts(tx: Tx, task: str, boxes: Sequence[str] | None) -> int:
    """How many texts are kept of a task's records, or of those of these boxes."""
    row = await tx.row(
        """
        SELECT count(*) AS n FROM ledger l JOIN ledger_texts t ON t.seq = l.seq
        WHERE l.task = %(task)s AND (%(boxes)s::text[] IS NULL OR l.box = ANY(%(boxes)s))
        """,
        {"task": task, "boxes": list(boxes) if boxes is not None else None},
    )
    assert row is not None  # an aggregate is one row
    return int(row["n"])


async def erase_texts(tx: Tx, task: str, boxes: Sequence[str] | None) -> int:
    """Delete the texts of a task's records, or of those of these boxes; how many."""
    return await tx.run(
        """
        DELETE FROM ledger_texts WHERE seq IN (
            SELECT seq FROM ledger l
            WHERE l.task = %(task)s AND (%(boxes)s::text[] IS NULL OR l.box = ANY(%(boxes)s))
        )
        """,
        {"task": task, "boxes": list(boxes) if boxes is not None else None},
    )


def _params(reader: Reader, where: Sources, asked: Asked, floor: Place | None) -> dict[str, Any]:
    end = asked.before or _END
    if asked.until is not None and Place(asked.until, 0) < end:
        end = Place(asked.until, 0)
    begin = Place(asked.since, 0) if asked.since is not None else _BEGIN
    if floor is not None and floor > begin:
        begin = floor
    return {
        "user": reader.user, "own": where.own, "names": list(where.names), "nobodys": where.nobodys,
        "task": asked.task, "box": asked.box, "actor": asked.actor, "action": asked.action, "outcome": asked.outcome,
        "unrefused": ["ok", "error", *UNREFUSED],
        "end_at": end.at, "end_seq": end.seq, "begin_at": begin.at, "begin_seq": begin.seq, "limit": asked.limit,
        "looked": LOOKED,
    }  # fmt: skip
