"""The audit's pages and sums in Postgres. Takes a transaction and never commits."""

from __future__ import annotations

from datetime import datetime
from typing import Any, LiteralString

from keel.db import Tx
from onbe.records.model import By, Claim, Entry, Sealed, Sum, Wanted

_ENTRIES = """
    SELECT seq, at, actor, via, action, task, outcome, duration_us, arguments::text FROM ledger
"""
_COUNTED = """
    count(*) FILTER (WHERE outcome = 'ok'), count(*) FILTER (WHERE outcome <> 'ok')
    FROM ledger WHERE at >= %(since)s AND at < %(until)s
"""
_SUMS: dict[By, LiteralString] = {
    "agent": "SELECT via, " + _COUNTED,
    "sponsor": "SELECT actor, " + _COUNTED,
    "reason": "SELECT outcome, " + _COUNTED + " AND outcome <> 'ok'",
}


async def page(tx: Tx, wanted: Wanted) -> list[Entry]:
    """Records, the newest first. What was allowed and what was denied are found apart, each by an index of its own, and
    merged: a thousand denials are not gone through for the one grant among them.
    """
    conditions: list[LiteralString] = []
    params: dict[str, Any] = {
        "sponsor": wanted.sponsor, "agent": wanted.agent, "task": wanted.task, "reason": wanted.decision,
        "since": wanted.since, "until": wanted.until, "limit": wanted.limit,
    }  # fmt: skip
    if wanted.sponsor is not None:
        conditions.append("actor = %(sponsor)s")
    if wanted.agent is not None:
        conditions.append("via = %(agent)s")
    if wanted.task is not None:
        conditions.append("task = %(task)s")
    if wanted.since is not None:
        conditions.append("at >= %(since)s")
    if wanted.until is not None:
        conditions.append("at < %(until)s")
    if wanted.after is not None:
        conditions.append("(at, seq) < (%(after_at)s, %(after_seq)s)")
        params["after_at"], params["after_seq"] = wanted.after
    if wanted.sponsor is wanted.agent is wanted.task is None:  # the words of the indexes that are for this alone
        conditions.append("seq > 0" if wanted.decision in (None, "allow", "deny") else "seq > -1")
    kinds: list[LiteralString] = []
    if wanted.decision in (None, "allow"):
        kinds.append("outcome = 'ok'")
    if wanted.decision in (None, "deny"):
        kinds.append("outcome <> 'ok'")
    if not kinds:
        kinds.append("outcome <> 'ok' AND outcome = %(reason)s")
    newest: LiteralString = " ORDER BY at DESC, seq DESC LIMIT %(limit)s"
    branches = [_ENTRIES + "WHERE " + " AND ".join([kind, *conditions]) + newest for kind in kinds]
    whole = branches[0] if len(branches) == 1 else "(" + ") UNION ALL (".join(branches) + ")" + newest
    found = await tx.tuples(whole, params)
    return [Entry(*row) for row in found]


async def one(tx: Tx, seq: int) -> Entry | None:
    """A record by its number; None where no row has it."""
    found = await tx.tuples(_ENTRIES + "WHERE seq = %(seq)s", {"seq": seq})
    return Entry(*found[0]) if found else None


async def sums(tx: Tx, by: By, since: datetime, until: datetime, at_most: int) -> list[Sum]:
    """How many records were allowed and denied, those with the most first. By `reason` it is denials alone."""
    found = await tx.tuples(
        _SUMS[by] + " GROUP BY 1 ORDER BY count(*) DESC, 1 LIMIT %(most)s",
        {"since": since, "until": until, "most": at_most},
    )
    return [Sum(*row) for row in found]


# The sink


async def claim(tx: Tx, holder: str, now: datetime, until: datetime) -> Claim | None:
    """Be the one who hands on, until an instant; None while another one is, or the sink is to be left alone."""
    return await tx.one(
        Claim,
        """
        UPDATE ledger_sink SET holder = %(holder)s, held_until = %(until)s
        WHERE (held_until IS NULL OR held_until <= %(now)s) AND (not_before IS NULL OR not_before <= %(now)s)
        RETURNING position, failures
        """,
        {"holder": holder, "now": now, "until": until},
    )


async def taken(tx: Tx, holder: str, before: int, position: int, until: datetime) -> bool:
    """Note how far the sink has the ledger now; False where another one has become the one who hands on."""
    return bool(
        await tx.run(
            """
            UPDATE ledger_sink SET position = %(position)s, failures = 0, not_before = NULL, held_until = %(until)s
            WHERE holder = %(holder)s AND position = %(before)s
            """,
            {"holder": holder, "before": before, "position": position, "until": until},
        )
    )


async def not_taken(tx: Tx, holder: str, not_before: datetime) -> None:
    """Note that a delivery failed, and let anybody try again from an instant on."""
    await tx.run(
        """
        UPDATE ledger_sink SET failures = failures + 1, not_before = %(at)s, holder = NULL, held_until = NULL
        WHERE holder = %(holder)s
        """,
        {"holder": holder, "at": not_before},
    )


async def let_go(tx: Tx, holder: str) -> None:
    """Hand on no more."""
    await tx.run(
        "UPDATE ledger_sink SET holder = NULL, held_until = NULL WHERE holder = %(holder)s", {"holder": holder}
    )


async def delivered(tx: Tx) -> int:
    """The position up to which the sink has everything."""
    row = await tx.row("SELECT position FROM ledger_sink")
    return int(row["position"]) if row else 0


async def sealed(tx: Tx, first: int, last: int) -> list[Sealed]:
    """What is sealed at the positions from one to another, in their order."""
    found = await tx.tuples(
        """
        SELECT l.position, l.seq, l.leaf, r.seq, at, actor, via, action, task, outcome, duration_us, arguments::text
        FROM ledger_leaves l LEFT JOIN ledger r ON r.seq = l.seq
        WHERE position BETWEEN %(first)s AND %(last)s ORDER BY position
        """,
        {"first": first, "last": last},
    )
    return [Sealed(row[0], row[1], row[2], None if row[3] is None else Entry(*row[3:])) for row in found]
